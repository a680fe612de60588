//! The pictures of the documentation, taken anew where `RETHREAD_SCREENSHOTS` is set; and that there are some.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Visit, world};

/// The most bytes of a picture.
const MOST: u64 = 200_000;
const SIZES: [(&str, (u32, u32)); 2] = [("", (1280, 800)), ("-phone", (360, 740))];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/screenshots")
}

#[test]
fn the_pictures_of_the_documentation_can_be_taken() {
    if std::env::var_os("RETHREAD_SCREENSHOTS").is_some() {
        take_all();
    }
    let pictures: Vec<_> = std::fs::read_dir(folder()).unwrap().map(|one| one.unwrap()).collect();
    assert!(pictures.len() >= 10);
    for picture in pictures {
        let bytes = picture.metadata().unwrap().len();
        assert!(bytes < MOST, "{:?} has {bytes} bytes", picture.path());
    }
}

fn take_all() {
    let (site, paths) = world::all();
    let visit = Visit::to(site);
    std::fs::create_dir_all(folder()).unwrap();
    let find = |part: &str| paths.iter().find(|path| path.contains(part)).unwrap().as_str();
    let pages = [
        ("sessions", "/"),
        ("search", "/?q=basket"),
        ("session", find("/sessions/")),
        ("workflows", "/workflows"),
        ("workflow", find("/workflows/")),
        ("comparison", find("/compare")),
        ("agents", "/agents"),
        ("usage", "/usage"),
    ];
    for (end, size) in SIZES {
        visit.browser.resize(size);
        for (name, path) in pages {
            visit.go(path);
            take(&visit, &format!("{name}{end}"));
        }
    }
    visit.browser.resize(SIZES[0].1);
    let dark = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
    visit.browser.tool("Emulation.setEmulatedMedia", &dark);
    visit.go(find("/sessions/"));
    take(&visit, "session-dark");
}

fn take(visit: &Visit, name: &str) {
    visit.browser.until("it stands", "return document.fonts.status === 'loaded'");
    std::fs::write(folder().join(format!("{name}.png")), visit.browser.picture()).unwrap();
}
