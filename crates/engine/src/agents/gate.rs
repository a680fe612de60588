//! The permission gate: answers an agent's questions by an earlier grant, by the rules, or by asking a person.

use std::sync::Arc;

use async_trait::async_trait;
use rethread_redact::Redactor;
use rethread_store::Grant;

use super::port::{Action, ActionKind, Choice, PermissionHandler, PermissionOption, Question};
use super::rules::Rules;
use crate::{Engine, Logged as _};

/// The longest question that is put to a person, in bytes: nobody reads more before saying yes.
const MOST_ASKED: usize = 64 << 10;

/// Somebody who can be asked.
#[async_trait]
pub trait Asker: Send + Sync {
    fn is_there(&self) -> bool;

    /// Returns the id of the chosen option, or `None` if the turn was cancelled.
    async fn ask(&self, question: &Question) -> Option<String>;

    /// Reports that a question was answered without asking.
    fn answered(&self, question: &Question, answer: &str);
}

/// For use without a person.
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

    fn answered(&self, _: &Question, _: &str) {}
}

pub(super) struct Gate {
    pub(super) engine: Engine,
    pub(super) user: String,
    pub(super) project: String,
    pub(super) agent: String,
    pub(super) rules: Rules,
    pub(super) asker: Arc<dyn Asker>,
}

/// Why what has a secret in it is asked about each time.
const HOLDS_SECRET: &str = "it has a secret in it, which is not to be stored";

/// The agent's option for yes or no, preferably the one for this once: lasting answers are kept by us, as only we bind them to
/// what will actually be done.
fn option(options: &[PermissionOption], yes: bool) -> Option<&PermissionOption> {
    let kinds = if yes { ["allow_once", "allow_always"] } else { ["reject_once", "reject_always"] };
    kinds.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind))
}

/// The question as a person sees it. The agent's lasting options are replaced by ours, or dropped if it is unclear what they
/// would apply to. Options of an unknown kind are dropped: their names are the agent's words, and nobody can tell whether they allow.
fn offered(question: &Question, redactor: &Redactor) -> Question {
    let unlasting = match question.intent.subject() {
        Ok(what) if redactor.redact(&what).text != what => Some(HOLDS_SECRET),
        Ok(_) => None,
        Err(why) => Some(why),
    };
    let (mut options, mut dropped): (Vec<PermissionOption>, bool) = (Vec::new(), false);
    for option in question.options.iter().filter(|option| option.allows().is_some()) {
        let name = match option.kind.as_str() {
            "allow_always" => "Always allow exactly this in this project",
            "reject_always" => "Always refuse exactly this in this project",
            _ => {
                options.push(PermissionOption { name: described(option), ..option.clone() });
                continue;
            }
        };
        dropped |= unlasting.is_some();
        let is_known = options.iter().any(|known| known.kind == option.kind);
        if unlasting.is_none() && !is_known {
            options.push(PermissionOption { name: name.to_owned(), ..option.clone() });
        }
    }
    Question { options, unlasting: unlasting.filter(|_| dropped), ..question.clone() }
}

/// Names of answers that say by themselves what they mean.
const PLAIN_YES: &[&str] = &[
    "allow",
    "allow once",
    "yes",
    "yes, in this turn",
    "approve",
    "approve once",
    "accept",
    "proceed",
    "run",
    "run once",
];
const PLAIN_NO: &[&str] =
    &["reject", "reject once", "no", "no, not in this turn", "deny", "decline", "refuse", "cancel"];

/// The name of an answer, with what it means unless that is plain: the name is the agent's own words, and one that
/// reads like a refusal may allow.
fn described(option: &PermissionOption) -> String {
    let (plain, meaning) = match option.allows() {
        Some(true) => (PLAIN_YES, "allows it"),
        _ => (PLAIN_NO, "refuses it"),
    };
    let name = option.name.trim();
    if plain.iter().any(|plain| name.eq_ignore_ascii_case(plain)) {
        return name.to_owned();
    }
    // What it means comes first: a long name is cut at its end.
    format!("[{meaning}] {name}")
}

/// Whether a person can tell what they would allow.
fn is_readable(question: &Question) -> bool {
    let options = question.options.iter().map(|option| option.name.len() + option.kind.len());
    let bytes = question.intent.bytes() + options.sum::<usize>();
    question.is_whole && bytes <= MOST_ASKED
}

impl Gate {
    async fn granted(&self, question: &Question) -> Option<bool> {
        let subject = question.intent.subject().ok()?;
        let store = &self.engine.store;
        store.granted(&self.user, &self.project, &self.agent, &subject).await.ok().flatten()
    }

    fn answer(&self, question: &Question, yes: bool, by: &'static str) -> Option<Choice> {
        let option = option(&question.options, yes)?;
        self.asker.answered(question, &option.kind);
        Some(Choice { option: option.id.clone(), kind: option.kind.clone(), by })
    }

    async fn remember(&self, question: &Question, allowed: bool) {
        let Ok(what) = question.intent.subject() else { return };
        let grant = Grant {
            user: self.user.clone(),
            project: self.project.clone(),
            agent: self.agent.clone(),
            what,
            allowed,
        };
        // If it cannot be stored, the question will be asked again.
        let granted = self.engine.store.grant(grant, self.engine.clock.now()).await;
        granted.or_log("a lasting answer could not be kept");
    }
}

#[async_trait]
impl PermissionHandler for Gate {
    async fn permit(&self, question: &Question) -> Option<Choice> {
        if !question.is_whole && !self.rules.allow_everything() {
            // Neither a rule nor an earlier grant can apply to what nobody has read.
            return self.answer(question, false, "policy");
        }
        if let Some(yes) = self.rules.decide(&question.intent) {
            return self.answer(question, yes, "policy");
        }
        if let Some(yes) = self.granted(question).await {
            return self.answer(question, yes, "grant");
        }
        if !is_readable(question) {
            return self.answer(question, false, "policy");
        }
        if !self.asker.is_there() {
            let is_guarded = !question.intent.guarded.is_empty();
            return self.answer(question, false, if is_guarded { "guarded" } else { "nobody" });
        }
        let offered = offered(question, self.engine.redactor());
        let offered = Question { agent: self.agent.clone(), ..offered };
        if offered.options.is_empty() {
            return None;
        }
        let id = self.asker.ask(&offered).await?;
        let chosen = offered.options.iter().find(|option| option.id == id)?;
        let lasting = match chosen.kind.as_str() {
            "allow_always" => Some(true),
            "reject_always" => Some(false),
            _ => None,
        };
        let option = match lasting {
            Some(yes) => {
                self.remember(question, yes).await;
                option(&question.options, yes)?
            }
            None => chosen,
        };
        Some(Choice { option: option.id.clone(), kind: chosen.kind.clone(), by: "user" })
    }

    fn may(&self, act: &Action) -> Option<bool> {
        if act.kind == ActionKind::Read {
            return self.rules.may_read(&act.intent);
        }
        self.rules.decide(&act.intent)
    }
}

#[cfg(test)]
mod tests {
    use rethread_domain::consent::Intent;
    use rethread_testkit::TestStore;

    use super::*;
    use crate::agents::rules::Consent;

    fn opts(kinds: &[&str]) -> Vec<PermissionOption> {
        let opt = |kind: &&str| PermissionOption {
            id: (*kind).into(),
            name: format!("the agent's {kind}"),
            kind: (*kind).into(),
        };
        kinds.iter().map(opt).collect()
    }

    fn question(command: Option<&str>, kinds: &[&str]) -> Question {
        let command = command.map(str::to_owned);
        let intent =
            Intent { kind: "execute".into(), title: "stub".into(), command, ..Intent::default() };
        let (tool, agent) = ("1".into(), String::new());
        Question { tool, intent, is_whole: true, agent, unlasting: None, options: opts(kinds) }
    }

    fn redactor() -> Redactor {
        Redactor::new([])
    }

    #[test]
    fn what_has_a_secret_in_it_is_not_answered_for_good() {
        let kinds = ["allow_once", "allow_always", "reject_once"];
        // In pieces, so that this line itself is not taken for a leak.
        let value = ["hunter9", "xyz9"].concat();
        let command = format!("mysql --password={value} shop");
        let asked = question(Some(&command), &kinds);
        let offered = offered(&asked, &redactor());
        assert_eq!(offered.unlasting, Some(HOLDS_SECRET));
        assert!(offered.options.iter().all(|option| option.kind != "allow_always"));
    }

    #[test]
    fn what_cannot_be_read_is_not_asked() {
        let asked = |bytes: usize| question(Some(&"x".repeat(bytes)), &[]);
        assert!(is_readable(&asked(MOST_ASKED - 4 - "the agent calls it".len())));
        assert!(!is_readable(&asked(MOST_ASKED + 1)));
        assert!(!is_readable(&Question { is_whole: false, ..asked(1) }));
    }

    /// Says yes to everything.
    struct Anybody;

    #[async_trait]
    impl Asker for Anybody {
        fn is_there(&self) -> bool {
            true
        }

        async fn ask(&self, question: &Question) -> Option<String> {
            let yes = |option: &&PermissionOption| option.kind == "allow_always";
            question.options.iter().find(yes).map(|option| option.id.clone())
        }

        fn answered(&self, _: &Question, _: &str) {}
    }

    #[tokio::test]
    async fn what_nobody_has_read_is_covered_by_no_rule_and_no_earlier_answer() {
        let store = TestStore::sqlite().await;
        let engine = Engine::new(store.open_again().await, crate::Clock::Wall);
        let gate = |rules: Rules| Gate {
            engine: engine.clone(),
            user: "anna".into(),
            project: "/shop".into(),
            agent: "a".into(),
            rules,
            asker: Arc::new(Anybody),
        };
        let asked = question(Some("make test"), &["allow_once", "allow_always", "reject_once"]);
        let unread = Question { is_whole: false, ..asked.clone() };
        let kind = async |rules: Rules, question: &Question| {
            gate(rules).permit(question).await.map(|choice| choice.kind)
        };
        assert_eq!(kind(Rules::default(), &asked).await.as_deref(), Some("allow_always"));
        let allowed = Rules { allowed: vec!["make".into()], ..Rules::default() };
        let all = Rules { consent: Consent::Allow, ..Rules::default() };
        let most = Rules { disallowed: vec!["rm".into()], ..all.clone() };
        for (rules, expected) in [
            (Rules::default(), "reject_once"),
            (allowed, "reject_once"),
            (most, "reject_once"),
            (all, "allow_once"),
        ] {
            assert_eq!(kind(rules.clone(), &unread).await.as_deref(), Some(expected), "{rules:?}");
        }
    }

    #[test]
    fn an_answer_says_what_it_means_whatever_the_agent_calls_it() {
        for (kind, name, shown) in [
            ("allow_once", "Allow", "Allow"),
            ("reject_once", " no ", "no"),
            ("allow_once", "No, reject this", "[allows it] No, reject this"),
            ("allow_once", "Yes, refuse", "[allows it] Yes, refuse"),
            ("allow_once", "Reject", "[allows it] Reject"),
            ("reject_once", "Allow", "[refuses it] Allow"),
        ] {
            let option = PermissionOption { id: "1".into(), name: name.into(), kind: kind.into() };
            let asked = Question { options: vec![option], ..question(Some("ls"), &[]) };
            assert_eq!(offered(&asked, &redactor()).options[0].name, shown);
        }
    }

    #[test]
    fn an_option_of_which_nobody_knows_whether_it_allows_is_not_offered() {
        let kinds = ["allow_nothing", "reject_once", "", "ALLOW_ONCE", "allow_"];
        let offered = offered(&question(Some("ls"), &kinds), &redactor()).options;
        assert_eq!(offered.len(), 1, "{offered:?}");
        for kind in kinds {
            let choice = Choice { option: "1".into(), kind: kind.into(), by: "user" };
            assert!(!choice.allows(), "{kind}");
        }
    }

    #[tokio::test]
    async fn what_guards_the_project_is_told_apart_where_nobody_can_be_asked() {
        let store = TestStore::sqlite().await;
        let gate = Gate {
            engine: Engine::new(store.open_again().await, crate::Clock::Wall),
            user: "anna".into(),
            project: "/shop".into(),
            agent: "a".into(),
            rules: Rules { consent: Consent::Allow, ..Rules::default() },
            asker: Arc::new(Nobody),
        };
        let mut asked = question(None, &["allow_once", "reject_once"]);
        asked.intent.guarded = vec!["it belongs to the repository itself".into()];
        asked.intent.paths = vec![".git/config".into()];
        // To say "allow" would not help: it was said.
        assert_eq!(gate.permit(&asked).await.map(|choice| choice.by), Some("guarded"));
    }

    #[test]
    fn once_comes_before_always() {
        let options = opts(&["reject_always", "allow_always", "allow_once"]);
        assert_eq!(option(&options, true).unwrap().id, "allow_once");
        assert_eq!(option(&options, false).unwrap().id, "reject_always");
        assert_eq!(option(&[], true), None);
    }

    #[test]
    fn lasting_answers_are_ours_and_only_where_it_is_clear_what_they_are_about() {
        let kinds = ["allow_once", "allow_always", "allow_always", "reject_once"];
        let names = |question: &Question| {
            question.options.iter().map(|option| option.name.clone()).collect::<Vec<_>>()
        };
        let clear = offered(&question(Some("ls"), &kinds), &redactor());
        let expected = [
            "[allows it] the agent's allow_once",
            "Always allow exactly this in this project",
            "[refuses it] the agent's reject_once",
        ];
        assert_eq!((names(&clear), clear.unlasting), (expected.map(str::to_owned).to_vec(), None));
        let unclear = offered(&question(None, &kinds), &redactor());
        assert_eq!(
            names(&unclear),
            ["[allows it] the agent's allow_once", "[refuses it] the agent's reject_once"]
        );
        assert!(unclear.unlasting.unwrap().contains("which command"));
        // Nothing is said of what the agent does not offer.
        assert_eq!(offered(&question(None, &["allow_once"]), &redactor()).unlasting, None);
    }
}
