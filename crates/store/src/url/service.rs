//! The file of services that libpq reads: `[name]`, and below it lines of `parameter=value`.

/// What a file says of a service; nothing where it has none of that name.
pub(super) fn find<'a>(
    text: &'a str,
    wanted: &str,
) -> Result<Option<Vec<(&'a str, &'a str)>>, String> {
    let mut found = None;
    let mut is_inside = false;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            if found.is_some() {
                break;
            }
            is_inside = name == wanted;
            if is_inside {
                found = Some(Vec::new());
            }
        } else if let Some(found) = found.as_mut().filter(|_| is_inside) {
            let bad = || format!("a line of the service {wanted:?} is not `parameter=value`");
            let (name, value) = line.split_once('=').ok_or_else(bad)?;
            found.push((name.trim(), value.trim()));
        }
    }
    Ok(found)
}
