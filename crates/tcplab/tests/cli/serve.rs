//! The laboratory as `tcplab serve` opens it: whom it answers, and what a reader has of it in a browser, by
//! mouse and by keys, at 400 and at 2,000 pixels.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use ackclock_test_browser::Browser;
use serde_json::{Value, json};

use super::{Scratch, run};

/// `tcplab serve`. It is killed with the test.
struct Serving {
    child: Child,
    addr: SocketAddr,
}

impl Serving {
    fn start(files: &[&str]) -> Self {
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", env!("CARGO_BIN_EXE_tcplab"), "serve"])
            .args(["--listen", "127.0.0.1:0"])
            .args(files)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let addr = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect(&line);
        Self { child, addr: addr.parse().unwrap() }
    }

    /// The status, the headers and the body of an answer.
    fn ask(&self, head: &str, body: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.addr).unwrap();
        let length = body.len();
        write!(stream, "{head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        (status, head.to_lowercase(), body.to_owned())
    }

    fn post(&self, path: &str, body: &str) -> Value {
        let (status, _, body) = self.ask(&format!("POST {path} HTTP/1.1\r\nHost: localhost"), body);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// An upload over a short queue.
const SCENARIO: &str = r#"
duration = "10s"
routers = ["r"]
host = [{ name = "a" }, { name = "b" }]
[[link]]
between = ["a", "r"]
there = { rate = "100Mbit/s", delay = "1ms" }
[[link]]
name = "bottleneck"
between = ["r", "b"]
there = { rate = "2Mbit/s", delay = "20ms", queue = { drop-tail = { limit = "10packets" } } }
[[traffic]]
name = "upload"
from = "a"
to = "b"
what = { bulk = { bytes = "1MB" } }
"#;

#[test]
fn only_this_machine_is_answered_and_each_page_has_its_own_laboratory() {
    let exposed = run(&["serve", "--listen", "0.0.0.0:0"]).failed(2);
    assert!(
        exposed.contains("can be reached from other machines") && exposed.contains("ssh -L"),
        "{exposed}"
    );
    let missing = run(&["serve", "--listen", "127.0.0.1:0", "/nowhere.pcap"]).failed(6);
    assert!(missing.contains("/nowhere.pcap"), "{missing}");

    let serving = Serving::start(&[]);
    let (status, head, page) = serving.ask("GET / HTTP/1.1\r\nHost: 127.0.0.1", "");
    assert!(status == 200 && head.contains("frame-ancestors 'none'"), "{head}");
    assert!(page.contains("default-src 'none'") && page.contains("connect-src 'self'"));
    for (head, expected) in [
        ("GET / HTTP/1.1\r\nHost: rebound.example.org", 403),
        ("POST /ask HTTP/1.1\r\nHost: localhost\r\nOrigin: http://example.org", 403),
        ("GET /etc/passwd HTTP/1.1\r\nHost: localhost", 404),
        ("DELETE / HTTP/1.1\r\nHost: localhost", 404),
    ] {
        assert_eq!(serving.ask(head, "").0, expected, "{head}");
    }

    // A capture in one page is not in the other.
    let wrong = serving.post("/ask?page=one", "weather");
    assert!(wrong["error"].as_str().unwrap().contains("unknown request"), "{wrong}");
    let example = serving.post("/ask?page=one", r#"{"ask": "capture-example"}"#);
    assert_eq!(example["name"], "example.pcapng");
    let first = r#"{"ask": "capture-connection", "index": 0}"#;
    assert!(serving.post("/ask?page=one", first)["sentences"].is_array());
    assert!(serving.post("/ask?page=two", first)["error"].is_string());
    assert!(serving.post("/open?page=two", r#"{"file": 3}"#)["error"].is_string());
}

/// Waits for the table of connections and the first graph.
fn explained(browser: &Browser) {
    browser.wait_until("return document.querySelector('#connection .graph')?.dataset.x !== undefined");
}

#[test]
fn a_dropped_capture_is_explained_at_every_width() {
    let Some(browser) = Browser::start(false) else { return };
    let folder = Scratch::new();
    let (scenario, capture) = (folder.text("short-queue.toml"), folder.text("upload.pcapng"));
    std::fs::write(&scenario, SCENARIO).unwrap();
    run(&["run", &scenario, "--pcap", &capture]).done();
    let whole = std::fs::read(&capture).unwrap();
    let serving = Serving::start(&[]);
    for (width, beside) in [(400, false), (2000, true)] {
        browser.resize(width, 1000);
        browser.open_url(&format!("http://{}/", serving.addr));
        browser.click_element("#way-capture");
        browser.wait_until("return !document.querySelector('#capture').hidden");
        let promise = browser.run("return document.querySelector('.promise').textContent");
        assert!(promise.as_str().unwrap().contains("Nothing leaves this machine"), "{promise}");
        // Files are dropped: one without data first.
        browser.run(
            "window.dropped = (bytes, name) => {
                 const dataTransfer = new DataTransfer();
                 dataTransfer.items.add(new File([bytes], name));
                 dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
             };
             dropped(new Uint32Array([0xa1b2c3d4, 2 | 4 << 16, 0, 0, 65535, 101]), 'quiet.pcap');",
        );
        let state = "return document.querySelector('#state').textContent";
        browser.wait_until("return document.querySelector('#state').classList.contains('error')");
        let said = browser.run(state).to_string();
        assert!(said.contains("quiet.pcap shows no TCP connection that carried data"), "{said}");

        browser.run(&format!("dropped(new Uint8Array({whole:?}), 'upload.pcapng')"));
        explained(&browser);
        let said = browser.run(state).to_string();
        assert!(said.contains("upload.pcapng") && said.contains("segments"), "{said}");
        // Pages scroll sideways nowhere, and the graph is within the first screen where that is wide.
        let place = browser.run(
            "return [document.documentElement.scrollWidth,
                     document.querySelector('#connection .stage').getBoundingClientRect().top + scrollY];",
        );
        assert!(place[0].as_u64() <= Some(u64::from(width)), "{place}");
        if beside {
            assert!(place[1].as_f64() < Some(1000.0), "{place}");
        }

        // A segment that was sent again, and the words beside it.
        browser.run(
            "const graphs = [...document.querySelectorAll('#connection .graph')];
             const sequence = graphs.find(element => element.querySelector('h3').textContent.startsWith('Sequence'));
             sequence.id = 'sequence';
             sequence.scrollIntoView();
             sequence.graph.start();
             for (const button of sequence.querySelectorAll('.legend button'))
                 if (!button.textContent.startsWith('again')) button.click();
             sequence.querySelector('.stage').focus();",
        );
        browser.press("\u{e014}");
        let beside_it = "return document.querySelector('#sequence .picked').textContent";
        browser.wait_until(&format!("{beside_it}.includes('acknowledged,')"));
        let said = browser.run(beside_it).as_str().unwrap().to_owned();
        assert!(said.contains("sent again because it was declared lost: "), "{said}");
        assert!(said.contains("a retransmission of what had been declared lost"), "{said}");
        let before = browser.run("return document.querySelector('#sequence').graph.link.cursor");
        browser.press("\u{e014}");
        let after = browser.run("return document.querySelector('#sequence').graph.link.cursor");
        assert!(after.as_f64() > before.as_f64(), "{before} {after}");
        let timers = browser.run("return document.querySelectorAll('.assessed tbody tr').length");
        assert!(timers.as_u64() > Some(40), "{timers}");
    }
    browser.assert_no_errors();
}

#[test]
fn the_users_captures_and_scenarios_are_on_the_page() {
    let Some(browser) = Browser::start(true) else { return };
    let folder = Scratch::new();
    let (scenario, capture, cut) =
        (folder.text("short-queue.toml"), folder.text("seen.pcapng"), folder.text("cut.pcapng"));
    std::fs::write(&scenario, SCENARIO).unwrap();
    run(&["run", &scenario, "--pcap", &capture]).done();
    let whole = std::fs::read(&capture).unwrap();
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let serving = Serving::start(&[&scenario, &capture, &cut]);
    browser.open_url(&format!("http://{}/#capture", serving.addr));
    browser.wait_until("return document.querySelectorAll('#chosen-files button').length === 3");
    let names = browser
        .run("return [...document.querySelectorAll('#chosen-files button')].map(one => one.textContent)");
    assert_eq!(names, json!(["Run short-queue.toml", "seen.pcapng", "cut.pcapng"]));
    let open = |number: usize| {
        browser.run("document.querySelector('#connection').replaceChildren()");
        browser.click_element(&format!("#chosen-files li:nth-child({number}) button"));
        explained(&browser);
        let shown = browser.run("return [document.querySelector('#state').textContent, document.querySelector('#connection').textContent]");
        (shown[0].as_str().unwrap().to_owned(), shown[1].as_str().unwrap().to_owned())
    };
    let (state, shown) = open(1);
    assert!(state.contains("short-queue.toml") && shown.contains("controller"), "{state} {shown}");
    let (state, shown) = open(2);
    assert!(state.contains("seen.pcapng") && shown.contains("was captured for"), "{state} {shown}");
    let (state, _) = open(3);
    assert!(
        state.contains("ends within a block that begins at byte") && state.contains("where frame"),
        "{state}"
    );
    browser.assert_no_errors();
}

/// The page's own words lead from its start to Vegas' figure 7, and to a loss of Reno's with its reason.
#[test]
fn the_start_leads_to_figure_7_and_to_a_loss_with_its_reason() {
    let Some(browser) = Browser::start(false) else { return };
    let serving = Serving::start(&[]);
    for width in [400, 2000] {
        browser.resize(width, 1000);
        browser.open_url(&format!("http://{}/#start", serving.addr));
        browser.click_element("#way-vegas");
        let drawn = "return document.querySelector('#laboratory .graph')?.dataset.x !== undefined";
        browser.wait_until(drawn);
        // For the report; a busy machine takes longer.
        let first = browser.run("return performance.getEntriesByName('graph')[0].startTime");
        eprintln!("the first graph after {first} ms at {width} pixels");
        let shown = browser.run("return document.querySelector('#laboratory').textContent");
        let shown = shown.as_str().unwrap();
        assert!(shown.contains("figure 7") && shown.contains("cwnd"), "at {width}: {shown}");
        let sideways = browser.run("return document.documentElement.scrollWidth");
        assert!(sideways.as_u64() <= Some(u64::from(width)), "{sideways} at {width}");

        browser.run("location.hash = '#start'");
        browser.wait_until("return !document.querySelector('#start').hidden");
        browser.click_element("#way-loss");
        let found = "const graphs = [...document.querySelectorAll('#laboratory .graph')];
             const has = element => [...element.querySelectorAll('.legend button')].some(one => one.textContent.startsWith('again'));
             const sequence = graphs.find(has);";
        browser.wait_until(&format!("{found} return sequence !== undefined"));
        browser.run(&format!(
            "{found} sequence.id = 'lossy';
             sequence.scrollIntoView();
             sequence.graph.start();
             for (const button of sequence.querySelectorAll('.legend button'))
                 if (!button.textContent.startsWith('again') && button.ariaPressed === 'true') button.click();
             sequence.querySelector('.stage').focus();"
        ));
        browser.press("\u{e014}");
        browser.wait_until(
            "return document.querySelector('#lossy .picked').textContent.includes('declared lost')",
        );
    }
    browser.assert_no_errors();
}
