//! What the keys mean.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Something the user does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    Type(String),
    EraseChar,
    EraseWord,
    EraseAll,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Pick,
    Leave,
}

/// What an event means; `None` where it means nothing, apart from a reason to draw again.
pub(super) fn read(event: &Event) -> Option<Key> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => of(*key),
        Event::Paste(text) => {
            Some(Key::Type(text.split_whitespace().collect::<Vec<_>>().join(" ")))
        }
        _ => None,
    }
}

fn of(key: KeyEvent) -> Option<Key> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('p') => Some(Key::Up),
            KeyCode::Char('n') => Some(Key::Down),
            KeyCode::Char('u') => Some(Key::EraseAll),
            KeyCode::Char('w') => Some(Key::EraseWord),
            KeyCode::Char('h') => Some(Key::EraseChar),
            KeyCode::Char('m' | 'j') => Some(Key::Pick),
            KeyCode::Char('c' | 'd') => Some(Key::Leave),
            _ => None,
        };
    }
    match key.code {
        KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::ALT) => {
            Some(Key::Type(c.to_string()))
        }
        KeyCode::Backspace => Some(Key::EraseChar),
        KeyCode::Up => Some(Key::Up),
        KeyCode::Down => Some(Key::Down),
        KeyCode::PageUp => Some(Key::PageUp),
        KeyCode::PageDown => Some(Key::PageDown),
        KeyCode::Home => Some(Key::First),
        KeyCode::End => Some(Key::Last),
        KeyCode::Enter => Some(Key::Pick),
        KeyCode::Esc => Some(Key::Leave),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: KeyCode, modifiers: KeyModifiers, expected: Option<Key>) {
        assert_eq!(read(&Event::Key(KeyEvent::new(code, modifiers))), expected, "{code:?}");
    }

    #[test]
    fn keys_mean_what_the_footer_says() {
        let (none, control) = (KeyModifiers::NONE, KeyModifiers::CONTROL);
        check(KeyCode::Enter, none, Some(Key::Pick));
        check(KeyCode::Esc, none, Some(Key::Leave));
        check(KeyCode::Char('c'), control, Some(Key::Leave));
        check(KeyCode::Char('d'), control, Some(Key::Leave));
        check(KeyCode::Char('p'), control, Some(Key::Up));
        check(KeyCode::Char('n'), control, Some(Key::Down));
        check(KeyCode::Char('u'), control, Some(Key::EraseAll));
        check(KeyCode::Char('z'), control, None);
        check(KeyCode::Char('x'), KeyModifiers::ALT, None);
        check(KeyCode::Char('É'), KeyModifiers::SHIFT, Some(Key::Type("É".to_owned())));
    }

    #[test]
    fn a_paste_is_typed_on_one_line() {
        let paste = Event::Paste("two\nlines\r\n".to_owned());
        assert_eq!(read(&paste), Some(Key::Type("two lines".to_owned())));
    }

    #[test]
    fn a_key_counts_once() {
        let mut up = KeyEvent::new(KeyCode::Up, KeyModifiers::NONE);
        up.kind = KeyEventKind::Release;
        assert_eq!(read(&Event::Key(up)), None);
        assert_eq!(read(&Event::Resize(80, 24)), None);
    }
}
