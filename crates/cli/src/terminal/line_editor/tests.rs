//! Typing.

use super::*;

fn nothing(_: &str, at: usize) -> Completions {
    (at, Vec::new())
}

fn typed(editor: &mut LineEditor, keys: &[Key]) -> Vec<Typed> {
    let all = keys.iter().map(|key| editor.key(key.clone(), &nothing));
    all.filter(|typed| *typed != Typed::Edited).collect()
}

fn text(editor: &mut LineEditor, text: &str) {
    for c in text.chars() {
        editor.key(Key::Char(c), &nothing);
    }
}

fn line(text: &str) -> Vec<Typed> {
    vec![Typed::Line(text.to_owned())]
}

#[test]
fn a_line_is_edited_and_given() {
    let mut editor = LineEditor::default();
    text(&mut editor, "Grüße 日本x");
    assert_eq!(
        typed(&mut editor, &[Key::Backspace, Key::Home, Key::Char('!'), Key::Enter]),
        line("!Grüße 日本")
    );
    assert_eq!(typed(&mut editor, &[Key::Enter]), line(""));
    text(&mut editor, "one two three");
    let keys =
        [Key::DeleteWord, Key::WordLeft, Key::Ctrl('k'), Key::Home, Key::Ctrl('y'), Key::Enter];
    assert_eq!(typed(&mut editor, &keys), line("two one "));
    text(&mut editor, "xabc");
    assert_eq!(typed(&mut editor, &[Key::Home, Key::Ctrl('d'), Key::Enter]), line("abc"));
    assert_eq!(typed(&mut editor, &[Key::Ctrl('d')]), [Typed::End]);
    assert_eq!(typed(&mut editor, &[Key::BackTab]), [Typed::Other(Key::BackTab)]);
}

#[test]
fn an_input_can_have_several_lines() {
    let mut editor = LineEditor::default();
    text(&mut editor, "one\\");
    assert_eq!(
        typed(
            &mut editor,
            &[Key::Enter, Key::Char('2'), Key::AltEnter, Key::Char('3'), Key::Enter]
        ),
        line("one\n2\n3")
    );
    text(&mut editor, "C:\\\\");
    assert_eq!(typed(&mut editor, &[Key::Enter]), line("C:\\\\"));
    let paste = Key::Paste("run \\\n  it\n".to_owned());
    assert_eq!(typed(&mut editor, &[paste, Key::Enter]), line("run \\\n  it"));
    // Up and down move within it before they go to the history.
    editor.remember("before");
    let keys = [
        Key::Paste("ab\ncd".to_owned()),
        Key::Up,
        Key::Char('x'),
        Key::Down,
        Key::Char('y'),
        Key::Enter,
    ];
    assert_eq!(typed(&mut editor, &keys), line("abx\ncdy"));
}

#[test]
fn the_history_is_gone_through_and_searched() {
    let mut editor = LineEditor::new(vec!["first".into(), "second one".into(), "third".into()]);
    text(&mut editor, "draft");
    assert_eq!(
        typed(&mut editor, &[Key::Up, Key::Up, Key::Down, Key::Down, Key::Enter]),
        line("draft")
    );
    assert_eq!(typed(&mut editor, &[Key::Up, Key::Up, Key::Enter]), line("second one"));
    typed(&mut editor, &[Key::Ctrl('r'), Key::Char('I'), Key::Char('r')]);
    assert_eq!((editor.text(), editor.searched()), ("third", Some(("Ir", true))));
    typed(&mut editor, &[Key::Ctrl('r')]);
    assert_eq!(editor.text(), "first");
    typed(&mut editor, &[Key::Escape]);
    assert_eq!((editor.text(), editor.searched()), ("", None));
    typed(&mut editor, &[Key::Ctrl('r'), Key::Char('o'), Key::Char('n')]);
    assert_eq!(typed(&mut editor, &[Key::Enter]), line("second one"));
}

#[test]
fn tab_completes_as_far_as_it_is_clear() {
    let commands = |text: &str, at: usize| -> Completions {
        let all = ["/handoff", "/help", "/quit"].iter().filter(|one| one.starts_with(&text[..at]));
        (0, all.map(|one| (*one).to_owned()).collect())
    };
    let mut editor = LineEditor::default();
    text(&mut editor, "/q");
    editor.key(Key::Tab, &commands);
    assert_eq!((editor.text(), editor.offered()), ("/quit", &[][..]));
    editor.clear();
    text(&mut editor, "/");
    editor.key(Key::Tab, &commands);
    assert_eq!((editor.text(), editor.offered().len()), ("/", 3));
    text(&mut editor, "h");
    editor.key(Key::Tab, &commands);
    assert_eq!(
        (editor.text(), editor.offered()),
        ("/h", &["/handoff".to_owned(), "/help".to_owned()][..])
    );
    text(&mut editor, "e");
    assert_eq!(editor.offered().len(), 0);
    editor.key(Key::Tab, &commands);
    assert_eq!(editor.text(), "/help");
}

#[test]
fn rows_fit_and_the_cursor_is_where_it_is_typed() {
    let mut editor = LineEditor::default();
    text(&mut editor, "abcdefgh");
    assert_eq!(
        editor.rows("> ", 6, 9),
        (vec!["> abcd".into(), "  efgh".into(), "  ".into()], (2, 2))
    );
    editor.key(Key::Left, &nothing);
    assert_eq!(editor.rows("> ", 6, 9), (vec!["> abcd".into(), "  efgh".into()], (1, 5)));
    editor.key(Key::Home, &nothing);
    assert_eq!(editor.rows("> ", 6, 9).1, (0, 2));
    editor.clear();
    editor.key(Key::Paste("a\u{1b}[2J\n日本\tx".to_owned()), &nothing);
    assert_eq!(editor.rows("> ", 20, 9), (vec!["> a␛[2J".into(), "  日本 x".into()], (1, 8)));
    editor.clear();
    let many = (1..=20).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
    editor.key(Key::Paste(many), &nothing);
    assert_eq!(
        editor.rows("> ", 20, 3),
        (vec!["  18".into(), "  19".into(), "  20".into()], (2, 4))
    );
}

#[test]
fn any_keys_leave_the_cursor_within_the_text() {
    let keys = [
        Key::Char('a'),
        Key::Char('日'),
        Key::Char('\u{301}'),
        Key::Paste("x\n\u{1b}y\u{200d}\r\nz".into()),
        Key::AltEnter,
        Key::Backspace,
        Key::Delete,
        Key::Left,
        Key::Right,
        Key::Up,
        Key::Down,
        Key::Home,
        Key::End,
        Key::WordLeft,
        Key::WordRight,
        Key::DeleteWord,
        Key::DeleteWordAfter,
        Key::Ctrl('u'),
        Key::Ctrl('k'),
        Key::Ctrl('y'),
        Key::Ctrl('r'),
        Key::Escape,
        Key::Tab,
        Key::Enter,
    ];
    let mut random = fastrand::Rng::with_seed(rethread_testkit::seed());
    let mut editor = LineEditor::default();
    for _ in 0..20_000 {
        let key = keys[random.usize(..keys.len())].clone();
        if let Typed::Line(line) = editor.key(key, &nothing) {
            editor.remember(&line);
        }
        assert!(editor.text().is_char_boundary(editor.cursor));
        let (rows, cursor) = editor.rows("> ", 12, 5);
        assert!(cursor.0 < rows.len() && cursor.1 <= 12, "{rows:?} {cursor:?}");
        assert!(rows.iter().all(|row| width(row) <= 12), "{rows:?}");
        if editor.text().len() > 4000 {
            editor.clear();
        }
    }
}
