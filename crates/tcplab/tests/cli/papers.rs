//! `tcplab papers`, without the work.

use std::fs;

use serde_json::Value;

use crate::{Scratch, run};

#[test]
fn a_wrong_id_is_named_with_those_that_there_are() {
    let said = run(&["papers", "VE5", "XX9"]).failed(2);
    assert!(said.contains("no experiment is called"), "{said}");
    assert!(said.contains("tcplab papers --list"), "{said}");
}

#[test]
fn options_that_are_wrong_name_the_right_ones() {
    let said = run(&["papers", "--jsn", "x"]).failed(2);
    assert!(said.contains("--json"), "{said}");
    let said = run(&["paper"]).failed(2);
    assert!(said.contains("papers"), "{said}");
    let said = run(&[]).failed(2);
    assert!(said.contains("papers") && said.contains("compare"), "{said}");
}

#[test]
fn results_are_the_same_bytes_each_time_and_judged() {
    let scratch = Scratch::new();
    let with = |name: &str| {
        let (out, json) = (scratch.text(name), scratch.text(&format!("{name}.json")));
        let said = run(&["papers", "JE5", "--out", &out, "--json", &json]).done();
        assert!(said.contains("JE5/6") && said.contains("0 OUTSIDE"), "{said}");
        let json: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
        let pictures = json["experiments"][0]["pictures"].as_array().unwrap().clone();
        for picture in &pictures {
            let file = format!("{name}/pictures/{}.svg", picture.as_str().unwrap());
            assert!(fs::read_to_string(scratch.path(&file)).unwrap().starts_with("<svg"), "{file}");
        }
        (fs::read_to_string(scratch.path(name).join("RESULTS.md")).unwrap(), json)
    };
    let first = with("first");
    assert!(first.0.contains("tcplab papers JE5/6 --out"), "{}", first.0);
    assert!(first == with("second"));
}

#[test]
fn results_that_cannot_be_written_are_told() {
    let said = run(&["papers", "JE5", "--json", "/dev/full"]).failed(6);
    assert!(said.contains("cannot write /dev/full"), "{said}");
}

#[test]
fn the_list_has_a_line_for_each() {
    let said = run(&["papers", "--list"]).done();
    assert!(said.contains("\nVE5/7       a megabyte over 200 KB/s, 50 ms and 10 buffers"), "{said}");
    let widest = said.lines().map(|line| line.chars().count()).max().unwrap();
    assert!((60..=100).contains(&widest), "{widest} columns: {said}");
}

#[test]
fn settings_are_changed_by_their_keys_and_what_each_explains_is_told() {
    let slower = ["papers", "VE5", "--set", "link.bottleneck.there.rate=100KB/s"];
    let said = run(&slower).done();
    assert!(said.contains("with link.bottleneck.there.rate=100KB/s"), "{said}");
    let usual = run(&["papers", "VE5"]).done();
    assert_ne!(said.lines().nth(1), usual.lines().nth(1), "Reno's throughput");
    let rates = "link.bottleneck.there.rate=100KB/s 200KB/s";
    let said = run(&["papers", "VE5", "--sweep", rates, "--sweep", "seed=1 2"]).done();
    let reno = said.lines().find(|line| line.starts_with("| Reno's throughput |")).expect("a row");
    // The seed decides nothing here: nothing is random.
    assert!(reno.contains("| 100 % | 0 % | 0 % |"), "{reno}");
}

#[test]
fn changes_that_change_nothing_are_refused_with_what_would() {
    let said = run(&["papers", "VE5", "--set", "link.left.there.delay=30ms"]).failed(1);
    assert!(said.contains("`left` is none of bottleneck, "), "{said}");
    let said = run(&["papers", "VE5", "--set", "delay"]).failed(2);
    assert!(said.contains("write KEY=VALUE"), "{said}");
    let said = run(&["papers", "VE5", "--set", "seed=1", "--sweep", "seed=1 2"]).failed(2);
    assert!(said.contains("--sweep"), "{said}");
}

#[test]
fn papers_try_what_is_left_open_and_write_it() {
    let scratch = Scratch::new();
    let out = scratch.text("papers");
    run(&["papers", "VE11", "--sweeps", "--out", &out]).done();
    let page = fs::read_to_string(scratch.path("papers/SWEEPS.md")).unwrap();
    assert!(
        page.contains("All 10 combinations of `tcp.acks`: every-second:0s, every-second:200ms; "),
        "{page}"
    );
    let values = fs::read_to_string(scratch.path("papers/sweeps/VE11.csv")).unwrap();
    let lines: Vec<&str> = values.lines().collect();
    assert!(
        lines[0].starts_with("tcp.acks,link.bottleneck.there.delay,packets that Vegas loses,"),
        "{values}"
    );
    assert_eq!(lines.len(), 11, "{values}");
    assert!(lines[1].starts_with("every-second:0s,40ms,"), "{values}");

    let said = run(&["papers", "VE11", "--sweeps"]).failed(2);
    assert!(said.contains("--out"), "{said}");
    let said = run(&["papers", "J11", "--sweeps", "--out", &out]).failed(2);
    assert!(
        said.contains("nothing is left open that could be tried for J11") && said.contains("--sweep"),
        "{said}"
    );
    let said = run(&["papers", "VE11", "--sweeps", "--out", "/proc/none"]).failed(6);
    assert!(said.contains("/proc/none"), "{said}");
}
