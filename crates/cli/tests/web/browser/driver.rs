//! A real Chromium, told what to do over `WebDriver`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::Request;

/// How long a page may take to show something.
const PATIENCE: Duration = Duration::from_secs(40);

/// Under this name `WebDriver` hands elements about.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with a profile of its own.
#[derive(Debug)]
pub(crate) struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    /// The profile lies in it.
    _folder: TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session; the driver alone would leave it behind.
        if !self.session.is_empty() {
            drop(self.request("DELETE", "", None));
        }
        drop(self.driver.kill());
        drop(self.driver.wait());
    }
}

impl Browser {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// With more on its command line.
    pub(crate) fn with(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the browser");
        // Two that start at once may choose the same port; one of them ends then.
        let started = (0..10).find_map(|_| start_driver(folder.path()));
        let (driver, address) = started.expect("chromedriver starts");
        let mut browser = Self { driver, address, session: String::new(), _folder: folder };
        browser.begin(more);
        browser
    }

    fn begin(&mut self, more: &[&str]) {
        let own = [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--no-first-run",
            "--force-device-scale-factor=1",
            "--window-size=1280,800",
            "--lang=en",
        ];
        let args: Vec<&str> = own.iter().chain(more).copied().collect();
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": args},
            "unhandledPromptBehavior": "ignore",
        }}});
        let request = Request::new("POST", "/session").json(&wanted);
        let answer = request.send(self.address).is(200).json();
        let session = answer["value"]["sessionId"].as_str();
        session.expect("a session").clone_into(&mut self.session);
    }

    /// One command; what it gives, or what `WebDriver` calls the error.
    fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let mut request = Request::new(method, &format!("/session/{}{path}", self.session));
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send(self.address);
        let mut told = answer.json();
        match answer.status {
            200 => Ok(told["value"].take()),
            _ => Err(format!(
                "{}: {}",
                told["value"]["error"].as_str().unwrap_or_default(),
                told["value"]["message"].as_str().unwrap_or_default()
            )),
        }
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        let told = self.request("POST", path, Some(body));
        told.unwrap_or_else(|error| panic!("{path} {body}: {error}"))
    }

    #[track_caller]
    pub(crate) fn open(&self, url: &str) {
        self.post("/url", &json!({"url": url}));
    }

    #[track_caller]
    pub(crate) fn reload(&self) {
        self.post("/refresh", &json!({}));
    }

    pub(crate) fn url(&self) -> String {
        let url = self.request("GET", "/url", None).expect("an address");
        url.as_str().unwrap_or_default().to_owned()
    }

    /// Runs it in the page; gives what it returns.
    #[track_caller]
    pub(crate) fn run(&self, script: &str) -> Value {
        self.run_with(script, &[])
    }

    #[track_caller]
    pub(crate) fn run_with(&self, script: &str, args: &[Value]) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": args}))
    }

    /// Runs it in the page until it returns something that is true. A page that is being left counts as not yet.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, script: &str) -> Value {
        let (end, body) = (Instant::now() + PATIENCE, json!({"script": script, "args": []}));
        loop {
            let found = self.request("POST", "/execute/sync", Some(&body));
            if let Ok(found) = &found
                && !matches!(found, Value::Null | Value::Bool(false))
            {
                return found.clone();
            }
            assert!(Instant::now() < end, "{what}: {found:?} at {}\n{}", self.url(), self.shown());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until there is an element of this kind that says this.
    #[track_caller]
    pub(crate) fn until_says(&self, css: &str, text: &str) {
        let script = format!(
            "return [...document.querySelectorAll({})].some((one) => one.innerText.includes({}))",
            json!(css),
            json!(text)
        );
        self.until(&format!("{css} says {text}"), &script);
    }

    /// Waits until there is one.
    #[track_caller]
    pub(crate) fn until_has(&self, css: &str) {
        self.until(css, &format!("return document.querySelector({}) !== null", json!(css)));
    }

    /// Waits until there is none.
    #[track_caller]
    pub(crate) fn until_gone(&self, css: &str) {
        self.until(css, &format!("return document.querySelector({}) === null", json!(css)));
    }

    #[track_caller]
    pub(crate) fn has(&self, css: &str) -> bool {
        self.count(css) > 0
    }

    #[track_caller]
    pub(crate) fn count(&self, css: &str) -> u64 {
        let script = "return document.querySelectorAll(arguments[0]).length";
        self.run_with(script, &[json!(css)]).as_u64().unwrap_or_default()
    }

    /// What somebody reads in the first element of this kind.
    #[track_caller]
    pub(crate) fn text(&self, css: &str) -> String {
        let script =
            "const one = document.querySelector(arguments[0]); return one && one.innerText";
        let text = self.run_with(script, &[json!(css)]);
        text.as_str().unwrap_or_else(|| panic!("no {css} at {}", self.url())).to_owned()
    }

    /// What somebody reads in each element of this kind.
    #[track_caller]
    pub(crate) fn texts(&self, css: &str) -> Vec<String> {
        let script =
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)";
        let texts = self.run_with(script, &[json!(css)]);
        let texts = texts.as_array().expect("texts").iter();
        texts.map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Everything that can be read on the page.
    pub(crate) fn shown(&self) -> String {
        let body = json!({"script": "return document.body.innerText", "args": []});
        let shown = self.request("POST", "/execute/sync", Some(&body));
        shown.ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// The first element of this kind, once it is there.
    #[track_caller]
    fn element(&self, css: &str) -> String {
        let (end, body) =
            (Instant::now() + PATIENCE, json!({"using": "css selector", "value": css}));
        loop {
            match self.request("POST", "/element", Some(&body)) {
                Ok(found) => return found[ELEMENT].as_str().expect("an element").to_owned(),
                Err(error) => assert!(
                    Instant::now() < end,
                    "{css}: {error} at {}\n{}",
                    self.url(),
                    self.shown()
                ),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Does something to an element; again where the page was just renewed, or something is on its way.
    #[track_caller]
    fn on(&self, css: &str, what: &str, body: &Value) {
        let end = Instant::now() + PATIENCE;
        loop {
            let element = self.element(css);
            match self.request("POST", &format!("/element/{element}/{what}"), Some(body)) {
                Ok(_) => return,
                Err(error) => {
                    let passes = ["stale", "not interactable", "intercepted", "detached"];
                    let passes = passes.iter().any(|kind| error.contains(kind));
                    assert!(passes && Instant::now() < end, "{what} {css}: {error}");
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Clicks as a person does: it has to be seen, and nothing may lie over it.
    #[track_caller]
    pub(crate) fn click(&self, css: &str) {
        self.on(css, "click", &json!({}));
    }

    #[track_caller]
    pub(crate) fn write(&self, css: &str, text: &str) {
        self.on(css, "value", &json!({"text": text}));
    }

    #[track_caller]
    pub(crate) fn clear(&self, css: &str) {
        self.on(css, "clear", &json!({}));
    }

    /// Presses a key, wherever the focus is.
    #[track_caller]
    pub(crate) fn press(&self, key: char) {
        let keys = json!({"type": "key", "id": "keys", "actions": [
            {"type": "keyDown", "value": key.to_string()},
            {"type": "keyUp", "value": key.to_string()},
        ]});
        self.post("/actions", &json!({"actions": [keys]}));
    }

    /// Whether the browser shows a dialog.
    pub(crate) fn asks(&self) -> bool {
        self.request("GET", "/alert/text", None).is_ok()
    }

    /// A command of the developer tools.
    #[track_caller]
    pub(crate) fn tool(&self, name: &str, with: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({"cmd": name, "params": with}))
    }

    /// The page has this size from now on.
    #[track_caller]
    pub(crate) fn resize(&self, (width, height): (u32, u32)) {
        let is_phone = width < 500;
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone,
        });
        self.tool("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Opens a tab and goes there; gives the name of the one before.
    #[track_caller]
    pub(crate) fn new_tab(&self) -> String {
        let before = self.tab();
        let tab = self.post("/window/new", &json!({"type": "tab"}));
        self.switch(tab["handle"].as_str().expect("a tab"));
        before
    }

    /// The tab that commands go to.
    #[track_caller]
    pub(crate) fn tab(&self) -> String {
        let tab = self.request("GET", "/window", None).expect("a tab");
        tab.as_str().expect("a tab").to_owned()
    }

    #[track_caller]
    pub(crate) fn switch(&self, tab: &str) {
        self.post("/window", &json!({"handle": tab}));
    }

    /// Loses its cookies.
    pub(crate) fn forget(&self) {
        self.request("DELETE", "/cookie", None).expect("no cookies");
    }

    /// What is on the screen, as a PNG.
    pub(crate) fn picture(&self) -> Vec<u8> {
        let text = self.request("GET", "/screenshot", None).expect("a picture");
        from_base64(text.as_str().unwrap_or_default())
    }

    /// What the page says of itself, for a test that fails.
    pub(crate) fn describe(&self) -> String {
        format!("{}\n{}", self.url(), self.shown())
    }
}

/// Starts a driver; gives where it listens, or nothing where it ended at once.
fn start_driver(folder: &Path) -> Option<(Child, SocketAddr)> {
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").env("TMPDIR", folder).env("HOME", folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut driver = command.spawn().expect("chromedriver is installed: see `./test`");
    let mut lines = BufReader::new(driver.stdout.take().expect("a pipe")).lines();
    let port = lines.by_ref().find_map(|line| {
        let line = line.ok()?;
        line.split("successfully on port ").nth(1)?.trim_end_matches('.').parse::<u16>().ok()
    });
    let Some(port) = port else {
        drop(driver.wait());
        return None;
    };
    // What it says afterwards is read, so that it never waits for us.
    std::thread::spawn(move || lines.for_each(drop));
    Some((driver, SocketAddr::from(([127, 0, 0, 1], port))))
}

fn from_base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = text.bytes().filter_map(digit).collect();
    let bytes = digits.chunks(4).flat_map(|four| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        let whole = bits.to_be_bytes();
        whole[1..four.len()].to_vec()
    });
    bytes.collect()
}
