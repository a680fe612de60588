//! Every page, walked by what people need who have a small screen, no mouse, or a reader instead of a screen.

use serde_json::{Value, json};

use super::{Browser, Visit, world};
use crate::site::Site;

const PHONE: (u32, u32) = (360, 740);
const TAB: char = '\u{e004}';
const ENTER: char = '\u{e007}';

/// What is wrong for whoever cannot see the page, or sees little.
const LABELS: &str = "
    const bad = [];
    const tell = (what, one) => bad.push(what + ': ' + one.outerHTML.slice(0, 120));
    const named = (one) => (one.getAttribute('aria-label') || '').trim() || one.getAttribute('aria-labelledby')
        && document.getElementById(one.getAttribute('aria-labelledby')) || (one.innerText || '').trim()
        || (one.textContent || '').trim() || one.title;
    for (const one of document.querySelectorAll('input:not([type=hidden]), select, textarea')) {
        if (!one.labels.length && !one.getAttribute('aria-label')) tell('no label', one);
    }
    for (const one of document.querySelectorAll('button, a[href], summary')) if (!named(one)) tell('no name', one);
    for (const one of document.querySelectorAll('img:not([alt])')) tell('no alt', one);
    for (const one of document.querySelectorAll('svg:not([aria-hidden=true])')) {
        if (one.getAttribute('role') !== 'img' || !one.getAttribute('aria-label') && !one.getAttribute('aria-labelledby')
            && !one.querySelector(':scope > title')) tell('no words for a picture', one);
    }
    for (const one of document.querySelectorAll('table')) if (!one.querySelector('th')) tell('no heads', one);
    for (const one of document.querySelectorAll('[tabindex]')) if (one.tabIndex > 0) tell('jumps', one);
    for (const one of document.querySelectorAll('[aria-controls], [aria-labelledby], [aria-describedby], label[for]')) {
        for (const name of ['aria-controls', 'aria-labelledby', 'aria-describedby', 'for']) {
            for (const id of (one.getAttribute(name) || '').split(' ').filter(Boolean)) {
                if (!document.getElementById(id)) tell('points nowhere', one);
            }
        }
    }
    const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
    for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) bad.push('twice: ' + id);
    if (document.querySelectorAll('h1').length !== 1) bad.push('not one h1');
    if (document.documentElement.lang !== 'en') bad.push('no language');
    if (!document.querySelector('main') || !document.title) bad.push('no main or title');
    return bad;
";

/// Texts whose contrast with what is behind them is too low.
const CONTRAST: &str = "
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgba = (text) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (top, under) => top.slice(0, 3).map((one, at) => one * top[3] + under[at] * (1 - top[3])).concat(1);
    const ground = (one) => {
        const layers = [];
        for (; one; one = one.parentElement) layers.push(rgba(getComputedStyle(one).backgroundColor));
        const dark = matchMedia('(prefers-color-scheme: dark)').matches;
        return layers.reverse().reduce((under, top) => over(top, under), dark ? [18, 18, 18, 1] : [255, 255, 255, 1]);
    };
    const light = (colour) => {
        const [r, g, b] = colour.map((one) => one / 255).map((one) => one <= .04045 ? one / 12.92 : ((one + .055) / 1.055) ** 2.4);
        return .2126 * r + .7152 * g + .0722 * b;
    };
    const bad = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const one = walker.currentNode.parentElement;
        if (!walker.data && !walker.currentNode.data.trim() || one.closest('svg, .sr, .skip, option, script, noscript, :disabled')) continue;
        if (!one.checkVisibility()) continue;
        const under = ground(one);
        const [a, b] = [light(over(rgba(getComputedStyle(one).color), under)), light(under)];
        const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
        if (ratio < 4.5) bad.add(ratio.toFixed(2) + ' ' + one.localName + '.' + one.className + ' ' + walker.currentNode.data.trim().slice(0, 30));
    }
    return [...bad];
";

/// What is wider than the screen.
const WIDE: &str = "
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const all = [...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > width + 1);
    return all.map((one) => one.localName + '.' + one.className + '#' + one.id).slice(0, 8).concat('scrolls');
";

/// What the focus is on, whether one sees that, and whether it is on the screen.
const FOCUS: &str = "
    const one = document.activeElement;
    if (!one || one === document.body) return null;
    const style = getComputedStyle(one);
    const box = one.getBoundingClientRect();
    const drawn = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
    return { what: one.id || one.getAttribute('href') || one.getAttribute('name') || one.innerText.trim(),
             seen: drawn && box.bottom > 0 && box.top < innerHeight };
";

#[track_caller]
fn assert_none(browser: &Browser, look: &str, path: &str) {
    assert_eq!(browser.run(look), json!([]), "{path}");
}

fn scheme(browser: &Browser, name: &str) {
    let features = json!([{"name": "prefers-color-scheme", "value": name}]);
    browser.tool("Emulation.setEmulatedMedia", &json!({"features": features}));
}

#[test]
fn every_page_fits_a_phone_and_is_read_aloud_and_seen() {
    let (site, paths) = world::all();
    let visit = Visit::to(site);
    let browser = &visit.browser;
    for path in &paths {
        scheme(browser, "light");
        browser.resize(PHONE);
        visit.go(path);
        assert_none(browser, WIDE, path);
        browser.run("for (const one of document.querySelectorAll('details')) one.open = true");
        assert_none(browser, WIDE, path);
        assert_none(browser, LABELS, path);
        assert_none(browser, CONTRAST, path);
        scheme(browser, "dark");
        assert_none(browser, CONTRAST, path);
        browser.resize((1280, 800));
        assert_none(browser, WIDE, path);
    }
}

#[test]
fn the_ways_to_the_pages_can_be_used_on_a_phone() {
    let visit = Visit::to(Site::new());
    visit.site.record("One", &["Hello."]);
    let browser = &visit.browser;
    browser.resize(PHONE);
    for (name, path) in
        [("Workflows", "/workflows"), ("Agents", "/agents"), ("Usage", "/usage"), ("Sessions", "/")]
    {
        let css = format!("nav a[href='{path}']");
        let box_ =
            format!("return document.querySelector({css:?}).getBoundingClientRect().toJSON()");
        let box_ = browser.run(&box_);
        let (width, height) = (box_["width"].as_f64().unwrap(), box_["height"].as_f64().unwrap());
        assert!(width >= 40.0 && height >= 32.0, "{name}: {width} × {height} is hard to hit");
        browser.click(&css);
        visit.until_at(path);
        assert_eq!(browser.text("nav a[aria-current]"), name);
    }
    browser.click("#results .row-top > a");
    browser.until_says("h1", "One");
}

/// Everything that one comes to with the tab key, in order.
fn walked(browser: &Browser) -> Vec<Value> {
    let mut all = Vec::new();
    for _ in 0..80 {
        browser.press(TAB);
        let at = browser.run(FOCUS);
        if at.is_null() || all.first() == Some(&at) {
            break;
        }
        all.push(at);
    }
    all
}

#[test]
fn the_keyboard_reaches_everything_and_shows_where_it_is() {
    let (site, paths) = world::all();
    let visit = Visit::to(site);
    let browser = &visit.browser;
    visit.go("/");
    browser.run("document.activeElement.blur()");
    let all = walked(browser);
    for one in &all {
        assert_eq!(one["seen"], true, "{one}: {all:#?}");
    }
    let names: Vec<&str> = all.iter().filter_map(|one| one["what"].as_str()).collect();
    let expected = ["#main", "/", "/", "/workflows", "/agents", "/usage", "Log out", "q", "Search"];
    assert_eq!(names[..expected.len()], expected);
    assert!(names.iter().any(|name| name.starts_with("/sessions/")), "{names:?}");

    visit.go("/");
    browser.press('/');
    assert_eq!(browser.run(FOCUS)["what"], "q", "a key leads to the search");
    visit.go("/");
    browser.press('j');
    browser.press('j');
    browser.press('k');
    browser.press(ENTER);
    browser.until("a session", "return location.pathname.startsWith('/sessions/')");
    let session = paths.iter().find(|path| path.starts_with("/sessions/")).unwrap();
    visit.go(session);
    let all = walked(browser);
    let names: Vec<&str> = all.iter().filter_map(|one| one["what"].as_str()).collect();
    for name in ["Copy", "Fork", "prompt", "to", "Send"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    for one in &all {
        assert_eq!(one["seen"], true, "{one}");
    }
}
