//! `tcplab between`: programs on both sides of a network in real time. Nothing here depends on the machine's
//! speed: a run may be invalid. Tests of punctuality are in `tests/real_time`.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::through::{Between, bytes, datagrams, echo, echo_at_end, exchange, refused, server, two};

#[test]
fn the_end_of_one_direction_passes_and_the_answer_comes_after_it() {
    let between = Between::start(&two(r#"rate = "50Mbit/s", delay = "5ms""#), echo_at_end(), &[]);
    let sent = bytes(300_000);
    let begun = Instant::now();
    assert_eq!(exchange(between.connect(), &sent).unwrap(), sent);
    // A handshake, the bytes, and the bytes again: two round trips and 2 * 48 ms at least.
    assert!(begun.elapsed() > Duration::from_millis(2 * 10 + 2 * 48), "{:?}", begun.elapsed());
    let (report, _) = between.stop();
    let connections = &report["connections"];
    assert_eq!((&connections["accepted"], &connections["finished"]), (&1.into(), &1.into()), "{report}");
    assert_eq!((&connections["bytes_there"], &connections["bytes_back"]), (&300_000.into(), &300_000.into()));
}

#[test]
fn a_reset_passes_from_either_side() {
    let (sender, resets) = mpsc::channel();
    let to = server(move |mut stream| {
        let mut request = [0];
        if stream.read_exact(&mut request).is_ok() && request == *b"r" {
            reset(stream);
        } else {
            let error = stream.read(&mut request).map_err(|error| error.kind());
            sender.send(error).unwrap();
        }
    });
    let between = Between::start(&two(r#"rate = "50Mbit/s", delay = "5ms""#), to, &[]);
    let mut client = between.connect();
    client.write_all(b"r").unwrap();
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let mut client = between.connect();
    client.write_all(b"x").unwrap();
    // The byte must be there first: a reset overtakes what is under way.
    thread::sleep(Duration::from_millis(200));
    reset(client);
    assert_eq!(resets.recv().unwrap(), Err(ErrorKind::ConnectionReset));
    let (report, _) = between.stop();
    assert_eq!(report["connections"]["reset"], 2, "{report}");
}

/// Makes a socket end in a reset.
fn reset(stream: TcpStream) {
    let socket = socket2::SockRef::from(&stream);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
}

#[test]
fn nothing_at_the_destination_is_a_reset_and_a_sentence() {
    // Bound, and not listening.
    let nothing = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    nothing.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    let to = nothing.local_addr().unwrap().as_socket().unwrap();
    let between = Between::start(&two(r#"rate = "50Mbit/s", delay = "5ms""#), to, &[]);
    for _ in 0..3 {
        assert_eq!(between.connect().read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    let (report, said) = between.stop();
    assert_eq!(report["connections"]["refused"], 3, "{report}");
    assert_eq!(said.matches(&format!("cannot connect to {to}")).count(), 1, "{said}");
}

#[test]
fn a_program_that_does_not_read_holds_up_the_one_that_writes() {
    let to = server(|stream| {
        thread::sleep(Duration::from_secs(60));
        drop(stream);
    });
    let between = Between::start(&two(r#"rate = "unlimited", delay = "1ms""#), to, &[]);
    let mut client = between.connect();
    client.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let (block, mut written) = (vec![7; 1 << 20], 0);
    let error = loop {
        match client.write(&block) {
            Ok(len) => written += len,
            Err(error) => break error,
        }
        assert!(written < 200 << 20, "it takes whatever comes");
    };
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    assert!(between.memory() < 200 << 20, "{}", between.memory());
}

#[test]
fn three_hundred_connections_at_once_get_their_own_bytes() {
    let between = Between::start(&two(r#"rate = "unlimited", delay = "2ms""#), echo_at_end(), &[]);
    let clients: Vec<_> = (0..300).map(|_| between.connect()).collect();
    thread::scope(|scope| {
        for (number, client) in clients.into_iter().enumerate() {
            scope.spawn(move || {
                let sent = bytes(5_000 + number);
                assert_eq!(exchange(client, &sent).unwrap(), sent);
            });
        }
    });
    let (report, _) = between.stop();
    assert_eq!(report["connections"]["finished"], 300, "{report}");
}

#[test]
fn datagrams_are_answered_to_those_who_sent_them() {
    let program = datagrams();
    let to = program.local_addr().unwrap();
    thread::spawn(move || {
        let mut buf = [0; 65_535];
        while let Ok((len, from)) = program.recv_from(&mut buf) {
            program.send_to(&buf[..len], from).unwrap();
        }
    });
    let between = Between::start(&two(r#"rate = "10Mbit/s", delay = "5ms""#), to, &["--udp"]);
    let senders = [datagrams(), datagrams(), datagrams()];
    for (number, sender) in senders.iter().enumerate() {
        sender.connect(between.listen).unwrap();
        // The last is longer than a packet, and travels in fragments.
        sender.send(&bytes([100, 1000, 4000][number])).unwrap();
    }
    for (number, sender) in senders.iter().enumerate() {
        let mut buf = [0; 65_535];
        let len = sender.recv(&mut buf).unwrap();
        assert_eq!(buf[..len], bytes([100, 1000, 4000][number]));
    }
    let (report, _) = between.stop();
    assert_eq!(report["datagrams"]["sent"], 3, "{report}");
    assert_eq!(report["datagrams"]["arrived"], 3, "{report}");
}

#[test]
fn the_control_changes_links_and_says_what_it_did_not_understand() {
    let between = Between::start(&two(r#"rate = "10Mbit/s", delay = "5ms""#), echo(), &[]);
    let links =
        || -> serde_json::Value { serde_json::from_str(&between.ask("GET", "/links", "").1).unwrap() };
    assert_eq!(links()[0]["rate"], "10Mbit/s");
    between.change("/links/link", r#"{ "rate": "2Mbit/s", "way": "back", "loss": "1%" }"#);
    between.change("/links/l%2a", r#"{ "delay": "7ms" }"#);
    let [there, back] = [&links()[0], &links()[1]];
    assert_eq!(
        (&there["name"], &there["rate"], &there["delay"]),
        (&"link:there".into(), &"10Mbit/s".into(), &"7ms".into())
    );
    assert_eq!((&back["rate"], &back["loss"]["independent"]), (&"2Mbit/s".into(), &"1%".into()));
    for (path, body, status, sentence) in [
        (
            "/links/lonk",
            r#"{ "loss": "1%" }"#,
            400,
            "change.link: found `lonk`; allowed are `link`; the nearest is `link`",
        ),
        ("/links/link", r#"{ "los": "1%" }"#, 400, "the nearest is `loss`"),
        ("/links/link", r#"{ "loss": "150%" }"#, 400, "change: found `150%`; allowed is a share from 0 to 1"),
        ("/links/link", "{}", 400, "found nothing that changes; allowed are rate, delay, loss"),
        ("/links/link", "loss", 400, "found no JSON object"),
        (
            "/changes",
            r#"{ "partition": ["a", "c"] }"#,
            400,
            "change.partition[1]: found `c`; allowed are `a`, `b`",
        ),
        ("/changes", r#"{ "crash": "a", "heal": ["a", "b"] }"#, 400, "found 2 of link, partition, heal"),
        ("/link", "{}", 404, "allowed are GET /links, POST /links/NAME"),
    ] {
        let (found, answer) = between.ask("POST", path, body);
        assert!(found == status && answer.contains(sentence), "{path} {body}: {found} {answer}");
    }
    assert_eq!(between.ask("POST", "/links", "{}").0, 405);
    assert_eq!(between.ask("POST", "/changes", &"x".repeat(100_000)).0, 413);
    // A page of the web in the user's browser can send this, and must not.
    let (status, _) =
        between.ask_with("POST", "/links/link", "Origin: http://example.com\r\n", r#"{ "loss": 1 }"#);
    assert_eq!(status, 403);
    let (_, report) = between.ask("GET", "/report", "");
    assert!(report.contains("\"too_late\""), "{report}");
    between.stop();
}

#[test]
fn a_partition_holds_bytes_back_until_it_is_healed() {
    let between = Between::start(&two(r#"rate = "10Mbit/s", delay = "5ms""#), echo(), &[]);
    let mut client = between.connect();
    let mut answer = [0];
    client.write_all(b"1").and_then(|()| client.read_exact(&mut answer)).unwrap();
    between.change("/changes", r#"{ "partition": ["a", "b"] }"#);
    client.write_all(b"2").unwrap();
    client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert_eq!(client.read(&mut answer).unwrap_err().kind(), ErrorKind::WouldBlock);
    between.change("/changes", r#"{ "heal": ["*", "*"] }"#);
    client.set_read_timeout(Some(super::through::PATIENCE)).unwrap();
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"2");
    let (report, _) = between.stop();
    assert!(report["network"]["packets_partitioned"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn a_host_that_crashes_forgets_its_connections_and_serves_after_its_restart() {
    let between = Between::start(&two(r#"rate = "10Mbit/s", delay = "5ms""#), echo(), &[]);
    let mut client = between.connect();
    let mut answer = [0];
    client.write_all(b"1").and_then(|()| client.read_exact(&mut answer)).unwrap();
    between.change("/changes", r#"{ "crash": "b" }"#);
    between.change("/changes", r#"{ "restart": "b" }"#);
    client.write_all(b"2").unwrap();
    assert_eq!(client.read(&mut answer).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let mut client = between.connect();
    client.write_all(b"3").and_then(|()| client.read_exact(&mut answer)).unwrap();
    between.stop();
}

#[test]
fn what_cannot_be_between_is_refused() {
    let network = two(r#"rate = "1Mbit/s", delay = "5ms""#);
    for (scenario, more, sentence) in [
        (network.clone(), &["--client", "c"][..], "the scenario has no host `c`; it has `a`, `b`"),
        (
            network.clone(),
            &["--client", "b"],
            "`b` is both ends; choose two hosts with --client and --server",
        ),
        (network.clone(), &["--listen", "127.0.0.1:0"], "2 --listen and 1 --to"),
        (network.clone(), &["--control", "0.0.0.0:0"], "use 127.0.0.1, or add --control-exposed"),
        (network.clone(), &["--to", "localhost"], "allowed is a host and a port"),
        (lonely(), &[], "the scenario has 1 hosts; the network lies between two"),
        (network + "[[traffic]]\nname = \"t\"\nfrom = \"a\"\nto = \"b\"\nwhat = { bulk = {} }\n", &[], "`t`"),
    ] {
        let said = refused(&scenario, more);
        assert!(said.contains(sentence), "{more:?}: {said}");
    }
}

/// A host and a router.
fn lonely() -> String {
    two(r#"rate = "1Mbit/s", delay = "5ms""#)
        .replace(r#"host = [{ name = "a" }, { name = "b" }]"#, "host = [{ name = \"a\" }]\nrouters = [\"b\"]")
}
