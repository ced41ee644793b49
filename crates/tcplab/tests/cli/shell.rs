//! `tcplab shell`: a program whose packets pass a network in real time. How fast the machine is decides only
//! whether a run is valid; what takes a valid run asks for it.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use ackclock_tests::kernel::program::have;
use ackclock_tests::netns::{Namespace, in_namespaces, skip};
use serde_json::Value;
use tempfile::TempDir;

use super::through::{Between, PATIENCE, bytes, datagrams, echo_at_end, exchange, server, two};

/// A folder with a scenario, in which any user may write.
struct Place(TempDir);

/// The output and the status of a run.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
    report: Value,
}

impl Place {
    fn new(direction: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(folder.path().join("network.toml"), two(direction)).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The words of a shell in which `program` runs.
    fn shell(&self, tcplab: &Path, program: &[&str]) -> Vec<String> {
        let (scenario, report) = (self.path("network.toml"), self.path("report.json"));
        let [tcplab, scenario, report] = [tcplab, &scenario, &report].map(|path| path.to_str().unwrap());
        let words = [tcplab, "shell", "--scenario", scenario, "--report", report, "--"];
        words.iter().chain(program).map(|word| (*word).to_owned()).collect()
    }

    /// Starts a shell with its own death after the test's. It is killed by `setpriv`.
    fn start(&self, program: &[&str]) -> Child {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(self.shell(Path::new(TCPLAB), program));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn run(&self, program: &[&str]) -> Ran {
        self.ran(self.start(program).wait_with_output().unwrap())
    }

    /// Has this test program do something in a shell: see [`inside`].
    fn visit(&self, what: &str, to: SocketAddr) -> Ran {
        let this = env::current_exe().unwrap();
        self.run(&visit(&this, what, to).iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn ran(&self, output: Output) -> Ran {
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        let report = fs::read(self.path("report.json")).unwrap_or_default();
        let report = serde_json::from_slice(&report).unwrap_or_default();
        Ran { code: output.status.code(), out, err, report }
    }
}

impl Ran {
    fn is_valid(&self) -> bool {
        self.report["valid"].as_bool().unwrap_or_else(|| panic!("{}{}", self.out, self.err))
    }

    /// Asserts that the command has ended with 0, and returns what it found.
    fn found(&self) -> &str {
        assert_eq!(self.code, Some(i32::from(!self.is_valid())), "{}{}", self.out, self.err);
        let found = self.out.split_once("found: ").and_then(|(_, rest)| rest.lines().next());
        found.unwrap_or_else(|| panic!("{}{}", self.out, self.err))
    }

    /// Packets that were lost on the way back by chance.
    fn lost_back(&self) -> u64 {
        let links = self.report["network"]["links"].as_array().unwrap();
        let back = links.iter().find(|link| link["name"] == "link:back").unwrap();
        let drops = back["drops"].as_array().unwrap();
        drops.iter().find(|drop| drop[0] == "random-loss").map_or(0, |drop| drop[1].as_u64().unwrap())
    }
}

fn visit(this: &Path, what: &str, to: SocketAddr) -> Vec<String> {
    let set = format!("TCPLAB_VISIT={what} {to}");
    let this = this.to_str().unwrap();
    ["env", &set, this, "--exact", "shell::inside", "--nocapture"].map(str::to_owned).into()
}

/// The part that runs in a shell. Without its variable, it is not in one.
#[test]
fn inside() {
    let Ok(visit) = env::var("TCPLAB_VISIT") else { return };
    let (what, to) = visit.split_once(' ').unwrap();
    let to: SocketAddr = to.parse().unwrap();
    let begun = Instant::now();
    let connect = || {
        let stream = TcpStream::connect(to)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        std::io::Result::Ok(stream)
    };
    let found = match what {
        "download" => {
            let mut all = Vec::new();
            connect().unwrap().read_to_end(&mut all).unwrap();
            assert!(all == bytes(DOWNLOAD), "{} other bytes", all.len());
            begun.elapsed().as_secs_f64().to_string()
        }
        "upload" => {
            let mut stream = connect().unwrap();
            stream.write_all(&bytes(UPLOAD)).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            // The server has all of it.
            stream.read_exact(&mut [0]).unwrap();
            begun.elapsed().as_secs_f64().to_string()
        }
        "exchange" => {
            let sent = bytes(300_000);
            assert!(exchange(connect().unwrap(), &sent).unwrap() == sent);
            begun.elapsed().as_secs_f64().to_string()
        }
        "reset" => {
            let mut stream = connect().unwrap();
            stream.write_all(b"x").unwrap();
            format!("{:?}", stream.read(&mut [0]).unwrap_err().kind())
        }
        "connect" => match connect() {
            Ok(_) => "connected".to_owned(),
            Err(error) => format!("{:?}", error.kind()),
        },
        "datagrams" => {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut buf = [0; 65_535];
            for len in [0, 100, 4000] {
                socket.send_to(&bytes(len), to).unwrap();
                let (got, from) = socket.recv_from(&mut buf).unwrap();
                assert_eq!((&buf[..got], from), (&bytes(len)[..], to));
            }
            "all".to_owned()
        }
        other => panic!("{other}"),
    };
    println!("found: {found}");
}

/// A server of a download on this system's loopback, as the shell knows it.
fn download() -> SocketAddr {
    at_gateway(server(|mut stream| {
        stream.write_all(&bytes(DOWNLOAD)).ok();
        stream.shutdown(Shutdown::Write).ok();
        stream.read_exact(&mut [0]).ok();
    }))
}

/// A server that answers an upload once it has all of it, and it is right.
fn upload() -> SocketAddr {
    server(|mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).ok();
        if all == bytes(UPLOAD) {
            stream.write_all(&[1]).ok();
        }
    })
}

/// An address on this system's loopback as the shell knows it: the second host's.
fn at_gateway(addr: SocketAddr) -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, 2), addr.port()).into()
}

/// Whether a shell can be made here.
fn possible() -> bool {
    let Err(error) = fs::File::options().read(true).write(true).open("/dev/net/tun") else { return true };
    skip(&format!("/dev/net/tun cannot be used: {error}"));
    false
}

#[test]
fn a_download_takes_as_long_as_the_network_makes_it() {
    if !possible() {
        return;
    }
    let ran = Place::new(r#"rate = "10Mbit/s", delay = "10ms""#).visit("download", download());
    let took: f64 = ran.found().parse().unwrap();
    // The bytes with their headers, 1448 of each 1500, and a round trip before the first.
    let least = DOWNLOAD as f64 * 8.0 / 10e6 * 1500.0 / 1448.0 + 0.04;
    assert!(took > least, "{took}");
    // Slow start takes some round trips of 20 ms more.
    assert!(took < least + 0.4 || !ran.is_valid(), "{took} {}", ran.report);
    let connections = &ran.report["connections"];
    assert_eq!((&connections["accepted"], &connections["refused"]), (&1.into(), &0.into()), "{connections}");
    assert_eq!(connections["bytes_back"], DOWNLOAD, "{connections}");
    assert_eq!(ran.lost_back(), 0, "{}", ran.report);
}

/// The kernel's TCP sends, and as much as the network lets through; `between` sends with the stack's.
#[test]
fn an_upload_takes_as_long_as_it_does_through_between() {
    if !possible() {
        return;
    }
    let direction = r#"rate = "10Mbit/s", delay = "10ms""#;
    let to = upload();
    let ran = Place::new(direction).visit("upload", at_gateway(to));
    let took: f64 = ran.found().parse().unwrap();
    assert_eq!(ran.report["connections"]["bytes_there"], UPLOAD, "{}", ran.report);

    let between = Between::start(&two(direction), to, &[]);
    let begun = Instant::now();
    let mut stream = between.connect();
    stream.write_all(&bytes(UPLOAD)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    stream.read_exact(&mut [0]).unwrap();
    let between_took = begun.elapsed().as_secs_f64();
    let (report, _) = between.stop();

    // The bytes with their headers, 1448 of each 1500, and two round trips: the handshake, and the first byte
    // with its answer. Slow start takes some round trips more.
    let least = UPLOAD as f64 * 8.0 / 10e6 * 1500.0 / 1448.0 + 0.04;
    for (took, valid) in [(took, ran.is_valid()), (between_took, report["valid"] == true)] {
        assert!(took > least && (took < least + 0.4 || !valid), "{took} {}", ran.report);
    }
}

#[test]
fn packets_are_lost_on_the_way_and_the_bytes_arrive() {
    if !possible() {
        return;
    }
    let place = Place::new(r#"rate = "50Mbit/s", delay = "2ms", loss = { independent = "3%" }"#);
    let ran = place.visit("download", download());
    ran.found();
    // Some 700 packets: 21 on average.
    assert!((5..80).contains(&ran.lost_back()), "{}", ran.report);
}

#[test]
fn the_end_of_one_direction_passes_and_so_does_a_reset() {
    if !possible() {
        return;
    }
    let place = Place::new(r#"rate = "50Mbit/s", delay = "5ms""#);
    let ran = place.visit("exchange", at_gateway(echo_at_end()));
    // Two round trips, the bytes, and the bytes again.
    assert!(ran.found().parse::<f64>().unwrap() > 2.0 * 0.010 + 2.0 * 0.048, "{}", ran.out);
    let connections = &ran.report["connections"];
    assert_eq!((&connections["bytes_there"], &connections["bytes_back"]), (&300_000.into(), &300_000.into()));
    let resets = server(|mut stream| {
        stream.read_exact(&mut [0]).ok();
        let socket = socket2::SockRef::from(&stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    });
    assert_eq!(place.visit("reset", at_gateway(resets)).found(), "ConnectionReset");
}

#[test]
fn a_destination_answers_as_it_does_without_the_network() {
    in_namespaces(|[home]: [Namespace; 1]| {
        // Beyond the network: an address of its own, and no route to others.
        home.ip("address add 198.51.100.7/32 dev lo");
        home.run(async {
            let listener = TcpListener::bind("198.51.100.7:0").unwrap();
            let to = listener.local_addr().unwrap();
            let place = Place::new(r#"rate = "50Mbit/s", delay = "5ms""#);
            assert_eq!(place.visit("connect", to).found(), "connected");
            drop(listener);
            let ran = place.visit("connect", to);
            assert_eq!(ran.found(), format!("{:?}", ErrorKind::ConnectionRefused));
            assert_eq!(ran.report["connections"]["refused"], 1, "{}", ran.report);
            let nowhere = "203.0.113.9:9".parse().unwrap();
            let unreachable = format!("{:?}", ErrorKind::NetworkUnreachable);
            assert_eq!(place.visit("connect", nowhere).found(), unreachable);
        });
    });
}

/// curl asks for the name, by datagrams through the network to this system's name server, and loads from a
/// server beyond this system's loopback.
#[test]
fn curl_finds_a_server_outside_by_its_name_and_loads_from_it() {
    if !have("curl") {
        return;
    }
    in_namespaces(|[home]: [Namespace; 1]| {
        home.ip("address add 198.51.100.7/32 dev lo");
        home.run(async {
            name_server();
            let listener = TcpListener::bind("198.51.100.7:0").unwrap();
            let url = format!("http://files.example:{}/", listener.local_addr().unwrap().port());
            thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let len = stream.read(&mut request).unwrap();
                assert!(request[..len].starts_with(b"GET / HTTP/1.1\r\nHost: files.example"));
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {DOWNLOAD}\r\nConnection: close\r\n\r\n");
                stream.write_all(&[head.as_bytes(), &bytes(DOWNLOAD)].concat()).unwrap();
            });
            let place = Place::new(r#"rate = "10Mbit/s", delay = "20ms""#);
            let servers = place.path("resolv.conf");
            fs::write(&servers, "nameserver 127.0.0.1\n").unwrap();
            let file = place.path("loaded");
            let times = "found: %{time_namelookup} %{time_connect} %{time_total} %{remote_ip}\n";
            let curl = ["curl", "--silent", "--show-error", "--write-out", times, "--output"];
            let curl = [&curl[..], &[file.to_str().unwrap(), &url]].concat();
            let script =
                "mount --bind \"$1\" /etc/resolv.conf; shift; exec setpriv --pdeathsig KILL -- \"$@\"";
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", script, "sh"]).arg(&servers);
            let ran = place.ran(command.args(place.shell(Path::new(TCPLAB), &curl)).output().unwrap());
            let words: Vec<&str> = ran.found().split(' ').collect();
            let [looked_up, connected, took] = [0, 1, 2].map(|at| words[at].parse::<f64>().unwrap());
            // A round trip each for the name and the connection, and one until the first byte comes.
            assert!(looked_up > 0.04 && connected > looked_up + 0.04, "{words:?}");
            let least = connected + 0.04 + DOWNLOAD as f64 * 8.0 / 10e6 * 1500.0 / 1448.0;
            assert!(took > least && (took < least + 0.4 || !ran.is_valid()), "{words:?} {}", ran.report);
            assert_eq!(words[3], "198.51.100.7");
            assert!(fs::read(&file).unwrap() == bytes(DOWNLOAD));
            // Queries for both kinds of addresses.
            assert_eq!(ran.report["datagrams"]["arrived"], 2, "{}", ran.report);
        });
    });
}

/// A name server on the loopback of the present namespace, which knows one name.
fn name_server() {
    let socket = UdpSocket::bind("127.0.0.1:53").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut query) {
            // RFC 1035 §4.1: 12 bytes of header, and a question, which ends with type and class.
            let end = 12 + query[12..len].iter().position(|byte| *byte == 0).unwrap() + 5;
            assert_eq!(&query[12..end - 4], b"\x05files\x07example\0");
            let is_a = query[end - 3] == 1;
            let mut answer = query[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
            answer.extend(&query[12..end]);
            if is_a {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 51, 100, 7]);
            }
            socket.send_to(&answer, from).unwrap();
        }
    });
}

#[test]
fn the_hosts_of_the_scenario_have_their_names() {
    if !possible() {
        return;
    }
    let ran = Place::new(r#"rate = "10Mbit/s", delay = "5ms""#).run(&["getent", "hosts", "b", "a"]);
    let found: Vec<Vec<&str>> = ran.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(found, [["10.0.0.2", "b"], ["10.0.0.1", "a"]], "{}", ran.err);
}

/// The scenario decides; of the other family, no address can be reached, and programs know at once.
#[test]
fn a_network_of_ipv6_carries_ipv6() {
    if !possible() {
        return;
    }
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        return skip("this system has no IPv6");
    };
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            stream.write_all(&bytes(DOWNLOAD)).ok();
        }
    });
    let place = Place::new(r#"rate = "10Mbit/s", delay = "10ms""#);
    let network = fs::read_to_string(place.path("network.toml")).unwrap();
    fs::write(place.path("network.toml"), format!("ipv6 = true\n{network}")).unwrap();
    let ran = place.visit("download", format!("[fd00::2]:{port}").parse().unwrap());
    let took: f64 = ran.found().parse().unwrap();
    // 1428 bytes of a packet's 1500 are the stream's.
    let least = DOWNLOAD as f64 * 8.0 / 10e6 * 1500.0 / 1428.0 + 0.04;
    assert!(took > least && (took < least + 0.4 || !ran.is_valid()), "{took} {}", ran.report);
    let unreachable = format!("{:?}", ErrorKind::NetworkUnreachable);
    assert_eq!(place.visit("connect", "10.0.0.2:9".parse().unwrap()).found(), unreachable);
}

/// At a terminal: a shell behind the network stops its jobs and goes on with them, and the shell outside does
/// so with `tcplab shell` and its command.
#[test]
fn jobs_are_controlled_at_a_terminal() {
    if !possible() || !have("bash") || !have("script") {
        return;
    }
    let place = Place::new(r#"rate = "10Mbit/s", delay = "5ms""#);
    let mut terminal = Terminal::start();
    let within = |program: &[&str]| place.shell(Path::new(TCPLAB), program).join(" ");
    terminal.enter(&within(&["bash", "--norc", "-i"]));
    terminal.enter("echo in; grep -c tun0 /proc/net/dev");
    terminal.wait_for("in\r\n1\r\n");
    terminal.enter("sh -c 'echo beg\"un\"; exec sleep 1000'");
    terminal.wait_for("begun\r\n");
    terminal.stop_and_go_on();
    terminal.interrupt();
    terminal.enter("exit 5");
    terminal.enter(CODE_AND_JOBS);
    terminal.wait_for("code 5 0\r\n");

    terminal.enter(&within(&["sh", "-c", "'echo beg\"un\"; exec sleep 1000'"]));
    terminal.wait_for("begun\r\n");
    terminal.stop_and_go_on();
    terminal.interrupt();
    terminal.enter("exit 7");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(7));
}

/// bash at a terminal, which ends with the test.
struct Terminal {
    child: Child,
    shown: Receiver<u8>,
    /// The text shown since the last wait was over.
    unseen: String,
}

impl Terminal {
    fn start() -> Self {
        let mut child = Command::new("setpriv")
            // A parent in the background ignores what a terminal sends, and a shell cannot undo that.
            .args(["--pdeathsig", "KILL", "--", "env", "--default-signal=HUP,INT,QUIT,TSTP"])
            .args(["script", "--quiet", "--return", "--command"])
            .args(["bash --norc -i", "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, shown) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || out.bytes().map_while(Result::ok).all(|byte| sender.send(byte).is_ok()));
        Self { child, shown, unseen: String::new() }
    }

    fn press(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    fn enter(&mut self, line: &str) {
        self.press(&format!("{line}\n"));
    }

    /// Whether this is shown in time.
    fn shows(&mut self, text: &str, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            if let Some(at) = self.unseen.find(text) {
                self.unseen.drain(..at + text.len());
                return true;
            }
            match self.shown.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(byte) => self.unseen.push(char::from(byte)),
                Err(_) => return false,
            }
        }
    }

    fn wait_for(&mut self, text: &str) {
        assert!(self.shows(text, PATIENCE), "{text:?} does not follow: {:?}", self.unseen);
    }

    /// Presses this again as long as what it is meant for has not begun.
    fn press_until(&mut self, keys: &str, text: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            self.press(keys);
            if self.shows(text, Duration::from_millis(500)) {
                return;
            }
            assert!(Instant::now() < until, "{text:?} does not follow: {:?}", self.unseen);
        }
    }

    /// Stops the command that sleeps, and goes on with it.
    fn stop_and_go_on(&mut self) {
        self.press_until("\x1a", "Stopped");
        self.wait_for("exec sleep 1000'\r\n");
        self.enter("fg");
        self.wait_for("exec sleep 1000'\r\n");
    }

    /// Ends it.
    fn interrupt(&mut self) {
        self.press_until(&format!("\x03{CODE_AND_JOBS}\n"), "code 130 0\r\n");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Shows the code of the last command, and how many jobs there are.
const CODE_AND_JOBS: &str = "echo co\"de\" $? $(jobs | wc -l)";

#[test]
fn datagrams_are_answered_by_whom_they_were_sent_to() {
    if !possible() {
        return;
    }
    let program = datagrams();
    let to = at_gateway(program.local_addr().unwrap());
    thread::spawn(move || {
        let mut buf = [0; 65_535];
        while let Ok((len, from)) = program.recv_from(&mut buf) {
            program.send_to(&buf[..len], from).unwrap();
        }
    });
    let ran = Place::new(r#"rate = "10Mbit/s", delay = "5ms""#).visit("datagrams", to);
    assert_eq!(ran.found(), "all");
    assert_eq!(ran.report["datagrams"]["arrived"], 3, "{}", ran.report);
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    if !possible() {
        return;
    }
    let place = Place::new(r#"rate = "10Mbit/s", delay = "5ms""#);
    let ran = place.run(&["sh", "-c", "echo out; echo err >&2; exit 5"]);
    assert_eq!((ran.code, &*ran.out), (Some(5), "out\n"), "{}", ran.err);
    assert!(ran.err.starts_with("err\n"), "{}", ran.err);
    let ran = place.run(&["sh", "-c", "kill -TERM $$"]);
    assert_eq!(ran.code, Some(143), "{}", ran.err);
    let ran = place.run(&["/no/such/program"]);
    assert_eq!(ran.code, Some(127), "{}", ran.err);
    assert!(ran.err.contains("cannot run /no/such/program"), "{}", ran.err);
}

#[test]
fn a_signal_reaches_the_command_and_a_kill_ends_both() {
    if !possible() {
        return;
    }
    let place = Place::new(r#"rate = "10Mbit/s", delay = "5ms""#);
    let begun = |child: &mut Child| {
        let mut line = String::new();
        let mut byte = [0];
        let mut out = child.stdout.take().unwrap();
        while out.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            line.push(char::from(byte[0]));
        }
        (line, out)
    };
    let trap = "trap 'echo got it; exit 9' TERM; echo $$; while :; do sleep 0.05; done";
    let mut child = place.start(&["sh", "-c", trap]);
    let (_, mut out) = begun(&mut child);
    signal(&child.id().to_string(), "TERM");
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!((&*rest, child.wait().unwrap().code()), ("got it\n", Some(9)));

    let mut child = place.start(&["sh", "-c", "echo $$; exec sleep 1000"]);
    let (pid, mut out) = begun(&mut child);
    assert!(Path::new("/proc").join(&pid).exists());
    signal(&child.id().to_string(), "KILL");
    // Its stdout ends with the command.
    out.read_to_string(&mut rest).unwrap();
    child.wait().unwrap();
}

fn signal(pid: &str, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), pid]).status().unwrap().success());
}

#[test]
fn a_user_without_privileges_has_the_same() {
    if !possible() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        // Then all others are this test.
        return;
    }
    let place = Place::new(r#"rate = "10Mbit/s", delay = "10ms""#);
    // The user may not read where this was built.
    let [tcplab, this] = [Path::new(TCPLAB), &env::current_exe().unwrap()].map(|program| {
        let copy = place.path(program.file_name().unwrap().to_str().unwrap());
        fs::copy(program, &copy).unwrap();
        copy
    });
    let words = visit(&this, "download", download());
    let words = place.shell(&tcplab, &words.iter().map(String::as_str).collect::<Vec<_>>());
    let ran = place.ran(as_user(&place, &words));
    let took: f64 = ran.found().parse().unwrap();
    assert!(took > DOWNLOAD as f64 * 8.0 / 10e6, "{took}");
    let words = place.shell(&tcplab, &["sh", "-c", "id -u; grep CapEff /proc/self/status"]);
    let ran = place.ran(as_user(&place, &words));
    assert_eq!(ran.out, "65534\nCapEff:\t0000000000000000\n", "{}", ran.err);
}

/// Runs this as an unprivileged user, who may open the TUN driver as on most systems.
fn as_user(place: &Place, words: &[String]) -> Output {
    let tun = place.path("tun");
    let node = tun.to_str().unwrap();
    let script = format!(
        "test -e {node} || mknod -m 666 {node} c 10 200; mount --bind {node} /dev/net/tun; exec setpriv \
         --reuid 65534 --regid 65534 --clear-groups --pdeathsig KILL -- \"$@\""
    );
    Command::new("unshare").args(["--mount", "sh", "-c", &script, "sh"]).args(words).output().unwrap()
}

#[test]
fn a_user_who_may_not_make_namespaces_learns_what_forbids_it() {
    if !possible() {
        return;
    }
    let place = Place::new(r#"rate = "10Mbit/s", delay = "10ms""#);
    let words = place.shell(Path::new(TCPLAB), &["true"]);
    // Root in a user namespace in which the setting is its own, and then without capabilities.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set -all \
                  --inh-caps -all -- \"$@\"";
    let mut command = Command::new("unshare");
    let output =
        command.args(["--user", "--map-root-user", "sh", "-c", script, "sh"]).args(words).output().unwrap();
    let ran = place.ran(output);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("user.max_user_namespaces=10000") && ran.err.contains("sudo"), "{}", ran.err);
}

#[test]
fn the_network_can_be_changed_meanwhile() {
    if !possible() {
        return;
    }
    let place = Place::new(r#"rate = "10Mbit/s", delay = "10ms""#);
    // A free port, most likely still free then.
    let control = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://10.0.0.2:{}/", server.local_addr().unwrap().port());
    let program = format!("read line; exec curl --silent --max-time 2 {url}");
    let mut words = place.shell(Path::new(TCPLAB), &["sh", "-c", &program]);
    words.splice(2..2, ["--control".to_owned(), control.to_string()]);
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).args(words);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    let mut stream = loop {
        match TcpStream::connect(control) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        thread::sleep(Duration::from_millis(10));
    };
    let body = r#"{"loss": "100%"}"#;
    let len = body.len();
    write!(
        stream,
        "POST /links/link HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(child.stdin.take());
    let ran = place.ran(child.wait_with_output().unwrap());
    // curl's code for a time that is over.
    assert_eq!(ran.code, Some(28), "{}", ran.err);
    server.set_nonblocking(true).unwrap();
    assert_eq!(server.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "no SYN comes through");
    assert!(ran.report["network"]["links"].to_string().contains("random-loss"), "{}", ran.report);
}

/// Bytes of a download.
const DOWNLOAD: usize = 1_000_000;
/// Bytes of an upload.
const UPLOAD: usize = 2_000_000;
const TCPLAB: &str = env!("CARGO_BIN_EXE_tcplab");

#[test]
fn the_page_of_it_is_kept_with_the_connections_that_leave_it() {
    if !possible() {
        return;
    }
    let place = Place::new(r#"rate = "10Mbit/s", delay = "10ms""#);
    let this = env::current_exe().unwrap();
    let mut words = visit(&this, "download", download());
    // Long enough for a moment with the connection in it.
    words.splice(0..0, ["sh", "-c", "\"$@\"; sleep 0.5", "sh"].map(str::to_owned));
    let mut words = place.shell(Path::new(TCPLAB), &words.iter().map(String::as_str).collect::<Vec<_>>());
    let file = place.path("page.html");
    words.splice(2..2, ["--live-page".to_owned(), file.to_str().unwrap().to_owned()]);
    let mut command = Command::new("setpriv");
    let output =
        command.args(["--pdeathsig", "KILL", "--"]).args(words).stdin(Stdio::null()).output().unwrap();
    let ran = place.ran(output);
    ran.found();
    let page = fs::read_to_string(&file).unwrap();
    let (_, run) = page.split_once("id=\"run\">").unwrap();
    let run: Value = serde_json::from_str(run.split_once("</script>").unwrap().0).unwrap();
    assert_eq!((&run["scene"]["ends"][0], &run["over"]), (&"b".into(), &true.into()));
    let frames = run["frames"].as_array().unwrap();
    assert!(frames.iter().any(|frame| frame["connections"][0]["host"] == "b"), "{frames:?}");
    let sent = |frame: &Value| frame["links"][1]["sent_bytes"].as_u64().unwrap();
    assert!(sent(&frames[frames.len() - 1]) as usize > DOWNLOAD);
}
