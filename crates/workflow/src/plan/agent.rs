//! Finds the plan in an agent's answer, which may have prose around it, or be fenced.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};

use super::{LONGEST, Plan, Problem, line, parse, scan};

/// Parses the plan in an agent's answer: the candidate with the most tasks, the whole answer before a part of it.
pub fn from_agent(text: &str) -> Result<Plan, Vec<Problem>> {
    if text.len() > LONGEST {
        return parse(text);
    }
    let mut candidates = vec![from_title(text).to_owned()];
    candidates.extend(unfenced(text).iter().map(|inner| from_title(inner).to_owned()));
    candidates.extend(fenced(text));
    let mut best: Option<(usize, &String)> = None;
    for candidate in &candidates {
        let tasks = scan::scan(candidate).tasks.len();
        if best.is_none_or(|(most, _)| tasks > most) {
            best = Some((tasks, candidate));
        }
    }
    parse(best.map_or(text, |(_, candidate)| candidate))
}

/// Without what the agent said before the title of the plan.
fn from_title(text: &str) -> &str {
    let at = scan::title_at(text);
    text.get(at..).unwrap_or(text)
}

/// What is between the first fence and the last: a plan with fences of its own would end its fence too early.
fn unfenced(text: &str) -> Vec<&str> {
    let mut at = 0;
    let (mut begin, mut end) = (None, None);
    while at < text.len() {
        let words = text.get(at..line::words_end(text, at)).unwrap_or_default().trim();
        let next = line::end(text, at);
        if words.starts_with("```") || words.starts_with("~~~") {
            match begin {
                None => begin = Some(next),
                Some(_) if words.trim_matches(['`', '~']).is_empty() => end = Some(at),
                Some(_) => (),
            }
        }
        at = next;
    }
    // The closing fence may be missing.
    let Some(begin) = begin else { return Vec::new() };
    let ends = [end.unwrap_or(text.len()), text.len()];
    ends.into_iter().filter_map(|end| text.get(begin..end)).collect()
}

/// The text in code fences of a text.
fn fenced(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_inside = false;
    for event in Parser::new_ext(text, Options::ENABLE_TASKLISTS) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => {
                found.push(String::new());
                is_inside = true;
            }
            Event::Text(words) if is_inside => {
                if let Some(last) = found.last_mut() {
                    last.push_str(&words);
                }
            }
            Event::End(_) => is_inside = false,
            _ => (),
        }
    }
    found
}
