//! What can be typed beside messages.

use rethread_domain::near::is_slip;

use super::Left;

/// All there are; those that are another word for one of them come last, and are not completed.
const ALL: &[&str] = &[
    "/help",
    "/stop",
    "/complete",
    "/resume",
    "/model",
    "/mode",
    "/switch",
    "/fork",
    "/search",
    "/copy",
    "/export",
    "/open",
    "/quit",
    "/exit",
];
pub(super) const HELP: &str = "/stop          save, pause and leave (also /quit, or Ctrl-D)
/complete      save, mark as completed and leave
/resume        save, pause, and pick another session
/switch AGENT  go on with another agent; alone, it lists those that are here
/fork          go on in a fork; this session stays as it is
/model M       use another model, now and after every resume; alone, it lists them
/mode M        use another mode of the agent; alone, it lists them (Shift-Tab: the next one)
/search WORDS  look through all sessions
/copy          copy the last answer
/export FILE   write the session as markdown
/open          show all of what was folded last (also Ctrl-O)
/workspace.KIND …  in a workspace: the prompt of that kind, with what you say after it
@FILE          send the file along; Tab completes its path
!COMMAND       run it here; the agent is told of it with your next message
Esc            cancel the running turn (also Ctrl-C); what you type meanwhile is sent after it
Ctrl-D         leave, in the middle of an answer too
Ctrl-R         search what you typed before
Alt-Enter      begin another line of the same message (also \\ and Enter)
What begins with a space goes to the agent as it is, commands of its own for instance.";

/// What Tab completes.
pub(super) fn completed() -> impl Iterator<Item = &'static str> {
    ALL.iter().copied().filter(|name| !matches!(*name, "/exit"))
}

/// The command that a line begins with, or what stands in its place, and the rest.
pub(super) fn split(line: &str) -> (&str, &str) {
    let line = line.trim_end();
    let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (command, rest.trim())
}

/// How a command leaves the conversation, if it does.
pub(super) fn leaves(command: &str) -> Option<Left> {
    match command {
        "/stop" | "/quit" | "/exit" => Some(Left::Stopped),
        "/complete" => Some(Left::Completed),
        "/resume" => Some(Left::Resume),
        _ => None,
    }
}

/// The command of ours that was meant, where one was mistyped: agents have commands of their own.
pub(super) fn near(typed: &str) -> Option<&'static str> {
    if ALL.contains(&typed) || !typed.starts_with('/') {
        return None;
    }
    ALL.iter().copied().find(|meant| is_slip(typed, meant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_finger_are_told_from_commands_of_the_agent() {
        for (typed, meant) in [
            ("/stpo", Some("/stop")),
            ("/sto", Some("/stop")),
            ("/stopp", Some("/stop")),
            ("/hlep", Some("/help")),
            ("/hekp", Some("/help")),
            ("/elp", Some("/help")),
            ("/qiut", Some("/quit")),
            ("/comlete", Some("/complete")),
            ("/xstop", Some("/stop")),
            ("/stop", None),
            ("/mode", None),
            ("/serach", Some("/search")),
            ("/models", Some("/model")),
            ("/compact", None),
            ("/init", None),
            ("/", None),
            ("stpo", None),
            ("", None),
        ] {
            assert_eq!(near(typed), meant, "{typed}");
        }
    }

    #[test]
    fn a_space_before_it_makes_it_a_message() {
        assert_eq!(split("/model  big one "), ("/model", "big one"));
        assert_eq!(split(" /stop"), ("", "/stop"));
        assert_eq!(split("/stop"), ("/stop", ""));
    }
}
