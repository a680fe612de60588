//! Moves, titles, and who speaks.

use super::*;

fn session(status: Status) -> Session {
    let beginning = Beginning::new("anna", "/shop");
    let mut session = Session::start(SessionId::generate(), beginning, Timestamp::UNIX_EPOCH);
    if status != Status::Active {
        session.apply(&Fact::Moved { to: status }, Timestamp::UNIX_EPOCH);
    }
    session
}

fn check(from: Status, asked: Move, expected: Option<Status>) {
    assert_eq!(session(from).decide(asked).ok(), expected, "{from} {asked:?}");
}

#[test]
fn only_the_allowed_moves_are_allowed() {
    use Status::{Active, Archived, Completed, Paused};
    for (from, pause, complete, activate, reopen) in [
        (Active, Some(Paused), Some(Completed), Some(Active), Some(Active)),
        (Paused, None, Some(Completed), Some(Active), Some(Active)),
        (Completed, None, None, None, Some(Active)),
        (Archived, None, None, None, None),
    ] {
        check(from, Move::Pause, pause);
        check(from, Move::Complete, complete);
        check(from, Move::Activate, activate);
        check(from, Move::Reopen, reopen);
        check(from, Move::Archive, (from != Archived).then_some(Archived));
        check(from, Move::Unarchive, (from == Archived).then_some(Paused));
    }
}

#[test]
fn unarchiving_gives_back_what_was_completed() {
    let mut session = session(Status::Completed);
    session.apply(&Fact::Moved { to: Status::Archived }, Timestamp::UNIX_EPOCH);
    assert_eq!(session.decide(Move::Unarchive), Ok(Status::Completed));
}

#[test]
fn a_deleted_session_moves_nowhere_until_it_is_undeleted() {
    let mut session = session(Status::Active);
    session.apply(&Fact::Deleted, Timestamp::UNIX_EPOCH);
    assert_eq!(session.decide(Move::Pause), Err(Refusal::Deleted(session.id)));
    session.apply(&Fact::Undeleted, Timestamp::UNIX_EPOCH);
    assert_eq!(session.decide(Move::Pause), Ok(Status::Paused));
}

#[test]
fn a_title_given_by_a_person_stays() {
    let mut session = session(Status::Active);
    let titled = |title: &str, from| Fact::Titled { title: title.to_owned(), from };
    session.apply(&titled("by hand", TitleFrom::Person), Timestamp::UNIX_EPOCH);
    session.apply(&titled("by agent", TitleFrom::Agent), Timestamp::UNIX_EPOCH);
    assert_eq!(session.title.as_deref(), Some("by hand"));
}
