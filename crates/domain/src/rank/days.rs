//! The days that a prompt names.

use jiff::civil::{Date, date};

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The days that a text names, and where: `5 May 2023`, `in January`, `2023-05-05`.
pub(super) fn named(
    text: &str,
    years: std::ops::RangeInclusive<i16>,
) -> (Vec<(i64, i64)>, Vec<std::ops::Range<usize>>) {
    let words = words(text);
    let mut days = Vec::new();
    let mut used = Vec::new();
    for (at, (word, place)) in words.iter().enumerate() {
        if let Ok(day) = text[place.clone()].trim_end_matches(['.', ',']).parse::<Date>() {
            days.push((day_number(day), day_number(day)));
            used.push(place.clone());
            continue;
        }
        let Some(month) = month(word) else { continue };
        let number_at = |at: Option<usize>| {
            at.and_then(|at| words.get(at)).and_then(|(word, _)| day_of_month(word))
        };
        let day_at = [at.checked_sub(1), Some(at + 1)]
            .into_iter()
            .flatten()
            .find(|at| number_at(Some(*at)).is_some());
        let day = number_at(day_at);
        let year_at = [at + 1, at + 2]
            .into_iter()
            .find(|at| words.get(*at).is_some_and(|(word, _)| year(word).is_some()));
        let named_year = year_at.and_then(|at| year(&words[at].0));
        let introduced =
            at.checked_sub(1).is_some_and(|before| INTRODUCE.contains(&words[before].0.as_str()));
        let is_other_word = matches!(word.as_str(), "may" | "march" | "mar");
        if is_other_word && day.is_none() && named_year.is_none() && !introduced {
            continue;
        }
        used.push(place.clone());
        used.extend(day_at.into_iter().chain(year_at).map(|at| words[at].1.clone()));
        let in_years = named_year.map_or(years.clone(), |year| year..=year);
        days.extend(in_years.take(30).filter_map(|year| span(year, month, day)));
    }
    (days, used)
}

const INTRODUCE: [&str; 12] =
    ["in", "on", "of", "during", "since", "by", "until", "before", "after", "early", "late", "mid"];

fn words(text: &str) -> Vec<(String, std::ops::Range<usize>)> {
    let mut out = Vec::new();
    let mut at = 0;
    for part in text.split(|c: char| !c.is_alphanumeric() && c != '-') {
        if !part.is_empty() {
            out.push((part.to_lowercase(), at..at + part.len()));
        }
        at += part.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
    }
    out
}

fn month(word: &str) -> Option<i8> {
    let at = MONTHS.iter().position(|name| {
        *name == word || word == &name[..3] || word == "sept" && *name == "september"
    });
    at.and_then(|at| i8::try_from(at + 1).ok())
}

fn day_of_month(word: &str) -> Option<i8> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let ending = &word[digits.len()..];
    let day = digits.parse().ok().filter(|day| (1..=31).contains(day))?;
    matches!(ending, "" | "st" | "nd" | "rd" | "th").then_some(day)
}

fn year(word: &str) -> Option<i16> {
    word.parse().ok().filter(|year| word.len() == 4 && (1900..=2099).contains(year))
}

fn span(year: i16, month: i8, day: Option<i8>) -> Option<(i64, i64)> {
    let first = Date::new(year, month, day.unwrap_or(1)).ok()?;
    let last = if day.is_some() { first } else { first.last_of_month() };
    Some((day_number(first), day_number(last)))
}

fn day_number(day: Date) -> i64 {
    i64::from(date(1970, 1, 1).until(day).map_or(0, |span| span.get_days()))
}
