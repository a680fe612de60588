//! What was used each day is the sum of what was said that day.

use std::collections::{BTreeMap, BTreeSet};

use futures::executor::block_on;
use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use rethread_domain::message::{Extras, NewMessage, Usage};
use rethread_domain::session::Beginning;
use rethread_domain::{Fact, Message, SessionId};
use rethread_store::{Store, UsageDay, UsageFilter};
use rethread_testkit::{TestStore, assistant, at, beginning, user};
use serde_json::json;

use crate::on_each;
use crate::upkeep::dump;

/// Minutes of a day.
const DAY: i64 = 1440;
const ALL: UsageFilter = UsageFilter {
    user: None,
    project: None,
    agent: None,
    from: date(2026, 1, 1),
    to: date(2027, 12, 31),
};

fn used(agent: Option<&str>, minute: i64, usage: (u64, u64, f64), context: u64) -> NewMessage {
    let (input_tokens, output_tokens, cost_usd) = usage;
    let usage = Usage { input_tokens, output_tokens, cost_usd: Some(cost_usd) };
    let mut extras =
        Extras { agent: agent.map(str::to_owned), usage: Some(usage), ..Extras::default() };
    extras.other.insert("context".to_owned(), json!({ "used": context, "size": 1000 }));
    NewMessage { at: at(minute), extras, ..assistant("Done, and it took a while.") }
}

async fn by_day(store: &dyn Store) -> Vec<UsageDay> {
    store.usage_by_day(&ALL).await.unwrap()
}

#[test]
fn days_are_summed_up_by_project_and_agent() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("Fix it")]).await.unwrap();
        store.add(id, vec![used(Some("codex"), 1, (10, 5, 0.25), 400)]).await.unwrap();
        store.add(id, vec![used(Some("codex"), 2, (1, 1, 0.1), 300)]).await.unwrap();
        store.add(id, vec![used(Some("gemini"), DAY, (7, 8, 0.5), 2000)]).await.unwrap();
        let other = store.begin().await;
        store.add(other, vec![used(Some("codex"), 9, (100, 0, 0.05), 500)]).await.unwrap();
        let days = by_day(&**store).await;
        let first = UsageDay {
            day: date(2026, 11, 15),
            project: "/shop".to_owned(),
            agent: "codex".to_owned(),
            messages: 4,
            tokens: days[0].tokens,
            input_tokens: 111,
            output_tokens: 6,
            cost_usd: 0.4,
            context_use: Some(0.5),
            sessions: 2,
        };
        let second = UsageDay {
            day: date(2026, 11, 16),
            agent: "gemini".to_owned(),
            messages: 1,
            tokens: days[1].tokens,
            input_tokens: 7,
            output_tokens: 8,
            cost_usd: 0.5,
            context_use: Some(1.0),
            sessions: 1,
            ..first.clone()
        };
        assert_eq!(days, [first, second]);
        assert!(days[0].tokens > days[1].tokens && days[1].tokens > 0);
        store.expect_sound().await;
    });
}

#[test]
fn days_are_found_by_user_project_agent_and_time() {
    on_each(async |store| {
        let ben = Beginning { user: "ben".into(), project: "/b".into(), ..beginning() };
        for (minute, of) in [(0, beginning()), (DAY, ben)] {
            let id = store.begin_as(of).await;
            store.add(id, vec![used(Some("codex"), minute, (1, 1, 0.1), 1)]).await.unwrap();
        }
        let found = async |filter: UsageFilter| -> Vec<String> {
            let days = store.usage_by_day(&filter).await.unwrap();
            days.into_iter().map(|day| day.project).collect()
        };
        assert_eq!(found(ALL).await, ["/shop", "/b"]);
        assert_eq!(found(UsageFilter { user: Some("ben".into()), ..ALL }).await, ["/b"]);
        assert_eq!(found(UsageFilter { project: Some("/shop".into()), ..ALL }).await, ["/shop"]);
        assert_eq!(found(UsageFilter { agent: Some("x".into()), ..ALL }).await, [""; 0]);
        let (first, second) = (date(2026, 11, 15), date(2026, 11, 16));
        assert_eq!(found(UsageFilter { from: second, ..ALL }).await, ["/b"]);
        assert_eq!(found(UsageFilter { to: first, ..ALL }).await, ["/shop"]);
        assert_eq!(found(UsageFilter { from: first, to: second, ..ALL }).await, ["/shop", "/b"]);
    });
}

#[test]
fn a_fork_counts_only_what_is_said_in_it() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![used(Some("codex"), 0, (9, 9, 0.5), 1)]).await.unwrap();
        let fork = SessionId::generate();
        store.fork(id, 1, fork, at(3)).await.unwrap();
        let day = by_day(&**store).await;
        assert_eq!((day[0].messages, day[0].sessions), (1, 1));
        store.add(fork, vec![user("go on")]).await.unwrap();
        let day = by_day(&**store).await;
        assert_eq!((day[0].messages, day[0].input_tokens, day[0].sessions), (2, 9, 2));
        store.expect_sound().await;
    });
}

#[test]
fn deleted_sessions_are_not_counted_and_erased_ones_leave_nothing() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![used(Some("codex"), 0, (9, 9, 0.5), 1)]).await.unwrap();
        let before = by_day(&**store).await;
        store.note(id, Fact::Deleted).await;
        assert_eq!(by_day(&**store).await, []);
        store.note(id, Fact::Undeleted).await;
        assert_eq!(by_day(&**store).await, before);
        store.erase(id).await.unwrap();
        assert_eq!(by_day(&**store).await, []);
    });
}

#[test]
fn numbers_beyond_all_measure_do_no_harm() {
    on_each(async |store| {
        let id = store.begin().await;
        for _ in 0..3 {
            let absurd = used(None, 0, (1 << 60, 1 << 60, 1e300), u64::MAX);
            store.add(id, vec![absurd]).await.unwrap();
        }
        assert_eq!(by_day(&**store).await[0].input_tokens, 1 << 52);
        store.expect_sound().await;
        store.rebuild().await.unwrap();
        assert_eq!(by_day(&**store).await[0].output_tokens, 1 << 52);
    });
}

/// What is summed up, its cost exactly, and the sessions that it is of.
type Sum = (UsageDay, i64, BTreeSet<SessionId>);

/// The same sums, from what can be read of the sessions.
async fn folded(store: &TestStore, sessions: &[(SessionId, usize)]) -> Vec<UsageDay> {
    let mut days: BTreeMap<(Date, String, String), Sum> = BTreeMap::new();
    for (id, shared) in sessions {
        let session = store.session(*id).await.unwrap();
        for message in store.all(*id).await.into_iter().skip(*shared) {
            let Message { at, extras, price, .. } = message;
            let day = at.to_zoned(TimeZone::UTC).date();
            let agent = extras.agent.or(session.agent.clone()).unwrap_or_default();
            let key = (day, session.project.clone(), agent);
            let (sum, nano, from) = days.entry(key.clone()).or_insert_with(|| {
                let (day, project, agent) = key;
                let none = UsageDay {
                    day,
                    project,
                    agent,
                    messages: 0,
                    tokens: 0,
                    input_tokens: 0,
                    output_tokens: 0,
                    cost_usd: 0.0,
                    context_use: None,
                    sessions: 0,
                };
                (none, 0, BTreeSet::new())
            });
            sum.messages += 1;
            sum.tokens += u64::from(price.tokens.unwrap_or(0));
            let usage = extras.usage.unwrap_or_default();
            sum.input_tokens += usage.input_tokens;
            sum.output_tokens += usage.output_tokens;
            *nano += usage.cost_nano();
            if let Some(used) = extras.other.get("context").and_then(|told| told["used"].as_f64()) {
                let full = used / 1000.0;
                sum.context_use = Some(sum.context_use.map_or(full, |before| before.max(full)));
            }
            from.insert(*id);
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let finish = |(sum, nano, from): Sum| UsageDay {
        cost_usd: nano as f64 / 1e9,
        sessions: from.len() as u64,
        ..sum
    };
    days.into_values().map(finish).collect()
}

#[derive(Debug, Clone)]
struct Step {
    session: usize,
    minute: i64,
    agent: Option<&'static str>,
    tokens: u64,
    what: usize,
}

fn step() -> impl Strategy<Value = Step> {
    let agent = prop::sample::select(vec![None, None, Some("codex"), Some("gemini")]);
    (0..4_usize, 0..3 * DAY, agent, 0..1000_u64, 0..20_usize).prop_map(
        |(session, minute, agent, tokens, what)| Step { session, minute, agent, tokens, what },
    )
}

async fn take(store: &TestStore, sessions: &mut Vec<(SessionId, usize)>, step: Step) {
    let (id, shared) = sessions[step.session % sessions.len()];
    let length = store.session(id).await.unwrap().last_seq;
    match step.what {
        0 => {
            let fork = SessionId::generate();
            store.fork(id, length, fork, at(0)).await.unwrap();
            sessions.push((fork, length as usize));
        }
        1 if length as usize > shared => {
            store.purge(id, length, at(0)).await.unwrap();
        }
        2 => {
            let log = dump(store, id).await;
            store.erase(id).await.unwrap();
            store.take_in(log).await.unwrap();
            let place = step.session % sessions.len();
            sessions[place].1 = 0;
        }
        3..9 => {
            let said = NewMessage { at: at(step.minute), ..user("Now that.") };
            store.add(id, vec![said]).await.unwrap();
        }
        _ => {
            let usage = (step.tokens, step.tokens / 2, 0.001);
            let mut message = used(step.agent, step.minute, usage, step.tokens);
            if step.what == 9 {
                // What a tool said twice is kept once, and is not JSON then.
                let output = "a line of output ".repeat(9);
                message.extras.other.insert("output".to_owned(), json!(output));
                message.content = format!("It said: {output}");
            }
            store.add(id, vec![message]).await.unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_said_the_days_equal_the_log(steps in prop::collection::vec(step(), 1..40)) {
        block_on(async {
            for store in TestStore::each().await {
                let mut sessions = vec![(store.begin().await, 0)];
                let named = Beginning { agent: Some("claude".into()), ..beginning() };
                sessions.push((store.begin_as(named).await, 0));
                for step in steps.clone() {
                    take(&store, &mut sessions, step).await;
                }
                let expected = folded(&store, &sessions).await;
                assert_eq!(by_day(&*store).await, expected);
                store.expect_sound().await;
                store.rebuild().await.unwrap();
                assert_eq!(by_day(&*store).await, expected);
            }
        });
    }
}
