//! Where a session's folder is: `conversations/2026-11-16/001-brainstorm-api-design`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use jiff::civil::Date;

use super::topic::is_letter;
use crate::error::Error;

/// The folder of the workspace that holds the days.
pub(crate) const CONVERSATIONS: &str = "conversations";

const LONGEST_KIND: usize = 32;
/// Longer than the topics that we make: people may rename a folder.
const LONGEST_TOPIC: usize = 120;
const MOST_DIGITS: usize = 6;

/// Commands that every conversation has; a kind of that name would hide one.
const TAKEN: [&str; 2] = ["resume", "stop-conversation"];

/// The path of a session's folder below the root of its workspace. It can only be one: nothing else is accepted.
///
/// A `-` in a kind is a `_` in the name of the folder (`001-code_review-api`), so that the kind can be read back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FolderPath {
    text: String,
    number: u32,
    kind: String,
    topic_at: usize,
}

impl FolderPath {
    /// Checks the parts of a path.
    pub(crate) fn from_parts(date: &str, name: &str) -> Result<Self, Error> {
        let given = || format!("{CONVERSATIONS}/{date}/{name}");
        let refuse = |why| Error::BadPath { given: given(), why };
        if !is_date(date) {
            return Err(refuse("the second part is not a date"));
        }
        Self::in_day(date, name).map_err(refuse)
    }

    /// As [`FolderPath::from_parts`], for a date that was checked before.
    pub(crate) fn in_day(date: &str, name: &str) -> Result<Self, &'static str> {
        let (number, rest) = name.split_once('-').ok_or("the folder's name has no number")?;
        let number = parse_number(number).ok_or("the number is not one from 001 to 999999")?;
        let (kind, topic) = rest.split_once('-').ok_or("the folder's name has no topic")?;
        let kind = Some(kind).filter(|kind| !kind.contains('-')).map(|kind| kind.replace('_', "-"));
        let kind = kind.filter(|kind| is_kind_name(kind)).ok_or("the kind is not one")?;
        if !is_topic(topic) {
            return Err("the topic has something else than letters, digits, - _ and .");
        }
        let text = format!("{CONVERSATIONS}/{date}/{name}");
        let topic_at = text.len() - topic.len();
        Ok(Self { text, number, kind, topic_at })
    }

    /// The path of a folder that is about to be made.
    pub(crate) fn compose(date: &str, number: u32, kind: &str, topic: &str) -> Result<Self, Error> {
        let topic = super::topic::topic(topic);
        Self::from_parts(date, &format!("{number:03}-{}-{topic}", kind.replace('-', "_")))
    }

    /// The same day, number and kind with another topic.
    pub fn with_topic(&self, topic: &str) -> Result<Self, Error> {
        Self::compose(self.date(), self.number, &self.kind, topic)
    }

    pub fn date(&self) -> &str {
        let start = CONVERSATIONS.len() + 1;
        &self.text[start..start + 10]
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    pub fn kind(&self) -> &str {
        &self.kind
    }

    pub fn topic(&self) -> &str {
        &self.text[self.topic_at..]
    }

    /// The name of the folder itself.
    pub fn name(&self) -> &str {
        &self.text[CONVERSATIONS.len() + 12..]
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for FolderPath {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = |why| Error::BadPath { given: text.chars().take(200).collect(), why };
        let mut parts = text.split('/');
        let (top, date, name) = (parts.next(), parts.next(), parts.next());
        match (top, date, name, parts.next()) {
            (Some(CONVERSATIONS), Some(date), Some(name), None) => {
                if !is_date(date) {
                    return Err(refuse("the second part is not a date"));
                }
                Self::in_day(date, name).map_err(refuse)
            }
            (Some(CONVERSATIONS), ..) => Err(refuse("it does not have three parts")),
            _ => Err(refuse("it does not begin with conversations/")),
        }
    }
}

impl fmt::Display for FolderPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl AsRef<Path> for FolderPath {
    fn as_ref(&self) -> &Path {
        Path::new(&self.text)
    }
}

/// Whether a kind may have this name: a small letter, then small letters, digits and `-`, at most 32; and not one of
/// the commands `resume` and `stop-conversation`.
pub fn is_kind_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= LONGEST_KIND
        && text.starts_with(|letter: char| letter.is_ascii_lowercase())
        && text.bytes().all(allowed)
        && !TAKEN.contains(&text)
}

/// Whether this is a day in the form `2026-11-16`.
pub(crate) fn is_date(text: &str) -> bool {
    let form = text.len() == 10
        && text.bytes().enumerate().all(|(place, byte)| match place {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    form && text.parse::<Date>().is_ok()
}

/// Three digits or more; more only where three are not enough, so that a number has one form.
fn parse_number(digits: &str) -> Option<u32> {
    let form = (3..=MOST_DIGITS).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits.len() == 3 || !digits.starts_with('0'));
    digits.parse().ok().filter(|number| form && *number > 0)
}

fn is_topic(text: &str) -> bool {
    let allowed = |letter: char| is_letter(letter) || matches!(letter, '-' | '_' | '.');
    (1..=LONGEST_TOPIC).contains(&text.len())
        && text.starts_with(is_letter)
        && !text.ends_with('.')
        && !text.contains("..")
        && text.chars().all(allowed)
}
