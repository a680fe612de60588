//! Settings that cannot work are refused before anything is sent.

use std::time::Duration;

use rethread_outbound::model::{Dialect, Endpoint, Error, Settings};

use super::setup::{BOTH, settings};

const LOCAL: &str = "http://127.0.0.1:1/v1";

fn refusal(settings: Settings) -> String {
    match Endpoint::new(settings) {
        Err(Error::BadSettings(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn dialects_have_names() {
    assert_eq!("openai".parse(), Ok(Dialect::OpenAi));
    assert_eq!("anthropic".parse(), Ok(Dialect::Anthropic));
    for name in ["", "OpenAI", "claude"] {
        assert!(matches!(name.parse::<Dialect>(), Err(Error::BadSettings(_))), "{name}");
    }
}

#[test]
fn addresses_that_are_none() {
    let cases = [
        ("", "the base URL is none: relative URL without a base"),
        ("127.0.0.1:1234", "the base URL is none: relative URL without a base"),
        ("file:///etc", "the base URL does not begin with http:// or https://"),
        (
            "http://me:pw@host/v1",
            "the base URL has a name or password in it; the key has its own setting",
        ),
        ("http://host/v1?key=a", "the base URL has a part after ? or #"),
        ("http://host/v1#a", "the base URL has a part after ? or #"),
    ];
    for dialect in BOTH {
        for (base, why) in cases {
            assert_eq!(refusal(settings(dialect, base)), why, "{base}");
        }
    }
}

#[test]
fn numbers_that_leave_nothing_to_do() {
    for dialect in BOTH {
        let usual = || settings(dialect, LOCAL);
        let nameless = Settings { model: " ".to_owned(), ..usual() };
        assert_eq!(refusal(nameless), "the model has no name");
        let hasty = Settings { timeout: Duration::ZERO, ..usual() };
        assert_eq!(refusal(hasty), "the time-out is zero");
        let idle = Settings { attempts: 0, ..usual() };
        assert_eq!(refusal(idle), "the number of attempts is zero");
        let mute = Settings { max_output_tokens: 0, ..usual() };
        assert_eq!(refusal(mute), "the number of output tokens is zero");
    }
}
