//! Statements that write rows together with their checksums. They are written as if there were no checksums, and get them
//! here: so nobody has to repeat all the columns of a table, and a store needs no triggers, which SQLite would have to read
//! each time a store is opened.
//!
//! An update carries on whether the row was whole before: what is damaged stays so until its checksum is set to null, which
//! says that the whole row is written anew.

use super::sums::Table;

/// The text of a statement that writes, with checksums. Made once.
macro_rules! summed {
    ($sql:expr) => {{
        static SQL: std::sync::LazyLock<String> =
            std::sync::LazyLock::new(|| $crate::sqlite::summed::with_sums($sql));
        SQL.as_str()
    }};
}
pub(super) use summed;

/// Tables that number their rows by themselves, with the next number in SQL, and columns that begin with zero.
const NUMBERED: &[(&str, &str)] = &[
    ("session", "(select coalesce(max(seq), 0) + 1 from sqlite_sequence where name = 'session')"),
    ("stream", "(select coalesce(max(seq), 0) + 1 from sqlite_sequence where name = 'stream')"),
    ("blob", "(select coalesce(max(no), 0) + 1 from blob)"),
    ("command", "(select coalesce(max(seq), 0) + 1 from sqlite_sequence where name = 'command')"),
    ("workflow", "(select coalesce(max(seq), 0) + 1 from sqlite_sequence where name = 'workflow')"),
    ("feed", "(select coalesce(max(seq), 0) + 1 from sqlite_sequence where name = 'feed')"),
    ("token", "(select coalesce(max(seq), 0) + 1 from sqlite_sequence where name = 'token')"),
];
const ZERO: &[(&str, &str)] = &[
    ("session", "title_indexed"),
    ("command", "taken"),
    ("workflow", "epoch"),
    ("workflow", "lease_until"),
    ("workflow", "told"),
];

/// A statement that inserts into one table that has checksums, or updates it, with the checksum. Anything else comes back
/// as it is, and fails where it is prepared if it was meant to be more.
pub(super) fn with_sums(sql: &str) -> String {
    let sql = in_one_line(sql);
    inserting(&sql).or_else(|| updating(&sql)).unwrap_or(sql)
}

/// Single spaces between words, whatever quotes have.
fn in_one_line(sql: &str) -> String {
    let mut line = String::with_capacity(sql.len());
    let mut is_quoted = false;
    for c in sql.trim().chars() {
        is_quoted ^= c == '\'';
        match c {
            _ if is_quoted => line.push(c),
            c if c.is_whitespace() => {
                if !line.ends_with(' ') {
                    line.push(' ');
                }
            }
            c => line.push(c),
        }
    }
    line
}

/// Where a text stands in SQL outside brackets and quotes.
fn find(sql: &str, text: &str) -> Option<usize> {
    let (mut depth, mut is_quoted) = (0u32, false);
    let (sql, text) = (sql.as_bytes(), text.as_bytes());
    for (at, byte) in sql.iter().enumerate() {
        if depth == 0 && !is_quoted && text.first() == Some(byte) && sql[at..].starts_with(text) {
            return Some(at);
        }
        match byte {
            b'\'' => is_quoted = !is_quoted,
            b'(' if !is_quoted => depth += 1,
            b')' if !is_quoted => depth = depth.saturating_sub(1),
            _ => (),
        }
    }
    None
}

/// The parts between commas.
fn parts(mut list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    while let Some(at) = find(list, ",") {
        parts.push(list[..at].trim());
        list = &list[at + 1..];
    }
    parts.push(list.trim());
    parts
}

/// What is in the brackets that a text begins with, and what comes after them.
fn bracketed(sql: &str) -> Option<(&str, &str)> {
    let inner = sql.trim_start().strip_prefix('(')?;
    let end = find(inner, ")")?;
    Some((&inner[..end], &inner[end + 1..]))
}

/// The first word, and what comes after it.
fn word(sql: &str) -> (&str, &str) {
    let end = sql.find([' ', '(']).unwrap_or(sql.len());
    (&sql[..end], &sql[end..])
}

fn checksum(table: &Table, value: impl Fn(&'static str) -> String) -> String {
    let values: Vec<String> = table.columns.iter().map(|column| value(column)).collect();
    format!("checksum({})", values.join(", "))
}

fn updating(sql: &str) -> Option<String> {
    let at = if sql.starts_with("with ") { find(sql, " update ")? + 1 } else { 0 };
    let (name, rest) = word(sql[at..].strip_prefix("update ")?);
    let table = Table::of(name)?;
    let set = rest.strip_prefix(" set ")?;
    let (set, rest) = set.split_at(end_of_set(set));
    Some(format!("{}update {name} set {}{rest}", &sql[..at], assigned(table, set)))
}

fn end_of_set(set: &str) -> usize {
    [" where ", " returning "].iter().filter_map(|word| find(set, word)).min().unwrap_or(set.len())
}

/// SQLite computes constant arguments once, into places of their own where one of the first 32 is constant. One that comes
/// later and is the only one would be written over: it is made to look as if it could change.
const MARKED: usize = 32;

/// What is set, and the checksum that follows from it.
fn assigned(table: &Table, set: &str) -> String {
    let pairs: Vec<(&str, &str)> = parts(set)
        .into_iter()
        .filter_map(|part| part.split_once('='))
        .map(|(column, value)| (column.trim(), value.trim()))
        .collect();
    let value_of = |column: &str| pairs.iter().find(|(one, _)| *one == column).map(|(_, to)| *to);
    let name = table.name;
    let old = |column: &str| format!("{name}.{column}");
    let after = checksum(table, |column| match value_of(column) {
        None => old(column),
        Some(value) if table.columns.iter().position(|one| *one == column) >= Some(MARKED) => {
            format!("iif({} is null, null, {value})", old(table.key[0]))
        }
        Some(value) => format!("({value})"),
    });
    let sum = match value_of("sum") {
        Some("null") => after,
        _ => format!("carried({name}.sum, {}, {after})", checksum(table, old)),
    };
    let kept: Vec<String> = pairs
        .iter()
        .filter(|(column, _)| *column != "sum")
        .map(|(column, value)| format!("{column} = {value}"))
        .chain([format!("sum = {sum}")])
        .collect();
    kept.join(", ")
}

fn inserting(sql: &str) -> Option<String> {
    let into = find(sql, "into ").filter(|_| sql.starts_with("insert "))?;
    let (verb, rest) = sql.split_at(into + "into ".len());
    let (name, rest) = word(rest);
    let table = Table::of(name)?;
    let (columns, rest) = bracketed(rest)?;
    let (values, rest) = bracketed(rest.strip_prefix(" values")?)?;
    let mut pairs: Vec<(&str, &str)> = parts(columns).into_iter().zip(parts(values)).collect();
    let is_given =
        |pairs: &[(&str, &str)], column: &str| pairs.iter().any(|(one, _)| *one == column);
    if let Some((_, next)) = NUMBERED.iter().find(|(one, _)| *one == name)
        && !is_given(&pairs, "no")
    {
        pairs.push(("no", next));
    }
    for (_, column) in ZERO.iter().filter(|(one, _)| *one == name) {
        if !is_given(&pairs, column) {
            pairs.push((column, "0"));
        }
    }
    let sum = checksum(table, |column| {
        let given = pairs.iter().find(|(one, _)| *one == column);
        given.map_or("null", |(_, value)| value).to_owned()
    });
    let (columns, values): (Vec<&str>, Vec<&str>) =
        pairs.iter().copied().chain([("sum", sum.as_str())]).unzip();
    let rest = match find(rest, " do update set ") {
        None => rest.to_owned(),
        Some(at) => {
            let (conflict, set) = rest.split_at(at + " do update set ".len());
            let (set, end) = set.split_at(end_of_set(set));
            format!("{conflict}{}{end}", assigned(table, set))
        }
    };
    Some(format!("{verb}{name} ({}) values ({}){rest}", columns.join(", "), values.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::Connection;
    use rusqlite::types::Value;

    use super::*;
    use crate::sqlite::sums::{TABLES, intact};
    use crate::sqlite::{connection, schema};

    fn store(folder: &Path) -> Connection {
        let path = folder.join("store.db");
        connection::create(&path).unwrap();
        schema::migrate(&path, schema::STEPS).unwrap();
        connection::writer(&path).unwrap()
    }

    #[test]
    fn statements_get_the_checksums_of_what_they_write() {
        let sum = "checksum(agent_use.session, agent_use.agent, (runs + 1))";
        assert_eq!(
            with_sums("update agent_use\n    set runs = runs + 1 where agent = 'a, b  (c'"),
            format!(
                "update agent_use set runs = runs + 1, sum = carried(agent_use.sum, checksum(agent_use.session, \
                 agent_use.agent, agent_use.runs), {sum}) where agent = 'a, b  (c'"
            )
        );
        assert_eq!(
            with_sums("update agent_use set runs = runs + 1, sum = null returning runs"),
            format!("update agent_use set runs = runs + 1, sum = {sum} returning runs")
        );
        assert_eq!(
            with_sums("insert or replace into holding (session, agent) values (?1, max(?2, 'x'))"),
            "insert or replace into holding (session, agent, sum) values (?1, max(?2, 'x'), \
             checksum(?1, null, max(?2, 'x'), null))"
        );
        assert_eq!(
            with_sums(
                "insert into agent_use (session, agent, runs) values (?1, ?2, ?3)
                 on conflict do update set runs = runs + excluded.runs"
            ),
            "insert into agent_use (session, agent, runs, sum) values (?1, ?2, ?3, checksum(?1, ?2, ?3)) \
             on conflict do update set runs = runs + excluded.runs, sum = carried(agent_use.sum, \
             checksum(agent_use.session, agent_use.agent, agent_use.runs), \
             checksum(agent_use.session, agent_use.agent, (runs + excluded.runs)))"
        );
        let other = "insert into meta (name, value) values ('terms', ?1)";
        assert_eq!(with_sums(other), other);
    }

    /// The type of each column of a table, as far as something has to be given for it.
    fn given(connection: &Connection, table: &Table) -> Vec<(String, Value)> {
        let is_numbered = NUMBERED.iter().any(|(name, _)| *name == table.name);
        let sql = format!("select name, type from pragma_table_info('{}')", table.name);
        let mut statement = connection.prepare(&sql).unwrap();
        let columns = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        columns
            .map(Result::unwrap)
            .filter(|(name, _): &(String, String)| {
                name != "sum"
                    && !(name == "no" && is_numbered)
                    && !ZERO.contains(&(table.name, name.as_str()))
            })
            .map(|(name, kind)| {
                let value = match kind.to_lowercase().as_str() {
                    "integer" => Value::Integer(7),
                    "real" => Value::Real(0.5),
                    "text" => Value::Text(format!("{name} {}", table.name)),
                    _ => Value::Blob(vec![1, 2, 3]),
                };
                (name, value)
            })
            .collect()
    }

    #[test]
    fn rows_of_every_table_are_whole_and_what_was_damaged_stays_so_until_it_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let connection = store(folder.path());
        for table in TABLES {
            let is_whole = || -> bool {
                let sql = format!("select {} from {}", intact(table.name), table.name);
                connection.query_row(&sql, [], |row| row.get(0)).unwrap()
            };
            let (names, values): (Vec<String>, Vec<Value>) =
                given(&connection, table).into_iter().unzip();
            let marks: Vec<String> = (1..=names.len()).map(|n| format!("?{n}")).collect();
            let insert = with_sums(&format!(
                "insert into {} ({}) values ({})",
                table.name,
                names.join(", "),
                marks.join(", ")
            ));
            let added = connection.execute(&insert, rusqlite::params_from_iter(&values)).unwrap();
            assert_eq!((added, is_whole()), (1, true), "{insert}");
            for column in table.columns.iter().filter(|column| **column != "no") {
                // Its own value, and another, which is a constant.
                let own = names.iter().position(|name| name == column);
                let other = match own.map(|own| &values[own]) {
                    Some(Value::Text(text)) => Value::Text(text.clone() + "!"),
                    Some(Value::Blob(_)) => Value::Blob(vec![9]),
                    Some(Value::Real(_)) => Value::Real(7.25),
                    _ => Value::Integer(1),
                };
                let sql = with_sums(&format!("update {} set {column} = ?1", table.name));
                connection.execute(&sql, [other]).unwrap();
                assert!(is_whole(), "{sql}");
            }
            let last = table.columns.last().unwrap();
            let run = |sql: &str| connection.execute(&with_sums(sql), []).unwrap();
            let set = format!("update {} set {last} = {last}", table.name);
            run(&set);
            assert!(is_whole(), "{set}");
            connection.execute(&format!("update {} set sum = sum + 1", table.name), []).unwrap();
            assert!(!is_whole(), "{set}");
            run(&set);
            assert!(!is_whole(), "{set}");
            run(&format!("{set}, sum = null"));
            assert!(is_whole(), "{set}");
        }
    }

    #[test]
    fn a_row_is_numbered_as_sqlite_would_and_no_number_is_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let connection = store(folder.path());
        let ask = |n: i64| {
            let sql = summed!("insert into command (session, at, what) values (?1, 0, 'stop')");
            connection.execute(sql, [n]).unwrap();
            connection.last_insert_rowid()
        };
        assert_eq!((ask(1), ask(2)), (1, 2));
        connection.execute("delete from command", []).unwrap();
        assert_eq!(ask(3), 3);
    }

    /// Every statement of these files that writes to a table with checksums.
    #[test]
    fn nothing_is_written_without_a_checksum() {
        fn look(folder: &Path, seen: &mut u32) {
            for file in std::fs::read_dir(folder).unwrap() {
                let path = file.unwrap().path();
                if path.is_dir() {
                    look(&path, seen);
                    continue;
                }
                if path.ends_with("summed.rs") {
                    continue;
                }
                let source = std::fs::read_to_string(&path).unwrap();
                let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
                let flat = source.split_whitespace().collect::<Vec<_>>().join(" ");
                for table in TABLES {
                    let name = table.name;
                    let writes = [
                        format!("insert into {name} ("),
                        format!("insert or replace into {name} ("),
                        format!("insert or ignore into {name} ("),
                        format!("update {name} set "),
                    ];
                    for (at, _) in writes.iter().flat_map(|write| flat.match_indices(write)) {
                        let quote = flat[..at].rfind('"').unwrap();
                        let before = flat[..quote].trim_end().trim_end_matches("&format!(");
                        *seen += 1;
                        assert!(
                            before.trim_end().ends_with("summed!("),
                            "{}: {}",
                            path.display(),
                            &flat[quote..flat.len().min(quote + 80)]
                        );
                    }
                }
            }
        }
        let mut seen = 0;
        for folder in ["src/sql", "src/sqlite"] {
            look(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut seen);
        }
        assert!(seen > 40, "only {seen} statements were found");
    }
}
