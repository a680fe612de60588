//! The editor on a terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rexpect::session::PtySession;

use super::super::pty;
use super::*;

const COMMANDS: [&str; 3] = ["/handoff", "/help", "/quit"];

/// Says what is read until the end comes.
#[test]
#[ignore = "a scene that other tests play"]
fn scene() {
    if !pty::is_scene() {
        return;
    }
    let mut out = io::stdout();
    let mut editor = Editor::open(Path::new("data/history"), &COMMANDS).unwrap();
    loop {
        let input = editor.read("you> ").unwrap();
        writeln!(out, "<{input:?}>").unwrap();
        if input == Input::End {
            break;
        }
    }
}

/// Another thread panics while a line is typed, and that ends the program.
#[test]
#[ignore = "a scene that other tests play"]
fn scene_of_a_panic() {
    if !pty::is_scene() {
        return;
    }
    std::panic::set_hook(Box::new(|_| {
        drop(writeln!(io::stdout(), "<it broke>"));
        std::process::exit(1);
    }));
    let mut editor = Editor::open(Path::new("history"), &[]).unwrap();
    std::thread::spawn(|| {
        while !Path::new("go").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("on purpose");
    });
    editor.read("you> ").unwrap();
}

fn play(folder: &Path) -> PtySession {
    pty::play(module_path!(), "scene", folder)
}

/// Types, and waits for what is read.
fn check(session: &mut PtySession, keys: &str, expected: &Input) {
    pty::answer(session, "you> ", keys);
    pty::wait_for(session, &format!("<{expected:?}>"));
}

fn line(text: &str) -> Input {
    Input::Line(text.to_owned())
}

fn end(mut session: PtySession) -> String {
    check(&mut session, "\u{4}", &Input::End);
    pty::finish(session)
}

#[test]
fn lines_are_read_until_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = play(folder.path());
    check(&mut session, "hello\r", &line("hello"));
    check(&mut session, "\r", &line(""));
    check(&mut session, "thrown away\u{3}", &Input::Interrupted);
    // Ctrl-A, Ctrl-D: no end while something is typed.
    check(&mut session, "xabc\u{1}\u{4}\r", &line("abc"));
    check(&mut session, "Grüße 日本\r", &line("Grüße 日本"));
    end(session);
}

#[test]
fn an_input_can_have_several_lines() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = play(folder.path());
    check(&mut session, "one\u{1b}\rtwo\r", &line("one\ntwo"));
    check(&mut session, "one\\\rtwo\r", &line("one\ntwo"));
    check(&mut session, "C:\\\\\r", &line("C:\\\\"));
    let paste = "\u{1b}[200~run \\\r  it\r\u{1b}[201~\r";
    check(&mut session, paste, &line("run \\\n  it\n"));
    end(session);
    let history = fs::read_to_string(folder.path().join("data/history")).unwrap();
    assert_eq!(history, "one\\ntwo\nC:\\\\\\\\\nrun \\\\\\n  it\\n\n");
}

#[test]
fn the_history_outlives_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = play(folder.path());
    check(&mut session, "first\r", &line("first"));
    check(&mut session, "second\r", &line("second"));
    check(&mut session, "first\r", &line("first"));
    end(session);
    let path = folder.path().join("data/history");
    assert_eq!(fs::read_to_string(&path).unwrap(), "second\nfirst\n");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    let mut session = play(folder.path());
    let up = "\u{1b}[A";
    check(&mut session, &format!("{up}{up}\r"), &line("second"));
    check(&mut session, &format!("{up}{up} again\r"), &line("first again"));
    end(session);
}

#[test]
fn commands_are_completed() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = play(folder.path());
    check(&mut session, "/q\t\r", &line("/quit"));
    check(&mut session, "/he\t now\r", &line("/help now"));
    pty::answer(&mut session, "you> ", "/h\t");
    pty::wait_for(&mut session, "/handoff");
    check(&mut session, "a\t\r", &line("/handoff"));
    end(session);
}

#[test]
fn what_was_pasted_does_not_control_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/history"), "a\u{1b}]0;title\u{7}b\n").unwrap();
    let mut session = play(folder.path());
    pty::answer(&mut session, "you> ", "\u{1b}[A");
    let shown = pty::answer(&mut session, "a␛]0;title␇b", "\u{3}");
    assert!(!shown.contains("\u{1b}]0;"), "{shown:?}");
    let rest = end(session);
    assert!(!rest.contains("\u{1b}]0;"), "{rest:?}");
}

#[test]
fn a_panic_elsewhere_leaves_the_terminal_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = pty::play(module_path!(), "scene_of_a_panic", folder.path());
    pty::wait_for(&mut session, "you> ");
    fs::write(folder.path().join("go"), "").unwrap();
    pty::wait_for(&mut session, "\u{1b}[?2004l\r\n");
    pty::wait_for(&mut session, "<it broke>");
    pty::finish(session);
}

#[test]
fn without_a_terminal_lines_are_plain() {
    let folder = tempfile::tempdir().unwrap();
    let (_, module) = module_path!().split_once("::").unwrap();
    let scene = format!("{module}::scene");
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([&scene, "--exact", "--ignored", "--nocapture"]).env(pty::VARIABLE, "1");
    fs::write(folder.path().join("input"), "one\\\ntwo").unwrap();
    let input = fs::File::open(folder.path().join("input")).unwrap();
    let output = command.current_dir(folder.path()).stdin(input).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let read: Vec<&str> = output.lines().filter(|line| line.starts_with('<')).collect();
    assert_eq!(read, ["<Line(\"one\\\\\")>", "<Line(\"two\")>", "<End>"]);
    assert!(!output.contains("you> "), "{output}");
    assert!(!folder.path().join("data").exists());
}
