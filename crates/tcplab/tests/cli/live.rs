//! The page of a running network: what its server answers and whom, that it changes nothing, and what a
//! reader has of it in a browser, by mouse, by keys, at 400 and at 1,600 pixels.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use ackclock_test_browser::Browser;
use serde_json::{Value, json};

use super::through::{Between, PATIENCE, bytes, echo_at_end, exchange, two};
use super::{Scratch, run};

/// Two flows over one bottleneck, for twenty seconds, with a change at 5 s and at 15 s.
const SCENARIO: &str = r#"
duration = "20s"
seed = 3
routers = ["r1", "r2"]
host = [{ name = "a" }, { name = "b" }, { name = "c" }, { name = "d" }]
[[link]]
between = ["a", "r1"]
there = { rate = "100Mbit/s", delay = "1ms" }
[[link]]
between = ["c", "r1"]
there = { rate = "100Mbit/s", delay = "1ms" }
[[link]]
name = "bottleneck"
between = ["r1", "r2"]
there = { rate = "5Mbit/s", delay = "20ms", queue = { drop-tail = { limit = "50packets" } } }
[[link]]
between = ["r2", "b"]
there = { rate = "100Mbit/s", delay = "1ms" }
[[link]]
between = ["r2", "d"]
there = { rate = "100Mbit/s", delay = "1ms" }
[[traffic]]
name = "upload"
from = "a"
to = "b"
what = { bulk = {} }
[[traffic]]
name = "other"
from = "c"
to = "d"
start = "2s"
what = { bulk = {} }
[[change]]
at = "5s"
link = "bottleneck"
rate = "2Mbit/s"
[[change]]
at = "15s"
crash = "b"
"#;

fn scenario() -> (Scratch, String) {
    let scratch = Scratch::new();
    let path = scratch.text("network.toml");
    std::fs::write(&path, SCENARIO).unwrap();
    (scratch, path)
}

/// `tcplab run --live`. It is killed with the test.
struct Running {
    child: Child,
    addr: SocketAddr,
}

impl Running {
    fn start(scenario: &str, more: &[&str]) -> Self {
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", env!("CARGO_BIN_EXE_tcplab"), "run", scenario])
            .args(["--live", "127.0.0.1:0"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let addr = line.trim().trim_start_matches("live: http://").trim_end_matches('/');
        let addr = addr.parse().unwrap_or_else(|_| panic!("{line}"));
        Self { child, addr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn request(addr: SocketAddr, method: &str, path: &str, headers: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").unwrap();
    BufReader::new(stream)
}

/// The status, the head and the body.
fn ask(addr: SocketAddr, method: &str, path: &str, headers: &str) -> (u16, String, String) {
    let mut answer = String::new();
    request(addr, method, path, headers).read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_owned(), body.to_owned())
}

fn state(addr: SocketAddr) -> Value {
    let (status, _, body) = ask(addr, "GET", "/state", "Host: localhost\r\n");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// The next event of a stream: its name and its value.
fn event(stream: &mut impl BufRead) -> Option<(String, Value)> {
    let mut name = None;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        if let Some(found) = line.strip_prefix("event: ") {
            name = Some(found.trim().to_owned());
        } else if let Some(data) = line.strip_prefix("data: ") {
            return Some((name.unwrap(), serde_json::from_str(data).unwrap()));
        }
    }
}

#[test]
fn a_run_that_is_watched_is_the_same_run_and_says_how_it_goes() {
    let (_scratch, path) = scenario();
    let unseen = run(&["run", &path]).done();
    let mut running = Running::start(&path, &["--speed", "4"]);
    let mut news = request(running.addr, "GET", "/events", "Host: 127.0.0.1\r\n");
    let (name, first) = event(&mut news).unwrap();
    assert_eq!(name, "state");
    let scene = &first["scene"];
    let names: Vec<&str> =
        scene["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "r1", "r2"]);
    assert_eq!(scene["flows"], json!(["upload", "other"]));
    assert_eq!(scene["links"][4], json!({ "name": "bottleneck:there", "from": "r1", "to": "r2" }));
    let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (mut events, mut frames) = (all(&first["events"]), all(&first["frames"]));
    let ended = loop {
        match event(&mut news) {
            Some((name, value)) if name == "message" => {
                frames.push(value["frame"].clone());
                events.extend(all(&value["events"]));
                // The changes to come are known from the first moment on.
                assert_eq!(events.len(), 2);
            }
            other => break other,
        }
    };
    assert_eq!(
        events,
        [
            json!({ "at": 5.0, "what": "link bottleneck, rate 2Mbit/s" }),
            json!({ "at": 15.0, "what": "crash b" })
        ]
    );
    assert_eq!(ended, Some(("end".to_owned(), Value::Null)));
    let number = |value: &Value| value.as_f64().unwrap();
    let times: Vec<f64> = frames.iter().map(|frame| number(&frame["at"])).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!((times[0], times[times.len() - 1]), (0.0, 20.0));
    // 26 moments. A busy reader may miss some.
    assert!((5..=26).contains(&times.len()), "{times:?}");
    let last = &frames[frames.len() - 1];
    assert_eq!(last["down"], json!([1]));
    assert_eq!((&last["links"][4]["rate"], &last["links"][4]["delay"]), (&2_000_000.into(), &0.02.into()));
    // 5 Mbit/s for 5 s, then 2 Mbit/s for 15 s, and no more.
    let sent = number(&last["links"][4]["sent_bytes"]) * 8.0;
    assert!((40e6..=55.1e6).contains(&sent), "{sent}");
    let delivered: f64 = last["flows"].as_array().unwrap().iter().map(|flow| number(&flow["bytes"])).sum();
    assert!(delivered * 8.0 < sent && delivered * 8.0 > 0.9 * sent - 1e6, "{delivered} {sent}");
    let before = frames.iter().rfind(|frame| number(&frame["at"]) < 15.0).unwrap();
    // The way takes 44 ms and at most 50 packets of 1500 bytes at 2 Mbit/s, or 300 ms.
    let srtt = number(&before["flows"][0]["srtt"]);
    assert!((0.044..1.0).contains(&srtt), "{srtt}");
    assert!(number(&before["flows"][0]["cwnd"]) > 1000.0, "{before}");

    let mut out = String::new();
    running.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert_eq!(out, unseen);
}

#[test]
fn the_page_is_for_this_machine_and_for_a_few_readers() {
    let mut between = Between::start(
        &two(r#"rate = "50Mbit/s", delay = "5ms""#),
        echo_at_end(),
        &["--live", "127.0.0.1:0"],
    );
    let addr = between.live();
    let host = format!("Host: {addr}\r\n");
    let (status, head, page) = ask(addr, "GET", "/", &host);
    assert_eq!(status, 200, "{page}");
    let head = head.to_lowercase();
    assert!(head.contains("content-security-policy: frame-ancestors 'none'"), "{head}");
    assert!(head.contains("cache-control: no-store") && head.contains("x-content-type-options: nosniff"));
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; script-src"), "{page}");
    for reference in [" src=", "url(", "@import", "import(", "https://"] {
        assert!(!page.contains(reference), "{reference}");
    }
    for (method, path, headers, status, sentence) in [
        ("POST", "/", "Host: localhost\r\nContent-Length: 0\r\n", 405, "the page only answers GET"),
        ("GET", "/links", "Host: localhost\r\n", 404, "allowed are /, /state and /events"),
        // A name of someone else's that leads here, and a page of someone else's.
        ("GET", "/state", "Host: rebound.example:80\r\n", 403, "localhost and to loopback"),
        ("GET", "/state", "Host: localhost\r\nOrigin: http://evil.example\r\n", 403, "web pages are refused"),
        ("GET", "/state", "Host: localhost\r\nOrigin: http://localhost\r\n", 200, "\"scene\""),
    ] {
        let (got, _, body) = ask(addr, method, path, headers);
        assert!(got == status && body.contains(sentence), "{method} {path} {headers}: {got} {body}");
    }

    // The connections of both stacks.
    exchange(between.connect(), &bytes(300_000)).unwrap();
    let mut client = between.connect();
    client.write_all(&bytes(200_000)).unwrap();
    let listed = (0..600).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let state = state(addr);
        let last = state["frames"].as_array()?.last()?.clone();
        let hosts: Vec<String> = last["connections"]
            .as_array()?
            .iter()
            .map(|one| one["host"].as_str().unwrap().to_owned())
            .collect();
        ["a", "b"].iter().all(|host| hosts.iter().any(|other| other == host)).then_some(last)
    });
    assert!(listed.is_some(), "{}", state(addr));

    let mut readers: Vec<_> = (0..8).map(|_| request(addr, "GET", "/events", &host)).collect();
    for reader in &mut readers {
        assert_eq!(event(reader).unwrap().0, "state");
    }
    let (status, _, body) = ask(addr, "GET", "/events", &host);
    assert!(status == 503 && body.contains("8 pages follow this run already"), "{status} {body}");
    // A change that is asked for is on the page.
    between.change("/links/link", r#"{ "loss": "1%" }"#);
    let told = std::iter::from_fn(|| event(&mut readers[0])).find(|(_, value)| value["events"].is_array());
    assert_eq!(told.unwrap().1["events"][0]["what"], "link link, loss 1%");
    drop(client);
    between.stop();
}

#[test]
fn what_cannot_be_is_refused() {
    let (scratch, path) = scenario();
    let said = run(&["run", &path, "--live", "0.0.0.0:0"]).failed(2);
    assert!(said.contains("--live 0.0.0.0:0 can be reached from other machines"), "{said}");
    let said = run(&["run", &path, "--speed", "2"]).failed(2);
    assert!(said.contains("--live"), "{said}");
    let said = run(&["run", &path, "--live", "127.0.0.1:0", "--speed", "0"]).failed(2);
    assert!(said.contains("allowed is a number from 0.001 to 1000"), "{said}");
    let said = run(&["run", &path, "--live-page", &path]).failed(2);
    assert!(said.contains("--live-page would overwrite"), "{said}");
    assert_eq!(scratch.names(), ["network.toml"]);
}

/// Nothing sticks out of the window, and both tables are filled.
fn assert_fits(browser: &Browser, width: u32) {
    let found = browser.run(
        "const table = id => document.getElementById(id).getBoundingClientRect();
         return [document.documentElement.scrollWidth, window.innerWidth, table('link-rows').height, table('flow-rows').height,
             document.querySelectorAll('#link-rows tbody tr').length, document.querySelector('#map svg').clientWidth,
             [...document.querySelectorAll('#map text')].map(text => text.textContent).join(),
             [...document.querySelectorAll('body *')].filter(one => !one.closest('.wide') && one.getBoundingClientRect().right > innerWidth)
                 .map(one => `${one.tagName} ${one.id} ${one.className}`).join()];",
    );
    let number = |index: usize| found[index].as_f64().unwrap();
    assert!(number(0) <= number(1) && number(1) == f64::from(width), "{found}");
    assert!(number(2) > 100.0 && number(3) > 40.0 && number(4) == 10.0, "{found}");
    assert!(number(5) > 250.0 && number(5) <= f64::from(width), "{found}");
    assert_eq!(found[6], "a,b,c,d,r1,r2");
}

#[test]
fn a_page_from_a_file_is_read_in_a_narrow_and_in_a_wide_window() {
    let (scratch, path) = scenario();
    let file = scratch.path("page.html");
    let said = run(&["run", &path, "--live-page", file.to_str().unwrap()]).done();
    assert_eq!(said, run(&["run", &path]).done());
    let Some(browser) = Browser::start(false) else { return };
    for width in [400, 1600] {
        browser.resize(width, 900);
        browser.load(&file);
        browser.wait_until("return document.body.dataset.at === '20'");
        assert_fits(&browser, width);
        // The graph has the whole run. Its second panel ends 5 % above the 50 packets that the queue holds.
        let ends = browser.run("const { x, y } = document.querySelector('.graph').dataset; return [x, y]");
        assert_eq!(ends[0], "0 20");
        assert!(ends[1].as_str().unwrap().ends_with(" 0 52.5"), "{ends}");
        browser.assert_no_errors();
    }
    let clock = || browser.run("return document.getElementById('clock').textContent");
    let said = || browser.run("return document.getElementById('said').textContent");
    assert_eq!((clock(), said()), ("20.0 s".into(), "Last: 15.0 s, crash b".into()));
    let down = "return document.querySelectorAll('#map .down').length";
    assert_eq!(browser.run(down), 1);
    // By keys alone: the button, the slider, then each part that scrolls, and the graphs.
    browser.run("document.body.tabIndex = -1; document.body.focus()");
    let mut order = Vec::new();
    for _ in 0..8 {
        browser.press("\u{e004}");
        let name = "const one = document.activeElement; return one.id || one.getAttribute('aria-label') || one.textContent";
        order.push(browser.run(name).as_str().unwrap().to_owned());
    }
    assert_eq!(order[..5], ["go", "time", "All changes", "Table of links", "Table of flows"]);
    let outlined = browser.run("return getComputedStyle(document.activeElement).outlineStyle");
    assert_eq!(outlined, "solid");
    // The first moment, by the slider.
    browser.run("document.getElementById('time').focus()");
    browser.press("\u{e011}");
    browser.wait_until("return document.getElementById('clock').textContent === '0.0 s'");
    assert_eq!((said(), browser.run(down)), ("".into(), 0.into()));
    assert_eq!(browser.run("return document.getElementById('time').getAttribute('aria-valuetext')"), "0.0 s");
    browser.press("\u{e014}");
    browser.wait_until("return document.getElementById('clock').textContent === '0.0 s' || Number(document.body.dataset.at) > 0");
    // It plays from there.
    browser.click_element("#go");
    browser.wait_until("return Number(document.body.dataset.at) > 0.2");
    browser.assert_no_errors();
    // Words for those who do not see the drawings.
    let map = browser.run("return document.getElementById('map').getAttribute('aria-label')");
    assert!(map.as_str().unwrap().starts_with("6 hosts and routers, 5 links; "), "{map}");
    let unnamed = "return [...document.querySelectorAll('button, input, [tabindex=\"0\"]')].filter(one => \
        !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length)).length";
    assert_eq!(browser.run(unnamed), 0);
}

#[test]
fn a_page_follows_a_network_in_real_time() {
    let Some(browser) = Browser::start(true) else { return };
    let mut between = Between::start(
        &two(r#"rate = "10Mbit/s", delay = "5ms""#),
        echo_at_end(),
        &["--live", "127.0.0.1:0"],
    );
    let addr = between.live();
    browser.resize(400, 900);
    browser.open_url(&format!("http://{addr}/"));
    browser.run(COUNT_SHIFTS);
    browser.wait_until("return Number(document.body.dataset.at) > 0.5");
    exchange(between.connect(), &bytes(300_000)).unwrap();
    between.change("/changes", r#"{ "partition": ["a", "b"] }"#);
    browser.wait_until("return document.getElementById('said').textContent.endsWith(', partition a | b')");
    // It is drawn, and there are words for it.
    browser.wait_until("return document.querySelectorAll('#map .cut').length === 1");
    let map = browser.run("return document.getElementById('map').getAttribute('aria-label')");
    assert!(map.as_str().unwrap().ends_with("; partitions: a and b"), "{map}");
    between.change("/changes", r#"{ "heal": ["*", "*"] }"#);
    browser.wait_until("return document.querySelectorAll('#map .cut').length === 0");
    let fits = browser.run("return document.documentElement.scrollWidth <= window.innerWidth");
    assert_eq!(fits, true);
    // Space stops the page, not the network.
    browser.press(" ");
    browser.wait_until("return document.getElementById('go').textContent === 'Follow'");
    let held = browser.run("return document.body.dataset.at");
    browser.wait_until("return page.frames.at(-1).at > Number(document.body.dataset.at) + 1");
    assert_eq!(browser.run("return document.body.dataset.at"), held);
    browser.press(" ");
    browser.wait_until(&format!("return Number(document.body.dataset.at) > {} + 1", held.as_str().unwrap()));
    between.stop();
    browser.wait_until("return document.getElementById('status').textContent === 'the run is over'");
    assert_still(&browser);
    browser.assert_no_errors();
}

/// A machine that is late now and then: the words for it push nothing aside, and are seen.
#[test]
fn the_word_that_the_machine_is_late_moves_nothing() {
    let (scratch, path) = scenario();
    let file = scratch.path("page.html");
    run(&["run", &path, "--live-page", file.to_str().unwrap()]).done();
    let Some(browser) = Browser::start(false) else { return };
    browser.resize(400, 900);
    browser.load(&file);
    browser.wait_until("return document.body.dataset.at === '20'");
    browser.run(COUNT_SHIFTS);
    browser.run("page.frames.forEach(frame => (frame.late = '12 of 34 events came late')); page.soon()");
    browser.wait_until("return document.getElementById('late').textContent.endsWith(' came late')");
    let seen = "const { top, bottom, height } = document.getElementById('late').getBoundingClientRect(); \
        return height > 20 && top > 0 && bottom <= innerHeight";
    assert_eq!(browser.run(seen), true);
    browser.run("page.frames.forEach(frame => (frame.late = null)); page.soon()");
    browser.wait_until("return document.getElementById('late').textContent === ''");
    assert_still(&browser);
    browser.assert_no_errors();
}

/// Counts how far what can be seen moves without a reader's doing (Layout Instability API, W3C).
const COUNT_SHIFTS: &str = "window.shifts = []; new PerformanceObserver(list => list.getEntries().filter(one => !one.hadRecentInput)
    .forEach(one => shifts.push([one.value, ...one.sources.map(({ node }) => node?.id || node?.className || node?.nodeName)])))
    .observe({ type: 'layout-shift', buffered: true })";

/// Web Vitals call a page good whose shifts sum up to 0.1 at most.
fn assert_still(browser: &Browser) {
    let found =
        browser.run("return [shifts.reduce((all, [value]) => all + value, 0), JSON.stringify(shifts)]");
    assert!(found[0].as_f64().unwrap() <= 0.1, "{found}");
}

/// Eight readers that take nothing: the network goes on, other requests are answered, and no memory goes to
/// them. `src/live/board.rs` counts the memory kept for such a reader; `tests/real_time` measures that none
/// makes a network late.
#[test]
fn readers_that_do_not_read_cost_nothing() {
    let mut between = Between::start(
        &two(r#"rate = "50Mbit/s", delay = "5ms""#),
        echo_at_end(),
        &["--live", "127.0.0.1:0"],
    );
    let addr = between.live();
    let _readers: Vec<_> =
        (0..8).map(|_| request(addr, "GET", "/events", "Host: localhost\r\n").into_inner()).collect();
    let frames = |least: usize| {
        let found = (0..600).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let frames = state(addr)["frames"].as_array().unwrap().len();
            (frames >= least).then_some(frames)
        });
        found.expect("the page goes on")
    };
    frames(20);
    let before = between.memory();
    frames(60);
    exchange(between.connect(), &bytes(300_000)).unwrap();
    let grown = between.memory().saturating_sub(before);
    // The moments that the page itself keeps are some kilobytes, the exchange's buffers less than a megabyte.
    assert!(grown < 4 << 20, "{grown}");
    let (report, _) = between.stop();
    assert_eq!(report["connections"]["finished"], 1, "{report}");
}
