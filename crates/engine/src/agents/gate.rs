//! Answering an agent's questions: by what the user decided before, by policy, or by asking.

use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use rethread_store::Grant;

use super::port::{Act, Choice, Deed, Desk, Opt, Question};
use crate::Engine;

/// The longest question that is put to a person, in bytes: nobody reads more before they say yes.
const MOST_ASKED: usize = 64 << 10;

/// What an agent may do without being allowed to by the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Consent {
    /// The user is asked; where nobody can be asked, the answer is no.
    #[default]
    Ask,
    Allow,
    Deny,
}

impl FromStr for Consent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ask" => Ok(Self::Ask),
            "allow" => Ok(Self::Allow),
            "deny" => Ok(Self::Deny),
            _ => Err(format!("not a rule for permissions: {text:?} (expected ask, allow or deny)")),
        }
    }
}

/// What is decided before anybody is asked.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    pub consent: Consent,
    /// Tools by kind, or by the first words of their title.
    pub allowed: Vec<String>,
    /// Tools by kind, or by how their title begins, in the middle of a word too.
    pub disallowed: Vec<String>,
    /// Whether what is not allowed is refused, whatever else would be decided.
    pub only_allowed: bool,
}

impl Rules {
    /// Whether a tool is forbidden, whatever anybody who is asked would say.
    pub fn forbid(&self, kind: &str, title: &str) -> bool {
        is_disallowed(self, kind, title) || (self.only_allowed && !is_allowed(self, kind, title))
    }
}

/// Somebody who can be asked.
#[async_trait]
pub trait Asker: Send + Sync {
    fn is_there(&self) -> bool;

    /// Gives the id of the chosen option, or `None` if the turn was cancelled over it.
    async fn ask(&self, question: &Question) -> Option<String>;

    /// Tells that a question was answered without asking.
    fn told(&self, question: &Question, answer: &str);
}

/// Nobody.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

#[async_trait]
impl Asker for Nobody {
    fn is_there(&self) -> bool {
        false
    }

    async fn ask(&self, _: &Question) -> Option<String> {
        None
    }

    fn told(&self, _: &Question, _: &str) {}
}

pub(super) struct Gate {
    pub(super) engine: Engine,
    pub(super) user: String,
    pub(super) project: String,
    pub(super) agent: String,
    pub(super) rules: Rules,
    pub(super) asker: Arc<dyn Asker>,
}

/// What the rules say, before anybody is asked.
fn decided(rules: &Rules, kind: &str, title: &str) -> Option<bool> {
    if is_disallowed(rules, kind, title) || rules.consent == Consent::Deny {
        return Some(false);
    }
    if is_allowed(rules, kind, title) {
        return Some(true);
    }
    match rules.consent {
        _ if rules.only_allowed => Some(false),
        Consent::Allow => Some(true),
        Consent::Ask | Consent::Deny => None,
    }
}

/// The files of the project are what is talked about: they may be read unless something is said against it. Whoever may
/// edit only has to read what it edits.
fn may_read(rules: &Rules, title: &str) -> bool {
    let is_listed = || ["read", "edit"].into_iter().any(|kind| is_allowed(rules, kind, title));
    !is_disallowed(rules, "read", title) && (!rules.only_allowed || is_listed())
}

fn is_allowed(rules: &Rules, kind: &str, title: &str) -> bool {
    let fits = |tool: &String| begins(kind, title, tool).is_some_and(|rest| !goes_on(tool, rest));
    rules.allowed.iter().any(fits)
}

fn is_disallowed(rules: &Rules, kind: &str, title: &str) -> bool {
    rules.disallowed.iter().any(|tool| begins(kind, title, tool).is_some())
}

/// What follows the name of a tool in a title; nothing where it is the kind.
fn begins<'a>(kind: &str, title: &'a str, tool: &str) -> Option<&'a str> {
    if tool.trim().is_empty() {
        // It is at the beginning of everything.
        return None;
    }
    if tool.eq_ignore_ascii_case(kind) {
        return Some("");
    }
    let mut rest = title.char_indices();
    for wanted in tool.chars() {
        let (_, found) = rest.next()?;
        if !found.to_lowercase().eq(wanted.to_lowercase()) {
            return None;
        }
    }
    Some(rest.as_str())
}

/// Whether the last word of a name goes on: to allow `ls` is not to allow `lsof`.
fn goes_on(tool: &str, rest: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    tool.ends_with(is_word) && rest.starts_with(is_word)
}

/// The option that says yes or no, for this once where there is one.
fn option(options: &[Opt], yes: bool) -> Option<&Opt> {
    let kinds = if yes { ["allow_once", "allow_always"] } else { ["reject_once", "reject_always"] };
    kinds.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind))
}

/// Whether somebody can know what they allow.
fn is_readable(question: &Question) -> bool {
    let first = question.first.as_ref().map_or(0, String::len);
    let options = question.options.iter().map(|option| option.name.len() + option.kind.len());
    let bytes = question.title.len() + question.kind.len() + first + options.sum::<usize>();
    question.is_whole && bytes <= MOST_ASKED
}

impl Gate {
    /// What a lasting decision is about: exactly this tool with exactly this title. Nothing can be said for good of
    /// what has none.
    fn subject(question: &Question) -> Option<String> {
        let is_titled = !question.title.trim().is_empty();
        is_titled.then(|| format!("{}: {}", question.kind, question.title))
    }

    async fn granted(&self, question: &Question) -> Option<bool> {
        let subject = Self::subject(question)?;
        let store = &self.engine.store;
        store.granted(&self.user, &self.project, &self.agent, &subject).await.ok().flatten()
    }

    fn answer(&self, question: &Question, yes: bool, by: &'static str) -> Option<Choice> {
        let option = option(&question.options, yes)?;
        self.asker.told(question, &option.kind);
        Some(Choice { option: option.id.clone(), by })
    }

    async fn remember(&self, question: &Question, chosen: &Opt) {
        let allowed = match chosen.kind.as_str() {
            "allow_always" => true,
            "reject_always" => false,
            _ => return,
        };
        let Some(what) = Self::subject(question) else { return };
        let grant = Grant {
            user: self.user.clone(),
            project: self.project.clone(),
            agent: self.agent.clone(),
            what,
            allowed,
        };
        // Where it cannot be remembered, it is asked again.
        drop(self.engine.store.grant(grant, self.engine.clock.now()).await);
    }
}

#[async_trait]
impl Desk for Gate {
    async fn permit(&self, question: &Question) -> Option<Choice> {
        if let Some(yes) = decided(&self.rules, &question.kind, &question.title) {
            return self.answer(question, yes, "policy");
        }
        if let Some(yes) = self.granted(question).await {
            return self.answer(question, yes, "grant");
        }
        if !self.asker.is_there() || !is_readable(question) {
            return self.answer(question, false, "policy");
        }
        let id = self.asker.ask(question).await?;
        let chosen = question.options.iter().find(|option| option.id == id)?;
        self.remember(question, chosen).await;
        Some(Choice { option: chosen.id.clone(), by: "user" })
    }

    fn may(&self, act: &Act) -> Option<bool> {
        let kind = act.deed.kind();
        if act.deed == Deed::Read {
            return Some(may_read(&self.rules, &act.title));
        }
        decided(&self.rules, kind, &act.title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(consent: Consent, allowed: &[&str], disallowed: &[&str], expected: Option<bool>) {
        let owned = |list: &[&str]| list.iter().map(|&tool| tool.to_owned()).collect();
        let (allowed, disallowed) = (owned(allowed), owned(disallowed));
        let rules = Rules { consent, allowed, disallowed, ..Rules::default() };
        assert_eq!(decided(&rules, "execute", "cargo test"), expected, "{rules:?}");
    }

    #[test]
    fn what_is_disallowed_stays_so_whatever_else_is_said() {
        check(Consent::Ask, &[], &[], None);
        check(Consent::Allow, &[], &[], Some(true));
        check(Consent::Deny, &["execute"], &[], Some(false));
        check(Consent::Ask, &["Cargo"], &[], Some(true));
        check(Consent::Allow, &["execute"], &["execute"], Some(false));
        check(Consent::Ask, &["edit"], &["read"], None);
    }

    #[test]
    fn where_only_some_are_allowed_no_other_is() {
        for consent in [Consent::Ask, Consent::Allow] {
            let rules = Rules {
                consent,
                allowed: vec!["read".into()],
                only_allowed: true,
                ..Rules::default()
            };
            assert_eq!(decided(&rules, "execute", "cargo test"), Some(false));
            assert_eq!(decided(&rules, "read", "a.rs"), Some(true));
            assert!(may_read(&rules, "a.rs"));
        }
        let only = |allowed: &str| Rules {
            allowed: vec![allowed.into()],
            only_allowed: true,
            ..Rules::default()
        };
        assert!(!may_read(&only("execute"), "a.rs"));
        assert!(may_read(&only("edit"), "a.rs"));
    }

    #[test]
    fn part_of_a_word_allows_nothing_and_disallows() {
        check(Consent::Ask, &["cargo te"], &[], None);
        check(Consent::Ask, &["car"], &[], None);
        check(Consent::Ask, &["cargo"], &[], Some(true));
        check(Consent::Ask, &["cargo "], &[], Some(true));
        check(Consent::Ask, &["CARGO TEST"], &[], Some(true));
        check(Consent::Ask, &["cargo test --all"], &[], None);
        check(Consent::Ask, &["", " "], &[], None);
        check(Consent::Allow, &[], &["car"], Some(false));
        check(Consent::Allow, &[], &["", " "], Some(true));
    }

    #[test]
    fn what_cannot_be_read_is_not_asked() {
        let question = |bytes: usize, is_whole: bool| Question {
            tool: String::new(),
            title: "x".repeat(bytes),
            kind: String::new(),
            first: None,
            is_whole,
            options: Vec::new(),
        };
        assert!(is_readable(&question(MOST_ASKED, true)));
        assert!(!is_readable(&question(MOST_ASKED + 1, true)));
        assert!(!is_readable(&question(1, false)));
    }

    #[test]
    fn once_comes_before_always() {
        let offered = |kind: &str| Opt { id: kind.into(), name: kind.into(), kind: kind.into() };
        let options = ["reject_always", "allow_always", "allow_once"].map(offered);
        assert_eq!(option(&options, true).unwrap().id, "allow_once");
        assert_eq!(option(&options, false).unwrap().id, "reject_always");
        assert_eq!(option(&[], true), None);
    }
}
