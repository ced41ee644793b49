//! `tcplab compare`: the grid, its table, and what an interrupt leaves.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Ended, Scratch, ended, run, tcplab};

/// Sixteen runs of a few hundredths of a second.
const GRID: [&str; 11] = [
    "compare",
    "--cc",
    "reno,vegas:alpha=1,beta=3",
    "--rate",
    "1Mbit/s,4Mbit/s",
    "--buffer",
    "0.5bdp,20packets",
    "--duration",
    "10s",
    "--seeds",
    "2",
];

fn compare(more: &[&str]) -> Ended {
    run(&[&GRID, more].concat())
}

#[test]
fn the_same_grid_gives_the_same_whatever_the_number_of_jobs() {
    let scratch = Scratch::new();
    let with = |jobs: &str, name: &str| {
        let (out, json) = (scratch.text(name), scratch.text(&format!("{name}.json")));
        let table = compare(&["--jobs", jobs, "--out", &out, "--json", &json]).done();
        let report = fs::read_to_string(scratch.path(name).join("report.html")).unwrap();
        (table, fs::read_to_string(json).unwrap(), report)
    };
    let (one, two) = (with("1", "one"), with("2", "two"));
    assert!(one == two, "{} {}", one.0, two.0);
    let (table, json, report) = one;
    let rows: Vec<&str> = table.lines().filter(|line| line.contains("Mbit/s ")).collect();
    assert!(rows.len() >= 8 && table.contains("vegas:alpha=1,beta=3"), "{table}");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), 8);
    assert_eq!(json["rows"][0]["runs"].as_array().unwrap().len(), 2);
    assert!(report.contains("By buffer: 4Mbit/s"), "{report}");
    let pictures = fs::read_dir(scratch.path("one").join("pictures")).unwrap().count();
    assert!(pictures >= 2, "{pictures} pictures");
}

/// One flow shares with no other, and 3 % more throughput must not look like everything.
#[test]
fn one_flow_has_no_index_and_axes_begin_at_zero() {
    let scratch = Scratch::new();
    let grid = |flows: &str| {
        let out = scratch.text(flows);
        let grid = [
            "compare",
            "--cc",
            "reno,cubic",
            "--duration",
            "5s",
            "--seeds",
            "2",
            "--flows",
            flows,
            "--out",
            &out,
        ];
        let table = run(&grid).done();
        (table, fs::read_to_string(scratch.path(flows).join("report.html")).unwrap())
    };
    let ((one, report), (two, of_two)) = (grid("1"), grid("2"));
    assert!(!one.contains("Jain") && !report.contains("Jain"), "{one}");
    assert!(two.lines().any(|line| line.ends_with("Jain")) && of_two.contains("Jain's index"));
    for quantity in ["throughput (Mbit/s)", "mean queueing delay (ms)", "power (MB/s²)"] {
        let axis = format!(r#"{{"label":"{quantity}","scale":"linear","ends":[0.0,"#);
        assert!(report.contains(&axis), "{quantity} begins at 0");
    }
}

#[test]
fn pictures_of_another_grid_do_not_stay_beside_the_report() {
    let scratch = Scratch::new();
    let out = scratch.text("out");
    let pictures = |delay: &str| {
        let grid = ["compare", "--cc", "reno", "--duration", "2s", "--delay", delay, "--out", &out];
        run(&grid).done();
        let entries = fs::read_dir(scratch.path("out").join("pictures")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let first = pictures("10ms");
    assert_eq!(first.len(), 1);
    fs::write(scratch.path("out").join("pictures/mine.svg"), "<svg/>").unwrap();
    let second = pictures("20ms");
    assert_eq!(second.len(), 2, "{second:?}");
    assert!(!second.contains(&first[0]) && second.contains(&"mine.svg".to_owned()), "{second:?}");
}

#[test]
fn a_run_that_was_killed_goes_on_and_comes_to_the_same() {
    let scratch = Scratch::new();
    let (out, cells) = (scratch.text("out"), scratch.path("out").join("cells.jsonl"));
    let grid = [&GRID[..], &["--out", &out, "--jobs", "1"]].concat();
    let mut child = tcplab(&grid).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let lines = || fs::read_to_string(&cells).map_or(0, |text| text.lines().count());
    let began = Instant::now();
    while lines() < 3 && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = lines();
    assert!(kept >= 3, "{kept} lines");
    // A crash of the machine may also tear the last line.
    let mut text = fs::read(&cells).unwrap();
    text.truncate(text.len() - 7);
    fs::write(&cells, text).unwrap();

    let again = run(&grid);
    assert!(again.err.contains("1 damaged lines of"), "{}", again.err);
    let reused = format!("{} of 16 runs come from", kept - 1);
    assert!(again.err.contains(&reused), "{}", again.err);
    let table = again.done();
    assert_eq!(table, compare(&[]).done());
    assert_eq!(lines(), 16);
    // Everything is known: nothing runs, and nothing changes.
    let third = run(&grid);
    assert!(third.err.contains("16 of 16 runs come from"), "{}", third.err);
    assert_eq!(third.done(), table);
    let fresh = run(&[&grid[..], &["--fresh"]].concat());
    assert!(!fresh.err.contains("come from"), "{}", fresh.err);
    assert_eq!(fresh.done(), table);
}

#[test]
fn results_of_another_build_are_not_used_and_said() {
    let scratch = Scratch::new();
    let out = scratch.text("out");
    compare(&["--out", &out]).done();
    let cells = scratch.path("out").join("cells.jsonl");
    let line = fs::read_to_string(&cells).unwrap();
    let build = serde_json::from_str::<Value>(line.lines().next().unwrap()).unwrap()["build"].clone();
    fs::write(&cells, line.replace(build.as_str().unwrap(), "another")).unwrap();
    let again = compare(&["--out", &out]);
    assert!(again.err.contains("16 runs in") && again.err.contains("another build"), "{}", again.err);
    again.done();
}

#[test]
fn an_interrupt_leaves_what_is_done() {
    let scratch = Scratch::new();
    let out = scratch.text("out");
    // Far longer than the test waits.
    let long = ["compare", "--cc", "reno", "--duration", "60s", "--seeds", "10000", "--out", &out];
    let child = tcplab(&long).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let cells = scratch.path("out").join("cells.jsonl");
    while fs::read_to_string(&cells).map_or(0, |text| text.lines().count()) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Until then the folder is locked, and a second run changes nothing in it.
    let second = compare(&["--out", &out, "--fresh"]).failed(2);
    assert!(
        second.contains("another `tcplab compare` is at work in") && second.contains("--out"),
        "{second}"
    );
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let said = ended(child.wait_with_output().unwrap()).failed(1);
    assert!(said.contains("interrupted") && said.contains("the same command continues"), "{said}");
    let text = fs::read_to_string(&cells).unwrap();
    assert!(text.ends_with('\n') && text.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}

#[test]
fn wrong_values_name_their_option_and_what_would_do() {
    for (words, wanted) in [
        (["--cc", "cubci"], "cubic"),
        (["--rate", "10"], "`10` has no unit; write `10Mbit/s` or `10kbit/s`"),
        (["--rate", "unlimited"], "found `unlimited`; allowed is a rate"),
        (["--delay", "20"], "`20` has no unit; write `20ms` or `20s`"),
        (["--buffer", "4"], "`4` has no unit; write `4bdp` or `4packets`"),
        (["--buffer", "deep"], "0.5bdp"),
        (["--loss", "101%"], "1%"),
        (["--queue", "codl"], "codel"),
        (["--profile", "modem"], "modern"),
        (["--ecn", "on"], "accurate"),
        (["--duration", "1ms"], "1s"),
        (["--duration", "20"], "`20` has no unit; write `20ms` or `20s`"),
        (["--flows", "0"], "--flows"),
        (["--jobs", "0"], "--jobs"),
        (["--seeds", "none"], "--seeds"),
        (["--bufer", "1bdp"], "--buffer"),
    ] {
        let said = run(&[&["compare", "--cc", "reno"], &words[..]].concat()).failed(2);
        assert!(said.contains(wanted) && said.contains(words[0]), "{words:?}: {said}");
    }
    assert!(run(&["compare"]).failed(2).contains("--cc"));
    assert!(run(&["compare", "--cc", "reno", "--fresh"]).failed(2).contains("--out"));
}

#[test]
fn what_cannot_be_written_is_told() {
    let small = ["compare", "--cc", "reno", "--duration", "1s"];
    let said = run(&[&small[..], &["--json", "/dev/full"]].concat()).failed(6);
    assert!(said.contains("cannot write /dev/full"), "{said}");
    let scratch = Scratch::new();
    fs::write(scratch.path("file"), "").unwrap();
    let said = run(&[&small[..], &["--out", &scratch.text("file")]].concat()).failed(6);
    assert!(said.contains("cannot make the folder"), "{said}");
}
