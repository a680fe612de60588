//! Whether we may do what an agent has us do: a file written and a program run by us are as good as by a tool of its
//! own, and follow the same rules.

use rethread_domain::turn::{Permission, Update};
use rethread_engine::agents::{Act, Deed, Opt, Question};

use crate::classify::RpcError;
use crate::frame::{self, Fields};
use crate::session::{Running, Shared};

/// What is kept of a command; whoever is asked sees all of it.
const MOST_TITLE: usize = 1024;

/// What a call has us do; nothing where it only looks at what was done.
pub(crate) fn read(method: &str, params: &Fields<'_>) -> Option<Act> {
    let path = |verb: &str| format!("{verb} {}", params.text("path").unwrap_or_default());
    let (deed, title) = match method {
        "fs/read_text_file" => (Deed::Read, path("read")),
        "fs/write_text_file" => (Deed::Edit, path("write")),
        "terminal/create" => {
            let args = params.get("args").map(frame::elements).unwrap_or_default();
            let args = args.into_iter().filter_map(frame::text);
            let words: Vec<String> = params.text("command").into_iter().chain(args).collect();
            (Deed::Execute, words.join(" "))
        }
        _ => return None,
    };
    Some(Act { deed, title })
}

/// Decides: by rule; else as it was decided before in this turn, the agent's own questions included; else by asking.
pub(crate) async fn allow(shared: &Shared, act: &Act) -> Result<(), RpcError> {
    let running = shared.running();
    match (shared.desk.may(act), running) {
        (Some(true), _) => Ok(()),
        (Some(false), Some(running)) => {
            if running.first_refusal(act.deed) {
                tell(&running, act, "reject_once", "policy").await;
            }
            Err(refused())
        }
        (None, Some(running)) if ask(shared, &running, act).await => Ok(()),
        _ => Err(refused()),
    }
}

fn refused() -> RpcError {
    RpcError::new(-32603, "the user does not allow it")
}

/// One answer counts for all of its kind until the end of the turn.
async fn ask(shared: &Shared, running: &Running, act: &Act) -> bool {
    // Whoever comes second waits for the answer to the first.
    let _one = running.asking.lock().await;
    if let Some(known) = running.decided(act.deed) {
        return known;
    }
    let question = question(act);
    let chosen = tokio::select! {
        biased;
        () = running.cancelled.wait() => return false,
        chosen = shared.desk.permit(&question) => chosen,
    };
    let Some(chosen) = chosen else { return false };
    let yes = chosen.option.starts_with("allow_");
    running.decide(act.deed, yes);
    tell(running, act, &chosen.option, chosen.by).await;
    yes
}

async fn tell(running: &Running, act: &Act, answer: &str, by: &str) {
    let record = Permission {
        tool: format!("rethread-{}", act.deed.kind()),
        title: act.title[..act.title.floor_char_boundary(MOST_TITLE)].to_owned(),
        kind: act.deed.kind().to_owned(),
        answer: answer.to_owned(),
        by: by.to_owned(),
    };
    running.pass(Update::Permission(record)).await;
}

fn question(act: &Act) -> Question {
    let options = [
        ("allow_once", "Yes, in this turn"),
        ("allow_always", "Always in this project"),
        ("reject_once", "No, not in this turn"),
        ("reject_always", "Never in this project"),
    ];
    let option =
        |(id, name): (&str, &str)| Opt { id: id.into(), name: name.into(), kind: id.into() };
    let what = if act.deed == Deed::Execute { "programs" } else { "files" };
    Question {
        tool: String::new(),
        title: format!("{what} of its choice"),
        kind: act.deed.kind().to_owned(),
        first: Some(act.title.clone()),
        is_whole: true,
        options: options.map(option).to_vec(),
    }
}
