//! `tcplab run`, with the example scenarios.

use std::fs;
use std::process::Stdio;

use ackclock_core::trace::Entry;
use ackclock_trace::file::Trace;
use serde_json::Value;

use crate::{Scratch, ended, repository, run, tcpdump, tcplab};

/// Runs an example and returns its report.
fn example(name: &str) -> Value {
    let scratch = Scratch::new();
    let scenario = repository(&format!("examples/scenarios/{name}.toml"));
    let said = run(&["run", scenario.to_str().unwrap(), "--json", &scratch.text("report.json")]).done();
    assert!(said.contains("goodput") && said.contains("queueing delay"), "{said}");
    let report: Value = serde_json::from_slice(&fs::read(scratch.path("report.json")).unwrap()).unwrap();
    assert_eq!(report["schema"], 1);
    report
}

/// An element of the list `key` by its name.
fn named<'a>(report: &'a Value, key: &str, name: &str) -> &'a Value {
    report[key].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn fig6_moves_its_megabyte_beside_conversations() {
    let report = example("fig6");
    let transfer = named(&report, "flows", "transfer");
    assert_eq!(transfer["there"]["bytes"], 1_000_000);
    assert!(number(&transfer["completed"]) > 5.0);
    assert!(number(&named(&report, "flows", "background")["connections"]) > 10.0);
}

#[test]
fn bufferbloat_makes_answers_slow() {
    let report = example("bufferbloat");
    // A megabyte takes four seconds at 2 Mbit/s.
    assert!(number(&named(&report, "links", "uplink:there")["queue_delay"]["max"]) > 2.0);
    assert!(number(&named(&report, "flows", "requests")["latency"]["p99"]) > 1.0);
}

#[test]
fn a_policer_takes_all_losses() {
    let report = example("policer");
    let link = named(&report, "links", "access:there");
    assert_eq!(link["drops"].as_array().unwrap().len(), 1);
    assert_eq!(link["drops"][0][0], "policer");
    assert!(number(&link["sent_bytes"]) * 8.0 / 60.0 < 5.2e6);
}

/// Nothing is lost, so whatever is sent again is a tail loss probe in vain.
#[test]
fn late_packets_on_a_short_path_draw_no_probes() {
    let report = example("tails");
    let web = named(&report, "flows", "web");
    assert_eq!((&web["back"]["retransmits"], &web["latency"]["count"]), (&0.into(), &1000.into()));
    // RFC 8985 waits for two round trips, and would probe in vain: answers take many times the path's 0.1 ms.
    assert!(number(&web["latency"]["mean"]) > 0.001);
}

#[test]
fn asymmetric_acknowledgements_wait_behind_the_upload() {
    let report = example("asymmetric");
    assert!(number(&named(&report, "flows", "download")["there"]["rtt"]["max"]) > 0.1);
    assert!(number(&named(&report, "links", "cable:there")["utilisation"]) > 0.6);
}

#[test]
fn the_satellite_delivers_all_in_spite_of_bursts() {
    let report = example("satellite");
    assert_eq!(named(&report, "flows", "report")["there"]["bytes"], 40_000_000);
    let drops = named(&report, "links", "satellite:there")["drops"].to_string();
    assert!(drops.contains("burst-loss"), "{drops}");
}

#[test]
fn tcplib_conversations_go_both_ways_and_end() {
    let report = example("tcplib");
    for name in ["there", "back"] {
        let flow = named(&report, "flows", name);
        assert!(number(&flow["connections"]) > 50.0, "{flow}");
        assert!(number(&flow["latency"]["count"]) > 100.0, "{flow}");
    }
}

#[test]
fn a_blackout_is_survived() {
    let report = example("blackout");
    let download = named(&report, "flows", "download");
    assert_eq!(download["failed"], 0);
    assert!(number(&download["there"]["timeouts"]) > 0.0);
    assert!(number(&download["last_byte"]) > 59.0);
}

/// The model's outages last half a second on average, and the queue waits for their end.
#[test]
fn a_phone_on_the_move_waits_for_its_cell() {
    let report = example("lte");
    let link = named(&report, "links", "radio:there");
    // CoDel's drops cost CUBIC some of it.
    assert!((0.6..=0.95).contains(&number(&link["utilisation"])), "{link}");
    assert!(number(&link["queue_delay"]["median"]) < 0.02, "{link}");
    assert!(number(&link["queue_delay"]["max"]) > 0.25, "{link}");
    assert!(number(&named(&report, "flows", "requests")["latency"]["p99"]) > 0.2);
}

#[test]
fn a_model_is_printed_and_followed_from_its_file() {
    let scratch = Scratch::new();
    let listed = run(&["model"]).done();
    assert!(listed.contains("not measurements") && listed.contains("\nstarlink  "), "{listed}");
    let text = run(&["model", "docsis"]).done();
    assert!(text.starts_with("# model:docsis, a model and not a measurement, of seed 0:"), "{text}");
    run(&["model", "docsis", "--output", &scratch.text("docsis.trace")]).done();
    assert_eq!(fs::read_to_string(scratch.path("docsis.trace")).unwrap(), text);
    assert_ne!(run(&["model", "docsis", "--seed", "1"]).done(), text);
    // The path is relative to the scenario's file.
    let scenario = fs::read_to_string(repository("examples/scenarios/lte.toml")).unwrap();
    let scenario = scenario.replace("model:lte", "docsis.trace");
    fs::write(scratch.path("cable.toml"), &scenario).unwrap();
    let said = run(&["run", &scratch.text("cable.toml")]).done();
    assert!(said.contains("radio:there"), "{said}");
    fs::write(scratch.path("docsis.trace"), "1\n2\nx\n").unwrap();
    let refused = run(&["run", &scratch.text("cable.toml")]);
    let wanted = "cable.toml:17: link[0].there.trace: `docsis.trace`, line 3: found `x`; allowed is a time";
    assert!(refused.failed(2).contains(wanted));
    assert!(run(&["model", "docis"]).failed(2).contains("the nearest is docsis"));
}

/// `tests/theory/beside.rs` has the shares of both at other queues.
#[test]
fn vegas_starves_beside_cubic_at_a_long_queue() {
    let report = example("vegas-beside");
    let rate = |name| number(&named(&report, "flows", name)["goodput_bytes_per_second"]) * 8e-6;
    let (vegas, neighbour) = (rate("vegas"), rate("neighbour"));
    assert!(vegas < 1.0 && (17.5..20.0).contains(&(vegas + neighbour)), "{vegas} {neighbour}");
}

/// RFC 9332 §2.1: about the same rate, and less than a millisecond in the L queue. The classic queue's target
/// is 15 ms, below which the sawteeth of one flow reach.
#[test]
fn l4s_traffic_waits_in_a_queue_of_its_own() {
    let report = example("l4s");
    let rate = |name| number(&named(&report, "flows", name)["goodput_bytes_per_second"]) * 8e-6;
    let (prague, cubic) = (rate("prague"), rate("cubic"));
    assert!((0.5..2.0).contains(&(prague / cubic)), "{prague} {cubic}");
    assert!((35.0..40.0).contains(&(prague + cubic)), "{prague} {cubic}");
    let link = named(&report, "links", "bottleneck:there");
    let lanes = link["lanes"].as_array().unwrap();
    assert_eq!((&lanes[0]["name"], &lanes[1]["name"], lanes.len()), (&"L".into(), &"C".into(), 2));
    for key in ["sent", "marked"] {
        assert_eq!(number(&lanes[0][key]) + number(&lanes[1][key]), number(&link[key]), "{link}");
    }
    let delay = |lane: usize, what: &str| number(&lanes[lane]["queue_delay"][what]) * 1e3;
    assert!(delay(0, "mean") < 1.0 && delay(0, "p99") < 3.0, "{link}");
    assert!((8.0..20.0).contains(&delay(1, "mean")) && delay(1, "p99") > 15.0, "{link}");
    // Other queues have no parts.
    assert!(named(&report, "links", "bottleneck:back")["lanes"].is_null());
    let scenario = repository("examples/scenarios/l4s.toml");
    let table = run(&["run", scenario.to_str().unwrap()]).done();
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).expect(name).to_owned();
    let sent = |lane: usize| format!(" {} ", lanes[lane]["sent"]);
    assert!(row("bottleneck:there, L queue").contains(&sent(0)), "{table}");
    assert!(row("bottleneck:there, C queue").contains(&sent(1)), "{table}");
}

#[test]
fn every_example_is_run_by_a_test() {
    let mut names: Vec<String> = fs::read_dir(repository("examples/scenarios"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let here = include_str!("scenarios.rs");
    for name in &names {
        let stem = name.strip_suffix(".toml").unwrap();
        assert!(here.contains(&format!("example(\"{stem}\")")), "{name} has no test");
    }
    assert_eq!(names.len(), 11);
}

#[test]
fn seeds_decide_and_the_same_seed_repeats() {
    let scratch = Scratch::new();
    let scenario = repository("examples/scenarios/tcplib.toml");
    let with = |seed: &str, file: &str| {
        let pcap = scratch.text(file);
        run(&["run", scenario.to_str().unwrap(), "--seed", seed, "--pcap", &pcap]).done();
        fs::read(pcap).unwrap()
    };
    let (first, again, other) = (with("5", "1"), with("5", "2"), with("6", "3"));
    assert!(first == again && first != other);
    assert_eq!(first[..4], [0x0A, 0x0D, 0x0D, 0x0A], "the block type of a section header");
    assert_eq!(scratch.names(), ["1", "2", "3"]);
}

#[test]
fn a_capture_of_several_hosts_opens_in_tcpdump() {
    let scratch = Scratch::new();
    let text = fs::read_to_string(repository("examples/scenarios/policer.toml")).unwrap();
    fs::write(scratch.path("v4.toml"), &text).unwrap();
    fs::write(scratch.path("v6.toml"), format!("ipv6 = true\n{text}")).unwrap();
    for version in ["v4", "v6"] {
        let (scenario, file) = (scratch.text(&format!("{version}.toml")), scratch.text(version));
        run(&["run", &scenario, "--pcap", &file]).done();
        let kinds = block_kinds(&fs::read(&file).unwrap());
        let count = |kind: u32| kinds.iter().filter(|one| **one == kind).count();
        // Interfaces, and packets.
        assert_eq!(count(1), 2, "each of the two hosts has one");
        assert!(count(6) > 1000);
        let Some(listed) = tcpdump(&file, "tcp") else { return };
        assert_eq!(listed.lines().count(), count(6), "{version}");
    }
}

/// The types of a pcapng file's blocks.
fn block_kinds(file: &[u8]) -> Vec<u32> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut kinds, mut at) = (Vec::new(), 0);
    while at < file.len() {
        kinds.push(word(at));
        at += word(at + 4) as usize;
    }
    kinds
}

#[test]
fn series_have_a_line_for_each_sample_and_a_name_for_each_column() {
    let scratch = Scratch::new();
    let scenario = repository("examples/scenarios/blackout.toml");
    run(&["run", scenario.to_str().unwrap(), "--series", &scratch.text("s.csv")]).done();
    let text = fs::read_to_string(scratch.path("s.csv")).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0][..2], ["seconds", "radio:there queue_packets"]);
    assert_eq!(rows[0].last(), Some(&"download in_flight"));
    assert_eq!(rows.len(), 1001);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    // Nothing is delivered in the tunnel, and afterwards again.
    let column = rows[0].iter().position(|name| *name == "download bytes").unwrap();
    let delivered = |at: f64| {
        let row = rows[1..].iter().find(|row| row[0].parse::<f64>().unwrap() >= at).unwrap();
        row[column].parse::<u64>().unwrap()
    };
    assert_eq!(delivered(21.0), delivered(24.9));
    assert!(delivered(59.0) > delivered(30.0) && delivered(19.0) > delivered(10.0));
}

#[test]
fn a_page_has_the_tables_and_the_graphs() {
    let scratch = Scratch::new();
    let scenario = repository("examples/scenarios/bufferbloat.toml");
    run(&["run", scenario.to_str().unwrap(), "--html", &scratch.text("run.html")]).done();
    let html = fs::read_to_string(scratch.path("run.html")).unwrap();
    for wanted in [
        "<h1>bufferbloat</h1>",
        "uplink:there",
        "congestion window (KB)",
        "packets that wait",
        "60 s with seed 1",
    ] {
        assert!(html.contains(wanted), "{wanted}");
    }
    assert!(!html.contains("examples/scenarios"), "the title is the scenario's, not a path");
    let place = |what: &str| html.find(what).expect(what);
    assert!(place("<h3>Flows") < place(">uplink:there<"), "the first graph comes before the table of links");
}

/// One flow shares with no other, so it has no fairness.
#[test]
fn jains_index_is_that_of_several_flows() {
    let of = |name: &str| {
        let scenario = repository(&format!("examples/scenarios/{name}.toml"));
        run(&["run", scenario.to_str().unwrap()]).done().contains("Jain's index")
    };
    assert!(of("l4s") && !of("policer"));
}

#[test]
fn a_trace_holds_both_ends_and_the_queues() {
    let scratch = Scratch::new();
    let scenario = repository("examples/scenarios/policer.toml");
    run(&["run", scenario.to_str().unwrap(), "--trace", &scratch.text("trace")]).done();
    let trace = Trace::read(&fs::read(scratch.path("trace")).unwrap()).unwrap();
    let names: Vec<String> = trace.connections().map(|one| one.source.to_string()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("customer: ")), "{names:?}");
    let policed = trace.queues().find(|one| one.source.to_string() == "queue access:there").unwrap();
    let drops = policed.entries.iter().filter_map(|(_, entry)| match entry {
        Entry::Dropped { rule, .. } => Some(policed.source.name(*rule)),
        _ => None,
    });
    let drops: Vec<&str> = drops.collect();
    assert!(drops.len() > 100 && drops.iter().all(|rule| *rule == "policer"), "{drops:?}");
}

#[test]
fn what_is_wrong_in_a_scenario_is_named_with_line_and_key() {
    let scratch = Scratch::new();
    let text = fs::read_to_string(repository("examples/scenarios/policer.toml")).unwrap();
    let line = text.lines().position(|line| line.contains("1Gbit/s")).unwrap() + 1;
    fs::write(scratch.path("bad.toml"), text.replace("1Gbit/s", "1Gbaud")).unwrap();
    let bad = scratch.text("bad.toml");
    let said = run(&["run", &bad]).failed(2);
    assert!(said.contains(&format!("bad.toml:{line}: link[0].there.rate: found `1Gbaud`")), "{said}");
    let said = run(&["run", &scratch.text("none.toml")]).failed(6);
    assert!(said.contains("none.toml") && said.contains("check the name"), "{said}");
    let said = run(&["run", &bad, "--sed", "1"]).failed(2);
    assert!(said.contains("--seed"), "{said}");
}

#[test]
fn a_full_disk_is_told_and_a_reader_that_leaves_is_not() {
    let scenario = repository("examples/scenarios/policer.toml");
    let scenario = scenario.to_str().unwrap();
    for option in ["--json", "--pcap", "--series", "--trace", "--html"] {
        let said = run(&["run", scenario, option, "/dev/full"]).failed(6);
        assert!(said.contains("cannot write /dev/full") && said.contains("free space"), "{option}: {said}");
    }
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let said = ended(tcplab(&["run", scenario]).stdout(full).output().unwrap()).failed(6);
    assert!(said.contains("cannot write stdout"), "{said}");
    let mut child = tcplab(&["run", scenario]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_scenario_comes_from_stdin_and_its_results_go_to_stdout() {
    let scenario = fs::File::open(repository("examples/scenarios/fig6.toml")).unwrap();
    let said = ended(tcplab(&["run", "-", "--json", "-"]).stdin(scenario).output().unwrap()).done();
    let report: Value = serde_json::from_str(&said).expect("nothing but JSON");
    assert_eq!(report, example("fig6"));
    let broken = ended(tcplab(&["run", "-"]).stdin(Stdio::null()).output().unwrap()).failed(2);
    assert!(broken.contains("stdin"), "{broken}");
}

#[test]
fn a_file_is_not_written_over_by_another_output_or_by_its_own_results() {
    let scratch = Scratch::new();
    let scenario = scratch.text("fig6.toml");
    let text = fs::read_to_string(repository("examples/scenarios/fig6.toml")).unwrap();
    fs::write(&scenario, &text).unwrap();
    let said = run(&["run", &scenario, "--json", &scenario]).failed(2);
    assert!(said.contains("--json would overwrite") && said.contains("which is read"), "{said}");
    let (one, same) = (scratch.text("out"), scratch.text("./out"));
    let said = run(&["run", &scenario, "--json", &one, "--html", &same]).failed(2);
    assert!(said.contains("--json and --html would both write"), "{said}");
    let said = run(&["run", &scenario, "--json", "-", "--series", "-"]).failed(2);
    assert!(said.contains("--json and --series would both write"), "{said}");
    assert_eq!(
        (scratch.names(), fs::read_to_string(&scenario).unwrap()),
        (vec!["fig6.toml".to_owned()], text)
    );
}
