//! A folder that was damaged before anybody here knew it: it is noticed, told alike by every command, and no line of
//! anybody is dropped to mend it.

use std::fs;
use std::path::Path;

use crate::env::{TestEnv, user};
use crate::workspace_sessions::{folders, only_folder, workspace};

/// What somebody does to the lines of a log and to the description.
type Damage = fn(&mut Vec<String>, &mut String);

const DAMAGES: &[(&str, &str, bool, Damage)] = &[
    ("a line taken out", "a line is missing before line 2", false, |lines, _| {
        lines.remove(1);
    }),
    ("the last line taken out", "the last line", false, |lines, _| {
        lines.pop();
    }),
    ("two lines swapped", "stands before the line that it came after", true, |lines, _| {
        lines.swap(1, 2);
    }),
    (
        "a line edited",
        "was changed by hand or damaged, and is not known here",
        false,
        |lines, _| {
            lines[1] = lines[1].replace("the second", "the forged");
        },
    ),
    ("the log emptied", "its log is empty", false, |lines, _| lines.clear()),
    ("another id", "its log says", true, |_, card| {
        let at = card.find("\"id\": \"").unwrap() + 7;
        card.replace_range(at..at + 36, "01a1e2be-f7ac-7579-993d-b291fb4d3806");
    }),
];

fn read(folder: &Path) -> (String, String) {
    let file = |name: &str| fs::read_to_string(folder.join(".session").join(name)).unwrap();
    (file("messages.jsonl"), file("session.json"))
}

#[test]
fn damage_in_a_fresh_clone_is_told_by_list_doctor_and_repair_and_nothing_is_dropped() {
    let source = workspace();
    let words = ["the first", "the second", "the third", "the fourth"];
    let id = source.record(["--title", "Talk"], &words.map(user));
    source.run(["pause", &id]).succeeded();
    let folder = only_folder(&source);
    let (log, card) = read(&folder);
    for (what, told, is_mended, damage) in DAMAGES {
        let env = TestEnv::new();
        env.run(["init"]).succeeded();
        let mut lines: Vec<String> = log.lines().map(ToOwned::to_owned).collect();
        let mut described = card.clone();
        damage(&mut lines, &mut described);
        let place = env.path("project/conversations/2023-05-01/001-chat-talk/.session");
        fs::create_dir_all(&place).unwrap();
        let end = if lines.is_empty() { "" } else { "\n" };
        fs::write(place.join("messages.jsonl"), lines.join("\n") + end).unwrap();
        fs::write(place.join("session.json"), &described).unwrap();
        for _ in 0..2 {
            let listed = env.run(["list"]).succeeded();
            assert!(listed.stderr.contains(told), "{what}: {listed}");
        }
        let checked = env.run(["doctor"]);
        assert!(checked.text().contains(told), "{what}: {checked}");
        assert_eq!(checked.code, Some(1), "{what}: {checked}");
        let repaired = env.run(["doctor", "--repair"]);
        assert_eq!(repaired.code, Some(i32::from(!is_mended)), "{what}: {repaired}");
        if !is_mended {
            assert!(repaired.text().contains(told), "{what}: {repaired}");
        }
        // Every line that was there is still there, as it was.
        let (after, _) = read(&folders(&env)[0]);
        let mut kept: Vec<&str> = after.lines().collect();
        let mut expected: Vec<&str> = lines.iter().map(String::as_str).collect();
        kept.sort_unstable();
        expected.sort_unstable();
        assert_eq!(kept, expected, "{what}");
        if *is_mended {
            assert_eq!(after, log, "{what}");
            env.assert_sound();
            assert_eq!(env.messages(&id).len(), 4, "{what}");
        }
        assert!(!env.data(["list"]).contains("forged"));
    }
}

#[test]
fn a_text_that_rots_in_the_store_is_not_shown_and_comes_back_from_its_folder() {
    let env = workspace();
    let id = env.record(["--title", "Talk"], &[user("the first thing"), user("the second thing")]);
    let store = env.path("store/sessions.db");
    let mut bytes = fs::read(&store).unwrap();
    let text = b"the second thing";
    let places: Vec<usize> =
        (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text)).collect();
    for at in &places {
        bytes[at + 4] ^= 1;
    }
    assert!(!places.is_empty());
    fs::write(&store, bytes).unwrap();
    for command in [["show", &id], ["context", &id], ["export", &id]] {
        let told = env.run(command);
        assert!(!told.text().contains("recond"), "{told}");
        assert!(told.text().contains("damaged"), "{told}");
    }
    assert!(env.run(["doctor"]).text().contains("message 2"), "{}", env.run(["doctor"]));
    let repaired = env.run(["doctor", "--repair"]).succeeded();
    assert!(repaired.text().contains("Restored"), "{repaired}");
    assert!(env.data(["show", &id]).contains("the second thing"));
    env.assert_sound();
}
