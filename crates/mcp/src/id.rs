//! Ids as clients give them: a session's id, in full or shortened, or the time at which it was started.

use jiff::Timestamp;
use rethread_domain::id::{Invalid, SessionRef};

/// Digits of a time in milliseconds, from 2001 to 2286.
const MILLIS: usize = 13;

/// Parses the id of a session: a UUID, a prefix of it or its short form, or a time (milliseconds since 1970, or RFC 3339),
/// with which our ids begin.
pub(crate) fn parse(text: &str) -> Result<SessionRef, Invalid> {
    let is_millis = text.len() == MILLIS && text.bytes().all(|byte| byte.is_ascii_digit());
    let millis = if is_millis { text.parse().ok() } else { time(text) };
    match millis.filter(|millis| (0..1 << 48).contains(millis)) {
        Some(millis) => {
            let digits = format!("{millis:012x}");
            format!("{}-{}", &digits[..8], &digits[8..]).parse()
        }
        None => text.parse(),
    }
}

fn time(text: &str) -> Option<i64> {
    let at: Timestamp = text.parse().ok().filter(|_| text.len() <= 40)?;
    Some(at.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rethread_domain::SessionId;

    #[test]
    fn an_id_is_known_by_the_time_that_it_begins_with() {
        let id = SessionId::generate().to_string();
        let millis = i64::from_str_radix(&id[..13].replace('-', ""), 16).unwrap();
        let at = Timestamp::from_millisecond(millis).unwrap();
        for given in [millis.to_string(), at.to_string(), id.clone(), id[..13].to_owned()] {
            assert!(id.starts_with(parse(&given).unwrap().as_str()), "{given}");
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for given in ["", "..", "../x", "session one", "-1", "99999999999999999999", "+12345-01-01"]
        {
            let parsed = parse(given);
            assert!(parsed.is_err() || given.starts_with('9'), "{given}: {parsed:?}");
        }
    }
}
