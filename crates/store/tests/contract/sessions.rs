//! Starting, finding, listing and changing sessions.

use rethread_domain::conversation::TitleFrom;
use rethread_domain::session::{Beginning, Refusal, Repository};
use rethread_domain::summary::{Author, Summary};
use rethread_domain::{Fact, SessionId, Status};
use rethread_store::{Error, ListFilter, Span};
use rethread_testkit::{TestStore, at, beginning, user};

use crate::on_each;

fn moved(to: Status) -> Fact {
    Fact::Moved { to }
}

#[test]
fn what_a_session_was_started_with_is_read_back() {
    on_each(async |store| {
        let beginning = Beginning {
            title: Some("The shop".into()),
            agent: Some("codex".into()),
            model: Some("gpt".into()),
            command: Some("codex --acp".into()),
            prompt_hash: Some("abc".into()),
            tools: vec!["read".into(), "write".into()],
            ..beginning()
        };
        let id = SessionId::generate();
        let started = store.start(id, beginning.clone(), at(3)).await.unwrap();

        let read = store.session(id).await.unwrap();
        assert_eq!(read, started);
        assert_eq!(read.beginning(read.title.clone()), beginning);
        assert_eq!((read.started_at, read.last_active_at, read.last_seq), (at(3), at(3), 0));
        assert!(
            matches!(store.start(id, beginning, at(4)).await, Err(Error::Exists(found)) if found == id)
        );
        store.expect_sound().await;
    });
}

#[test]
fn an_unknown_session_is_not_found_by_any_call() {
    on_each(async |store| {
        let id = SessionId::generate();
        let is_missing = |error: Error| matches!(error, Error::NotFound(found) if found == id);
        assert!(is_missing(store.session(id).await.unwrap_err()));
        assert!(is_missing(store.messages(id, Span::newest(1)).await.unwrap_err()));
        assert!(is_missing(store.conversations(id).await.unwrap_err()));
        assert!(is_missing(store.facts(id).await.unwrap_err()));
        assert!(is_missing(store.agents(id).await.unwrap_err()));
        assert!(is_missing(store.message_by_id(id, "x").await.unwrap_err()));
        assert!(is_missing(store.add(id, vec![user("x")]).await.unwrap_err()));
        assert!(is_missing(store.fork(id, 0, SessionId::generate(), at(0)).await.unwrap_err()));
        assert!(is_missing(store.purge(id, 1, at(0)).await.unwrap_err()));
        assert!(is_missing(store.erase(id).await.unwrap_err()));
        assert!(is_missing(store.claim(id).await.unwrap_err()));
    });
}

#[test]
fn the_second_of_two_who_decide_on_the_same_state_is_refused() {
    on_each(async |store| {
        let id = store.begin().await;
        let before = store.session(id).await.unwrap();
        store.change(&before, moved(Status::Paused), at(1)).await.unwrap();

        let refused = store.change(&before, moved(Status::Completed), at(2)).await;

        assert!(matches!(refused, Err(Error::Conflict(found)) if found == id));
        assert_eq!(store.session(id).await.unwrap().status(), Status::Paused);
        assert_eq!(store.facts(id).await.unwrap().len(), 2);
    });
}

#[test]
fn messages_do_not_stand_in_the_way_of_a_change() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("one")]).await.unwrap();
        let before = store.session(id).await.unwrap();
        store.add(id, vec![user("two")]).await.unwrap();

        let after = store.change(&before, moved(Status::Completed), at(1)).await.unwrap();

        assert_eq!((after.status(), after.last_seq), (Status::Completed, 2));
        store.expect_sound().await;
    });
}

#[test]
fn a_paused_session_is_active_again_when_something_is_said() {
    on_each(async |store| {
        let id = store.begin().await;
        store.note(id, moved(Status::Paused)).await;
        store.add(id, vec![user("go on")]).await.unwrap();
        assert_eq!(store.session(id).await.unwrap().status(), Status::Active);
        store.expect_sound().await;
    });
}

#[test]
fn what_is_closed_takes_no_messages() {
    on_each(async |store| {
        for (fact, refusal) in [
            (moved(Status::Archived), Refusal::Archived as fn(SessionId) -> Refusal),
            (moved(Status::Completed), Refusal::Completed),
            (Fact::Deleted, Refusal::Deleted),
        ] {
            let id = store.begin().await;
            store.add(id, vec![user("one")]).await.unwrap();
            store.note(id, fact).await;
            let refused = store.add(id, vec![user("two")]).await;
            assert!(matches!(refused, Err(Error::Refused(why)) if why == refusal(id)));
            assert_eq!(store.texts(id).await, ["one"]);
        }
        store.expect_sound().await;
    });
}

#[test]
fn facts_are_read_back_in_order_and_in_place() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("one")]).await.unwrap();
        let unknown = serde_json::json!({"what": "danced", "with": ["wolves"]});
        let unknown = Fact::Unknown(unknown.as_object().unwrap().clone());
        let told = [
            Fact::Titled { title: "A".into(), from: TitleFrom::Person },
            Fact::Repository(Repository { branch: Some("main".into()), head: "abc123".into() }),
            unknown,
        ];
        for fact in &told {
            store.note(id, fact.clone()).await;
        }
        let facts = store.facts(id).await.unwrap();
        let found: Vec<(u32, Fact)> =
            facts.iter().map(|one| (one.after, one.fact.clone())).collect();
        let opened = Fact::Opened { n: 1, name: "main".into() };
        let mut expected = vec![(0, Fact::Started(beginning())), (0, opened)];
        expected.extend(told.map(|fact| (1, fact)));
        assert_eq!(found, expected);
        store.expect_sound().await;
    });
}

#[test]
fn a_title_given_by_a_person_stays() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("Fix the cart please")]).await.unwrap();
        assert_eq!(store.session(id).await.unwrap().title.as_deref(), Some("Fix the cart please"));
        store.note(id, Fact::Titled { title: "Mine".into(), from: TitleFrom::Person }).await;
        store.note(id, Fact::Titled { title: "Its".into(), from: TitleFrom::Agent }).await;
        assert_eq!(store.session(id).await.unwrap().title.as_deref(), Some("Mine"));
        store.expect_sound().await;
    });
}

#[test]
fn a_summary_belongs_to_its_conversation_or_to_the_session() {
    on_each(async |store| {
        let id = store.begin().await;
        store.add(id, vec![user("one"), user("two")]).await.unwrap();
        let summary = |text: &str| Summary {
            by: Author::Rules,
            upto: 2,
            folded: 2,
            text: text.into(),
            points: vec![],
        };
        let of = |conversation: Option<&str>, text: &str| Fact::Summarised {
            conversation: conversation.map(Into::into),
            summary: summary(text),
        };
        store.note(id, of(Some("main"), "of main")).await;
        store.note(id, of(None, "of all")).await;
        assert_eq!(store.session(id).await.unwrap().summary.as_deref(), Some("of all"));
        let conversations = store.conversations(id).await.unwrap();
        assert_eq!(conversations[0].summary, Some(summary("of main")));
        store.expect_sound().await;
    });
}

#[test]
fn a_session_is_found_by_its_id_its_beginning_and_its_short_form() {
    on_each(async |store| {
        let id = store.begin().await;
        store.begin().await;
        for text in [id.to_string(), id.to_string()[..20].to_owned(), id.handle(), id.short()] {
            assert_eq!(store.resolve(&text.parse().unwrap(), None).await.unwrap(), [id], "{text}");
        }
        let unknown = "ffffffff-ffff".parse().unwrap();
        assert_eq!(store.resolve(&unknown, None).await.unwrap(), []);
        store.note(id, Fact::Deleted).await;
        assert_eq!(store.resolve(&id.into(), None).await.unwrap(), [id], "to be brought back");
    });
}

#[test]
fn an_ambiguous_beginning_gives_all_that_it_could_mean() {
    on_each(async |store| {
        let mut ids = Vec::new();
        for n in 0..30 {
            let text = format!("01999999-0000-7000-8000-0000000000{n:02}");
            let id: SessionId = text.parse().unwrap();
            store.start(id, beginning(), at(0)).await.unwrap();
            ids.push(id);
        }
        let found = store.resolve(&"01999999".parse().unwrap(), None).await.unwrap();
        assert_eq!(found.len(), 30);
        assert!(found.iter().all(|id| ids.contains(id)));
        let one = store.resolve(&"000000000007".parse().unwrap(), None).await.unwrap();
        assert_eq!(one, [ids[7]]);
        // Those of others do not hide one's own.
        let own = "01999999-0000-7000-8000-00000000ffff".parse().unwrap();
        store.start(own, Beginning { user: "ben".into(), ..beginning() }, at(0)).await.unwrap();
        let found = store.resolve(&"01999999".parse().unwrap(), Some("ben")).await.unwrap();
        assert_eq!(found, [own]);
    });
}

/// Three sessions of two users, the newest last.
async fn three(store: &TestStore) -> [SessionId; 3] {
    let mut ids = Vec::new();
    for (minute, user_name, project) in [(10, "anna", "/a"), (20, "ben", "/b"), (30, "anna", "/b")]
    {
        let beginning = Beginning {
            user: user_name.into(),
            project: project.into(),
            kind: if minute == 20 { "workflow".into() } else { "chat".into() },
            agent: (minute == 10).then(|| "codex".into()),
            ..beginning()
        };
        let id = SessionId::generate();
        store.start(id, beginning, at(minute)).await.unwrap();
        ids.push(id);
    }
    ids.try_into().unwrap()
}

async fn listed(store: &TestStore, filter: ListFilter) -> Vec<SessionId> {
    let limit = if filter.limit == 0 { 50 } else { filter.limit };
    let found = store.list(&ListFilter { limit, ..filter }).await.unwrap();
    found.into_iter().map(|session| session.id).collect()
}

#[test]
fn sessions_are_listed_by_when_they_were_last_active() {
    on_each(async |store| {
        let [a, b, c] = three(store).await;
        assert_eq!(listed(store, ListFilter::default()).await, [c, b, a]);
        let message = rethread_domain::message::NewMessage { at: at(40), ..user("late") };
        store.add(a, vec![message]).await.unwrap();
        assert_eq!(listed(store, ListFilter::default()).await, [a, c, b]);
        assert_eq!(listed(store, ListFilter { limit: 2, ..ListFilter::default() }).await, [a, c]);
    });
}

#[test]
fn a_list_has_what_fits_and_only_that() {
    on_each(async |store| {
        let [a, b, c] = three(store).await;
        let name = |name: &str| Some(name.to_owned());
        let none = ListFilter::default;
        assert_eq!(listed(store, ListFilter { user: name("anna"), ..none() }).await, [c, a]);
        assert_eq!(listed(store, ListFilter { project: name("/b"), ..none() }).await, [c, b]);
        assert_eq!(listed(store, ListFilter { kind: name("workflow"), ..none() }).await, [b]);
        assert_eq!(listed(store, ListFilter { agent: name("codex"), ..none() }).await, [a]);
        assert_eq!(listed(store, ListFilter { user: name("eve"), ..none() }).await, []);
        let anna_in_a = ListFilter { user: name("anna"), project: name("/a"), limit: 1, ..none() };
        assert_eq!(listed(store, anna_in_a).await, [a], "older ones are looked at as well");
        store.note(a, moved(Status::Archived)).await;
        store.note(b, moved(Status::Completed)).await;
        assert_eq!(listed(store, none()).await, [c, b]);
        assert_eq!(listed(store, ListFilter { archived: true, ..none() }).await, [c, b, a]);
        for (status, expected) in
            [(Status::Archived, a), (Status::Completed, b), (Status::Active, c)]
        {
            let filter = ListFilter { status: Some(status), ..none() };
            assert_eq!(listed(store, filter).await, [expected]);
        }
    });
}

#[test]
fn deleted_sessions_are_listed_apart_with_the_same_filters() {
    on_each(async |store| {
        let [a, b, c] = three(store).await;
        store.note(b, Fact::Deleted).await;
        store.note(c, moved(Status::Archived)).await;
        store.note(c, Fact::Deleted).await;
        let deleted = || ListFilter { deleted: true, ..ListFilter::default() };
        assert_eq!(listed(store, ListFilter::default()).await, [a]);
        let mut both = listed(store, deleted()).await;
        both.sort_unstable();
        assert_eq!(both, [b, c], "the archived one too");
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(listed(store, ListFilter { user: name("ben"), ..deleted() }).await, [b]);
        assert_eq!(listed(store, ListFilter { kind: name("chat"), ..deleted() }).await, [c]);
        assert_eq!(listed(store, ListFilter { project: name("/a"), ..deleted() }).await, []);
        assert_eq!(listed(store, ListFilter { limit: 1, ..deleted() }).await.len(), 1);
        store.note(b, Fact::Undeleted).await;
        assert_eq!(listed(store, ListFilter::default()).await, [b, a]);
        store.expect_sound().await;
    });
}
