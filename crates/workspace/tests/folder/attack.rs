//! Somebody swaps folders for links while we read and write (S5): we never leave the workspace, and never hang.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rethread_workspace::{Card, Item, Page};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::{Place, card, line};

const SESSION: &str = "conversations/2026-11-16/001-brainstorm-api-design";
const SWAPS: usize = 20_000;
const USES: usize = 20;

fn swap(one: &Path, other: &Path) {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
}

/// Swaps `inside` for a link to the outside while everything is done with the session.
fn attack(inside: &str, target: &str) {
    let place = Place::new();
    let path = place.session();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir_all(outside.path().join("001-brainstorm-api-design/.session")).unwrap();
    fs::create_dir(outside.path().join(".session")).unwrap();
    let secret = r#"{"role":"user","content":"outside"}"#;
    for folder in ["", ".session", "001-brainstorm-api-design/.session"] {
        for file in ["messages.jsonl", "session.json", "brainstorm.md"] {
            fs::write(outside.path().join(folder).join(file), secret).unwrap();
        }
    }
    let before = listing(outside.path());
    place.lock(&path).write_card(&card()).unwrap();
    place.lock(&path).append(&[line(1)], false).unwrap();
    let victim = place.path(inside);
    let link = place.path("link");
    symlink(outside.path().join(target), &link).unwrap();
    let (over, used) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut done, mut refused) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut swaps = 0;
            // On a slow machine it takes longer until enough was done meanwhile.
            while swaps < SWAPS || used.load(Ordering::Acquire) <= USES {
                swap(&victim, &link);
                swap(&victim, &link);
                swaps += 2;
            }
            over.store(true, Ordering::Release);
        });
        let start = Instant::now();
        while !over.load(Ordering::Acquire) {
            let outcome = use_session(&place, done);
            *if outcome.is_ok() { &mut done } else { &mut refused } += 1;
            used.store(done + refused, Ordering::Release);
            assert!(start.elapsed() < Duration::from_mins(1), "it hangs");
        }
    });
    assert_eq!(listing(outside.path()), before, "something outside was changed");
    assert!(use_session(&place, done).is_ok());
}

fn use_session(place: &Place, number: usize) -> Result<(), rethread_workspace::Error> {
    place.workspace.scan()?;
    let path = SESSION.parse()?;
    let Some(folder) = place.workspace.folder(&path)? else { return Ok(()) };
    let foreign = |item: Item| assert!(!format!("{item:?}").contains("outside"), "it was read");
    folder.read(0, &mut |item| foreign(item))?;
    let locked = folder.lock_within(Duration::from_millis(50))?;
    locked.append(&[line(number)], false)?;
    locked.write_card(&Card { title: Some(number.to_string()), ..card() })?;
    locked.write_page("brainstorm", &Page { title: number.to_string(), ..Page::default() })?;
    locked.keep_aside(number.to_string().as_bytes())?;
    if number.is_multiple_of(50) {
        locked.replace_log(&mut std::iter::empty())?;
    }
    locked.read(0, &mut |item| foreign(item))?;
    Ok(())
}

/// All files below a folder with their content.
fn listing(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.push((path.display().to_string(), String::new()));
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.display().to_string(), text));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn the_inside_of_a_session_swapped_for_a_link_leads_nowhere() {
    attack(&format!("{SESSION}/.session"), ".session");
}

#[test]
fn a_session_swapped_for_a_link_leads_nowhere() {
    attack(SESSION, "");
}

#[test]
fn a_day_swapped_for_a_link_leads_nowhere() {
    attack("conversations/2026-11-16", "");
}

#[test]
fn a_log_swapped_for_a_link_leads_nowhere() {
    attack(&format!("{SESSION}/.session/messages.jsonl"), "messages.jsonl");
}

#[test]
fn a_card_swapped_for_a_link_leads_nowhere() {
    attack(&format!("{SESSION}/.session/session.json"), "session.json");
}
