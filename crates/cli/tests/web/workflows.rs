//! Workflows over the API: what happened, in parts.

use serde_json::Value;

use crate::browser::world;
use crate::site::Site;

fn numbers(page: &Value) -> Vec<u64> {
    page["items"].as_array().unwrap().iter().map(|one| one["no"].as_u64().unwrap()).collect()
}

/// All parts, in the order in which they lead on.
fn walk(site: &Site, id: &str, by: &str, mut from: u64) -> Vec<u64> {
    let mut found = Vec::new();
    loop {
        let path = format!("/api/v1/workflows/{id}/events?limit=4&{by}={from}");
        let page = site.get(&path).is(200).json();
        let part = numbers(&page);
        assert!(part.len() <= 4, "{part:?}");
        found.extend(part);
        let Some(next) = page["next"].as_str() else { return found };
        from = next.parse().unwrap();
    }
}

#[test]
fn what_happened_is_read_in_parts_from_either_end() {
    let env = world::repository();
    let id = world::paused_twice(&env, world::PLAN, &["lunch", "the train leaves"]);
    let site = Site::within(env, &[]);
    let events = site.get(&format!("/api/v1/workflows/{id}")).is(200).json()["events"].as_u64();
    let all: Vec<u64> = (1..=events.unwrap()).collect();
    assert!(all.len() > 8, "{all:?}");
    assert_eq!(walk(&site, &id, "after", 0), all);
    let back: Vec<u64> = all.iter().rev().copied().collect();
    assert_eq!(walk(&site, &id, "before", all.len() as u64 + 1), back);
    let path = |rest: &str| format!("/api/v1/workflows/{id}/events{rest}");
    assert_eq!(numbers(&site.get(&path("?limit=2")).is(200).json()), [1, 2]);
    let between = site.get(&path("?after=2&before=6&limit=2")).is(200).json();
    assert_eq!((numbers(&between), &between["next"]), (vec![5, 4], &"4".into()));
    let rest = site.get(&path("?after=2&before=4")).is(200).json();
    assert_eq!((numbers(&rest), &rest["next"]), (vec![3], &Value::Null));
    assert_eq!(site.get(&path("?limit=0")).is(422).code(), "limit_not_positive");
    assert_eq!(site.get(&path("?before=x")).is(422).code(), "bad_input");
}
