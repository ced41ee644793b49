//! A headless browser driven over WebDriver (W3C, 2018): JSON over HTTP on loopback.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A browser with one page. It ends when the value is dropped.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts chromium with a preference for a light or a dark background. Returns `None`, and prints a line,
    /// if it is not installed. CI must have it.
    ///
    /// # Panics
    /// The browser does not start, or it is missing in CI.
    #[must_use]
    pub fn start(dark: bool) -> Option<Self> {
        let missing = ["chromium", "chromedriver"].into_iter().find(|program| !is_installed(program));
        match missing {
            Some(program) if std::env::var_os("CI").is_some() => {
                panic!("{program} is not installed; on Debian: apt-get install chromium chromium-driver")
            }
            Some(program) => {
                // Bypasses the test harness, which captures the output of passing tests.
                writeln!(std::io::stderr(), "skipped: {program} is not installed")
                    .expect("standard error is open");
                None
            }
            None => Some(Self::start_with(dark).expect("a browser")),
        }
    }

    fn start_with(dark: bool) -> Result<Self> {
        // A driver draws a free port for IPv4, and ends if another program has the same one for IPv6.
        let mut started = Self::start_driver();
        for _ in 0..4 {
            started = started.or_else(|_| Self::start_driver());
        }
        let (mut browser, mut output) = started?;
        // The rest is not needed, but a full pipe would block the browser.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let mut arguments =
            vec!["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1000,1200"];
        arguments.extend([
            "--disable-dev-shm-usage",
            "--force-device-scale-factor=1",
            "--disable-background-networking",
        ]);
        if dark {
            arguments.push("--blink-settings=preferredColorScheme=0");
        }
        let options = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let value = browser.call("POST", "/session", &options)?;
        browser.session = value["sessionId"].as_str().ok_or("no session")?.to_owned();
        Ok(browser)
    }

    /// Starts a driver without a session. Returns it with what it says from then on.
    fn start_driver() -> Result<(Self, BufReader<ChildStdout>)> {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut said = String::new();
        let mut output = BufReader::new(driver.stdout.take().ok_or("no output")?);
        let mut browser = Self { driver, port: 0, session: String::new() };
        while browser.port == 0 {
            said.clear();
            if output.read_line(&mut said)? == 0 {
                return Err("chromedriver ended without a port".into());
            }
            let port =
                said.split("successfully on port ").nth(1).map(|rest| rest.trim().trim_end_matches('.'));
            browser.port = port.map(str::parse).transpose()?.unwrap_or(0);
        }
        Ok((browser, output))
    }

    /// Gives the page this many pixels, whatever the window's borders.
    pub fn resize(&self, width: u32, height: u32) {
        let params = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.post(
            "/goog/cdp/execute",
            json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": params }),
        );
    }

    /// Loads a file and waits until its graphs are drawn.
    pub fn load(&self, file: &Path) {
        self.open_url(&format!("file://{}", file.display()));
        self.wait_until(
            "return [...document.querySelectorAll('.graph')].slice(0, 1).every(graph => graph.dataset.x)",
        );
    }

    /// Loads an address.
    pub fn open_url(&self, url: &str) {
        self.post("/url", json!({ "url": url }));
    }

    /// Waits until the body of a function returns true in the page.
    pub fn wait_until(&self, script: &str) {
        let ready = (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            self.run(script) == Value::Bool(true)
        });
        assert!(ready, "`{script}` was not true in 30 s; the console: {:?}", self.console());
    }

    /// Clicks the middle of the first element that the selector finds.
    pub fn click_element(&self, selector: &str) {
        let script = format!(
            "const box = document.querySelector('{selector}').getBoundingClientRect();
             return [box.x + box.width / 2, box.y + box.height / 2];"
        );
        let place = self.run(&script);
        self.click((place[0].as_f64().expect("x"), place[1].as_f64().expect("y")));
    }

    /// Asserts that the page made no error, and that the browser refused nothing.
    pub fn assert_no_errors(&self) {
        // Reading empties the log.
        assert_eq!(self.console(), [] as [Value; 0]);
    }

    /// Runs the body of a function in the page. Returns its result.
    pub fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({"script": script, "args": []}))
    }

    /// The page's messages on its console, and the browser's refusals.
    pub fn console(&self) -> Vec<Value> {
        self.post("/se/log", json!({"type": "browser"})).as_array().cloned().unwrap_or_default()
    }

    /// Moves the pointer to a position in the window.
    pub fn point_at(&self, (x, y): (f64, f64)) {
        self.pointer(vec![moved(x, y)]);
    }

    /// Clicks there.
    pub fn click(&self, (x, y): (f64, f64)) {
        self.pointer(vec![
            moved(x, y),
            json!({"type": "pointerDown", "button": 0}),
            json!({"type": "pointerUp", "button": 0}),
        ]);
    }

    /// Drags from one position to another.
    pub fn drag(&self, from: (f64, f64), to: (f64, f64)) {
        self.pointer(vec![
            moved(from.0, from.1),
            json!({"type": "pointerDown", "button": 0}),
            moved((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0),
            moved(to.0, to.1),
            json!({"type": "pointerUp", "button": 0}),
        ]);
    }

    /// Turns the wheel there.
    pub fn wheel(&self, (x, y): (f64, f64), by: i32) {
        let turn =
            json!({"type": "scroll", "x": x as i64, "y": y as i64, "deltaX": 0, "deltaY": by, "duration": 0});
        self.post("/actions", json!({"actions": [{"type": "wheel", "id": "wheel", "actions": [turn]}]}));
    }

    /// Presses a key, by its character or by its code point in WebDriver.
    pub fn press(&self, key: &str) {
        let keys = [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})];
        self.post("/actions", json!({"actions": [{"type": "key", "id": "keys", "actions": keys}]}));
    }

    /// Presses a key while another one is down.
    pub fn press_with(&self, held: &str, key: &str) {
        let part = |kind: &str, value: &str| json!({"type": kind, "value": value});
        let keys = [part("keyDown", held), part("keyDown", key), part("keyUp", key), part("keyUp", held)];
        self.post("/actions", json!({"actions": [{"type": "key", "id": "keys", "actions": keys}]}));
    }

    /// Writes a picture of the window as PNG.
    pub fn picture(&self, file: &Path) {
        let path = format!("/session/{}/screenshot", self.session);
        let picture = self.call("GET", &path, &json!({})).unwrap_or_else(|error| panic!("{path}: {error}"));
        std::fs::write(file, decoded(picture.as_str().unwrap_or_default())).expect("a file for the picture");
    }

    fn pointer(&self, actions: Vec<Value>) {
        self.post("/actions", json!({"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]}));
    }

    fn post(&self, path: &str, body: Value) -> Value {
        let path = format!("/session/{}{path}", self.session);
        self.call("POST", &path, &body).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let body = body.to_string();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: \
             application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line)?;
            match line.trim_end().split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse()?
                }
                None if line.trim_end().is_empty() => break,
                _ => {}
            }
        }
        let mut content = vec![0; length];
        answer.read_exact(&mut content)?;
        let mut content: Value = serde_json::from_slice(&content)?;
        match content["value"].take() {
            value if value["error"].is_string() => Err(value.to_string().into()),
            value => Ok(value),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Without a session the browser has not started. A failure here cannot be handled.
        if !self.session.is_empty() {
            let _ = self.call("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Base64 (RFC 4648, section 4) without line breaks.
fn decoded(text: &str) -> Vec<u8> {
    let six = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = text.bytes().filter_map(six).map(u32::from).collect();
    let bytes = digits.chunks(4).flat_map(|four| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        let [_, bytes @ ..] = bits.to_be_bytes();
        bytes.into_iter().take(four.len() * 3 / 4)
    });
    bytes.collect()
}

fn moved(x: f64, y: f64) -> Value {
    json!({"type": "pointerMove", "duration": 0, "x": x.round() as i64, "y": y.round() as i64})
}

fn is_installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}
