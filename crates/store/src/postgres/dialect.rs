//! What PostgreSQL says in another way than SQLite, whose words the shared SQL is written in. `sqlite/dialect.rs` has the same
//! words.

/// What time it is, in microseconds since 1970.
pub(super) const NOW: &str =
    "select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)";

/// The id of the session with a number.
pub(super) const SESSION_ID: &str = "select id from session where no = ?1";
/// The same of a workflow.
pub(super) const WORKFLOW_ID: &str = "select id from workflow where no = ?1";

/// Which index a query goes through, PostgreSQL says itself.
pub(super) const fn by_index(_: &str) -> &'static str {
    ""
}

/// A column of this name is a word of PostgreSQL's own.
const USER: &str = "user";

/// A statement as PostgreSQL takes it: its places for values, the column `user`, and without checksums, which rows do not have
/// here.
pub(super) fn spoken(sql: &str) -> String {
    let sql = sql.replace(", sum from ", " from ").replace(", sum = null", "");
    let mut out = String::with_capacity(sql.len() + 16);
    let mut rest = sql.as_str();
    let mut places = 0;
    while let Some(first) = rest.chars().next() {
        let (token, behind) = rest.split_at(length_of_token(rest));
        rest = behind;
        match first {
            '?' => {
                places += 1;
                let number = if token.len() > 1 { &token[1..] } else { &places.to_string() };
                out.push('$');
                out.push_str(number);
                if rest.starts_with(" is null") {
                    // Nothing else would say which type it has. Only texts are asked so.
                    out.push_str("::bytea");
                }
            }
            _ if token == USER => out.push_str("\"user\""),
            _ => out.push_str(token),
        }
    }
    out
}

/// How long the name, the place for a value, the text in quotes, or else the character is that SQL begins with.
fn length_of_token(sql: &str) -> usize {
    let mut chars = sql.char_indices();
    let Some((_, first)) = chars.next() else { return 0 };
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = |is_in: &dyn Fn(char) -> bool| {
        sql[first.len_utf8()..].find(|c| !is_in(c)).map_or(sql.len(), |at| at + first.len_utf8())
    };
    match first {
        '\'' => sql[1..].find('\'').map_or(sql.len(), |at| at + 2),
        '?' => end(&|c| c.is_ascii_digit()),
        first if is_of_name(first) => end(&is_of_name),
        first => first.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_spoken_as_postgresql_has_them() {
        for (sql, expected) in [
            (
                "select no, sum from x where user = ?2 and (?1 is null or y = ?1) and z <> 'user?'",
                "select no from x where \"user\" = $2 and ($1::bytea is null or y = $1) and z <> 'user?'",
            ),
            (
                "where user = ? and x.user = ? and users = ?10",
                "where \"user\" = $1 and x.\"user\" = $2 and users = $10",
            ),
            (
                "update x set a = ?1, sum = null where b = 'it''s ?'",
                "update x set a = $1 where b = 'it''s ?'",
            ),
            ("select sum(x) from y", "select sum(x) from y"),
        ] {
            assert_eq!(spoken(sql), expected);
        }
    }
}
