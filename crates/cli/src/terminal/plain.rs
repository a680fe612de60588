//! Lines from something that is no terminal.

use std::io::{self, BufRead, Read};

/// The longest line.
pub(crate) const LINE_BYTES: usize = 16 * 1024 * 1024;

/// Reads a line of at most `most` bytes, without its end; `None` at the end of the input.
///
/// A longer line is an error; the next call reads the line after it.
pub(crate) fn read_line(input: &mut impl BufRead, most: usize) -> io::Result<Option<String>> {
    // Room for the end of the line, and one byte to see that it is too long.
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(3);
    let mut line = Vec::new();
    if input.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let ended = line.pop_if(|byte| *byte == b'\n').is_some();
    if ended {
        line.pop_if(|byte| *byte == b'\r');
    }
    if line.len() > most {
        if !ended {
            input.skip_until(b'\n')?;
        }
        return Err(invalid(format!("a line of the input is longer than {most} bytes")));
    }
    match String::from_utf8(line) {
        Ok(line) => Ok(Some(line)),
        Err(_) => Err(invalid("a line of the input is not UTF-8".to_owned())),
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mut input: &[u8], expected: &[Result<&str, &str>]) {
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut input, 4).map_err(|e| e.to_string()).transpose() {
            lines.push(line);
        }
        let lines: Vec<_> =
            lines.iter().map(|line| line.as_deref().map_err(String::as_str)).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn lines_come_without_their_ends() {
        check(b"", &[]);
        check(b"\n", &[Ok("")]);
        check(b"one\r\ntwo\n\nend", &[Ok("one"), Ok("two"), Ok(""), Ok("end")]);
        check(b"a\rb\n", &[Ok("a\rb")]);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let long = Err("a line of the input is longer than 4 bytes");
        check(b"four\r\nfives\nsixsix\nsevenseven\nok", &[Ok("four"), long, long, long, Ok("ok")]);
        check(b"sevenseven", &[long]);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        check(b"\xff\nok\n", &[Err("a line of the input is not UTF-8"), Ok("ok")]);
    }
}
