//! `tcplab rto` and `tcplab ssthresh` as a user runs them, on simulated captures.

use std::cell::RefCell;
use std::fs::{self, File};
use std::rc::Rc;

use ackclock_lab::lossy_upload;
use ackclock_sim::Simulation;
use ackclock_sim::observe::Pcapng;
use serde_json::Value;

use crate::{Scratch, run};

/// A lossy transfer, captured in this folder at these of its hosts.
fn capture(folder: &Scratch, name: &str, hosts: &[&str]) -> String {
    let path = folder.text(name);
    let mut simulation = Simulation::new(&lossy_upload()).unwrap();
    let nodes: Vec<(u32, &str)> =
        hosts.iter().map(|host| (simulation.node(host).unwrap().number, *host)).collect();
    let pcapng = Rc::new(RefCell::new(Pcapng::new(File::create(&path).unwrap(), nodes)));
    simulation.observe(pcapng.clone());
    simulation.run();
    pcapng.borrow_mut().finish().unwrap();
    path
}

fn json(path: &str) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn rto_assesses_every_estimator_from_one_end_or_both() {
    let folder = Scratch::new();
    let both = capture(&folder, "both.pcapng", &["a", "b"]);
    let output = run(&["rto", &both, "-v", "--json", &folder.text("both.json")]);
    assert!(output.code == Some(0), "{}", output.err);
    let said = &output.out;
    assert!(said.contains("ap-take-last-every") && said.contains("W~ (RTT)"), "{said}");
    assert!(said.contains("10.0.0.1:") && said.contains("seen at both ends"), "{said}");
    assert!(output.err.contains("connections assessed: 1, from both ends: 1; files: 1"), "{}", output.err);
    let report = json(&folder.text("both.json"));
    lists_every_timeout(said, &report["connections"][0]);
    let presets = report["presets"].as_array().unwrap();
    assert!(presets.len() > 40 && presets.iter().all(|row| row["good"].as_u64() > Some(0)), "{report}");
    let w =
        |name: &str| presets.iter().find(|row| row["preset"] == name).unwrap()["w_seconds"].as_f64().unwrap();
    assert!(w("ap-g-500") > w("ap-min-1000") && w("ap-min-1000") > w("ap-min-0"), "{report}");

    // The sender's end alone gives the same result here, because every timeout is unavoidable.
    let sender = capture(&folder, "sender.pcapng", &["a"]);
    let alone = run(&["rto", &sender, "--preset", "ap-min-0,ap-min-1000", "--csv"]);
    let lines: Vec<String> = alone.out.lines().map(str::to_owned).collect();
    assert_eq!(lines[0], "preset,timeouts,good,bad,repeated,w_s,w_tilde_rtt,b_percent");
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1].split(',').nth(5), Some(&*format!("{:.3}", w("ap-min-0"))));

    // Two files are paired in either order.
    let receiver = capture(&folder, "receiver.pcapng", &["b"]);
    for arguments in [[&sender, &receiver], [&receiver, &sender]] {
        let output = run(&["rto", arguments[0], arguments[1], "--json", &folder.text("two.json")]);
        assert!(output.code == Some(0), "{}", output.err);
        assert_eq!(json(&folder.text("two.json"))["presets"], report["presets"]);
    }
    let output = run(&["rto", &sender, &receiver, "--side", "both", "--json", &folder.text("two.json")]);
    assert!(output.code == Some(0));
    assert_eq!(json(&folder.text("two.json"))["both_sides"], 1);
}

/// Time, sequence number and class of each, in words and as JSON.
fn lists_every_timeout(said: &str, connection: &Value) {
    let timed = connection["timed_retransmissions"].as_array().unwrap();
    let of = |class: &str| timed.iter().filter(|one| one["class"] == class).count() as u64;
    let unavoidable = of("first-timeout") + of("repeated-timeout");
    assert_eq!(Some(unavoidable), connection["unavoidable_timeouts"].as_u64(), "{connection}");
    assert_eq!(Some(of("avoidable-timeout")), connection["avoidable_timeouts"].as_u64(), "{connection}");
    // Senders of 1990 have no SACK, and so no probes.
    assert!(unavoidable > 0 && connection["tail_loss_probes"] == 0, "{connection}");
    for one in timed {
        let (seconds, sequence) = (one["seconds"].as_f64().unwrap(), one["sequence"].as_u64().unwrap());
        assert!((0.2..60.0).contains(&seconds) && sequence % 512 == 1 && sequence < 200_000, "{one}");
        let line = said.lines().find(|line| line.contains(&format!("{seconds:.6}"))).unwrap_or_default();
        assert!(line.contains(&sequence.to_string()) && line.contains("timeout"), "{line}: {one}");
    }
}

#[test]
fn ssthresh_places_every_estimator_in_a_region() {
    let folder = Scratch::new();
    let both = capture(&folder, "both.pcapng", &["a", "b"]);
    let output =
        run(&["ssthresh", &both, "-v", "--estimator", "csa:5,0.2", "--json", &folder.text("both.json")]);
    assert!(output.code == Some(0), "{}", output.err);
    let said = &output.out;
    for name in ["pbm-prime", "tssf:3", "csa:3,0.1", "tcsa-prime:3,0.1", "recv-max:50", "csa:5,0.2"] {
        assert!(said.contains(name), "{name}: {said}");
    }
    let report = json(&folder.text("both.json"));
    let bottleneck = report["connections"][0]["bottleneck"].as_u64().unwrap();
    // 512 of the 552 bytes of a packet, on a line of 1 Mbit/s: 115.9 KB/s.
    assert!((110_000..120_000).contains(&bottleneck), "{bottleneck}");
    for row in report["estimators"].as_array().unwrap() {
        let counts = row["loss"].as_object().unwrap().values().filter_map(Value::as_u64);
        assert_eq!(counts.sum::<u64>(), 1, "{row}");
    }
    // At the sender's end the receiver's estimates do not apply.
    let sender = capture(&folder, "sender.pcapng", &["a"]);
    let output = run(&["ssthresh", &sender]);
    let line = output.out.lines().find(|line| line.starts_with("recv-max")).unwrap().to_owned();
    assert_eq!(line.split_whitespace().skip(1).collect::<Vec<_>>(), ["-"; 7]);
}

#[test]
fn broken_captures_are_assessed_as_far_as_they_go() {
    let folder = Scratch::new();
    let whole = capture(&folder, "whole.pcapng", &["a", "b"]);
    let bytes = fs::read(&whole).unwrap();
    let cut = folder.text("cut.pcapng");
    fs::write(&cut, &bytes[..bytes.len() * 2 / 3 + 1]).unwrap();
    let output = run(&["rto", &cut, "--preset", "rfc6298"]);
    assert!(output.code == Some(0), "{}", output.err);
    let said = &output.err;
    assert!(said.contains("cut.pcapng: ends within a block that begins at byte"), "{said}");
    assert!(said.contains("connections assessed: 1,"), "{said}");
    let mut damaged = bytes.clone();
    let middle = bytes.len() / 2 / 4 * 4;
    // A block cannot have this length, wherever its head is.
    damaged[middle..middle + 4000].fill(0);
    fs::write(&cut, &damaged).unwrap();
    let output = run(&["ssthresh", &cut]);
    assert!(output.err.contains("holds no block at byte"), "{}", output.err);
}

#[test]
fn wrong_command_lines_say_what_would_be_right() {
    let folder = Scratch::new();
    let sender = capture(&folder, "sender.pcapng", &["a"]);
    let text = folder.text("text");
    fs::write(&text, "not a capture, but a text of some length").unwrap();
    for (arguments, code, words) in [
        (vec!["rto"], 2, "<FILE>"),
        (
            vec!["rto", &sender, "--preset", "ap-min"],
            2,
            "no timeout estimator is called `ap-min`; choose one of: rfc6298",
        ),
        (vec!["ssthresh", &sender, "--estimator", "csa:1"], 2, "as csa:5,0.2"),
        (vec!["rto", &sender, "--side", "both"], 2, "name the sender's capture first"),
        (vec!["rto", &sender, "--side", "middle"], 2, "possible values: guess, sender, receiver, both"),
        (vec!["rto", &text], 2, "is neither pcap nor pcapng"),
        (vec!["rto", "/nowhere/at.all"], 6, "cannot open /nowhere/at.all"),
        (vec!["rto", &sender, "--side", "receiver"], 1, "no connection can be assessed"),
        (vec!["rto", &sender, "--json", "/dev/full"], 6, "cannot write /dev/full"),
    ] {
        let output = run(&arguments);
        assert_eq!(output.code, Some(code), "{arguments:?}: {}", output.err);
        assert!(output.err.contains(words), "{arguments:?}: {}", output.err);
    }
}
