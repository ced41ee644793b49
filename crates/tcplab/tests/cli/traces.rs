//! `tcplab explain` and `tcplab convert`, on the trace of a simulated transfer and on files that are not
//! traces.

use std::fs;

use serde_json::Value;

use crate::{Scratch, repository, run, tcpdump};

/// The trace of figure 6's transfer, in a separate folder.
fn traced() -> (Scratch, String) {
    let scratch = Scratch::new();
    let scenario = repository("examples/scenarios/fig6.toml");
    let trace = scratch.text("fig6.trace");
    run(&["run", scenario.to_str().unwrap(), "--trace", &trace]).done();
    (scratch, trace)
}

/// The entries of a trace as JSON, with the lines before them that describe its sources.
fn lines(trace: &str) -> Vec<Value> {
    let said = run(&["convert", trace, "--to", "jsonl"]).done();
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The connections that `--json` lists.
fn accounts(trace: &str) -> Vec<Value> {
    let answer: Value = serde_json::from_str(&run(&["explain", trace, "--json"]).done()).unwrap();
    assert_eq!(answer["schema"], 1);
    answer["connections"].as_array().unwrap().clone()
}

#[test]
fn a_retransmission_is_explained_by_the_rule_that_declared_its_loss() {
    let (_scratch, trace) = traced();
    let lines = lines(&trace);
    let sender = lines.iter().find(|line| line["is"]["host"] == "a2").unwrap()["source"].clone();
    let again = lines
        .iter()
        .find(|line| line["source"] == sender && line["entry"] == "sent" && line["what"] == "retransmission")
        .expect("ten buffers are too few for Reno");
    let seq = again["seq"].to_string();
    let number = sender.to_string();
    let said = run(&["explain", &trace, "--connection", &number, "--byte", &seq]).done();
    assert!(said.contains("sent: new data"), "{said}");
    let (lost, sent) =
        (said.find("declared lost: ").unwrap(), said.find("a retransmission of what").unwrap());
    assert!(lost < sent && said.trim_end().ends_with("after it was sent last."), "{said}");
}

#[test]
fn one_connection_is_converted_without_the_others() {
    let (_scratch, trace) = traced();
    let list = accounts(&trace);
    let number = list.iter().position(|one| one["source"]["host"] == "a2").expect("the transfer");
    let said = run(&["convert", &trace, "--to", "jsonl", "--connection", &number.to_string()]).done();
    let kept: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let hosts: Vec<_> = kept.iter().filter_map(|line| line["is"]["host"].as_str()).collect();
    assert_eq!(hosts, ["a2"]);
    assert!(kept.iter().filter(|line| line["entry"] == "sent").count() > 700);
    let page = run(&["convert", &trace, "--to", "html"]).done();
    assert!(page.contains("<h2 id=\"s0\">Connections</h2>") && page.contains("<div class=\"listing\">"));
    assert!(page.matches("<td class=\"n\">").count() >= 6 * list.len());
    let failed = run(&["convert", &trace, "--to", "csv", "--connection", "1000"]).failed(2);
    assert!(failed.contains("there is no connection 1000 in the trace; there are 0: "), "{failed}");
}

#[test]
fn time_is_accounted_for_to_the_last_hundredth() {
    let (_scratch, trace) = traced();
    let accounts = accounts(&trace);
    assert!(accounts.len() > 10);
    for one in &accounts {
        let account = &one["account"];
        let waits: f64 =
            account["waiting"].as_object().unwrap().values().map(|time| time.as_f64().unwrap()).sum();
        let duration = account["duration"].as_f64().unwrap();
        assert!((waits - duration).abs() <= duration * 1e-6 + 1e-9, "{one}");
    }
    let said = run(&["explain", &trace]).done();
    assert!(
        said.contains("(profile reno-1990, controller reno)") && said.contains(" % of the time ("),
        "{said}"
    );
}

/// A long transfer with losses in bursts. Each kind of fact is in its account, as a sentence and as JSON.
#[test]
fn sentences_and_json_tell_the_same_facts() {
    let scratch = Scratch::new();
    let scenario = repository("examples/scenarios/satellite.toml");
    let trace = scratch.text("satellite.trace");
    run(&["run", scenario.to_str().unwrap(), "--trace", &trace]).done();
    let said = run(&["explain", &trace, "--connection", "0"]).done();
    let list = accounts(&trace);
    let account = &list[0]["account"];

    let (theory, acks) = (&account["theory"], &account["acks"]["of_sent"]);
    let ratio = theory["ratio"].as_f64().expect("CUBIC has a theory");
    assert!((0.5..=1.5).contains(&ratio), "{theory}");
    let counts = format!("In theory {} reductions in {} segments", theory["reductions"], theory["segments"]);
    let covered = format!("covered {:.1} segments on average", acks["mean"].as_f64().unwrap());
    let repeated = format!("{} repeated what had arrived", account["tail_probes"]["needless"]);
    for expected in [counts, covered, repeated, format!("{ratio:.2} times the first")] {
        assert!(said.contains(&expected), "no {expected} in {said}");
    }
    let held = account["held_losses"]["count"].as_u64().unwrap();
    assert_eq!(said.contains("losses that timers found"), held > 0, "{held}");
    let probes = account["tail_probes"]["silences"].as_array().unwrap();
    let silent: f64 = probes.iter().map(|probe| probe["silence"].as_f64().unwrap()).sum();
    assert!((account["waiting"]["tail-probe"].as_f64().unwrap_or(0.0) - silent).abs() < 1e-6, "{account}");

    let nothing = |line: &&str| line.trim_start().starts_with("0.0 %") || line.contains(" 0.0 %");
    assert_eq!(run(&["explain", &trace]).done().lines().find(nothing), None);
}

/// A file and a seed always give the same bytes, so a reader sees what the documents show.
#[test]
fn documents_show_what_explain_says() {
    let scratch = Scratch::new();
    let trace = |name: &str| {
        let scenario = repository(&format!("examples/scenarios/{name}.toml"));
        let trace = scratch.text(&format!("{name}.trace"));
        run(&["run", scenario.to_str().unwrap(), "--trace", &trace]).done();
        trace
    };
    let document = |path: &str| std::fs::read_to_string(repository(path)).unwrap();
    let said = run(&["explain", &trace("satellite"), "--connection", "0"]).done();
    assert!(document("docs/tcplab.md").contains(said.trim_end()), "docs/tcplab.md has not {said}");

    let readme = document("README.md");
    let bloat = trace("bufferbloat");
    let said = run(&["explain", &bloat, "--connection", "0"]).done();
    let (_, part) = readme.split_once("\n## See why\n").unwrap();
    let (_, shown) = part.split_once("```text\n").unwrap();
    let shown: Vec<_> = shown.split_once("\n```").unwrap().0.lines().collect();
    assert_eq!(shown.len(), 2);
    assert!(shown.iter().all(|line| said.contains(line)), "{shown:?} are not in {said}");
    let (byte, count) = part.split_once(" --byte ").unwrap().1.split_once("  # lost ").unwrap();
    assert!(count.starts_with("twice"), "{count}");
    let said = run(&["explain", &bloat, "--connection", "0", "--byte", byte]).done();
    assert_eq!(said.matches(" declared lost: ").count(), 2, "{said}");
}

#[test]
fn a_capture_made_of_a_trace_opens_elsewhere() {
    let (scratch, trace) = traced();
    run(&["convert", &trace, "--to", "pcapng", "-o", &scratch.text("fig6.pcapng")]).done();
    let Some(listed) = tcpdump(&scratch.text("fig6.pcapng"), "tcp[tcpflags] & tcp-syn != 0") else { return };
    let syns = listed.lines().count();
    let sent =
        lines(&trace).iter().filter(|line| line["flags"].as_str().is_some_and(|f| f.contains("SYN"))).count();
    assert_eq!(syns, sent);
}

#[test]
fn a_trace_in_place_of_a_scenario_is_told_what_reads_it() {
    let (_scratch, trace) = traced();
    let said = run(&["run", &trace]).failed(2);
    assert!(said.contains("is not text, as a scenario in TOML is; `tcplab explain`"), "{said}");
}

#[test]
fn csv_goes_to_stdout_or_into_a_file_alike() {
    let (scratch, trace) = traced();
    let said = run(&["convert", &trace, "--to", "csv"]).done();
    run(&["convert", &trace, "--to", "csv", "-o", &scratch.text("fig6.csv")]).done();
    assert_eq!(fs::read_to_string(scratch.path("fig6.csv")).unwrap(), said);
    assert!(said.starts_with("time,source,entry,"));
}

#[test]
fn graphs_are_pictures_in_a_folder_or_one_page() {
    let (scratch, trace) = traced();
    let said = run(&["convert", &trace, "--to", "svg"]).failed(2);
    assert!(said.contains("name a folder"), "{said}");
    run(&["convert", &trace, "--to", "svg", "-o", &scratch.text("pictures")]).done();
    let names: Vec<String> = fs::read_dir(scratch.path("pictures"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for graph in ["windows", "sequence", "rtt", "rtt-by-window"] {
        assert!(names.iter().any(|name| name.ends_with(&format!("-{graph}.svg"))), "{names:?}");
    }
    let page = run(&["convert", &trace, "--to", "html"]).done();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<h1>Trace fig6.trace</h1>"));
    assert!(page.contains("<h3>Windows: "));
}

#[test]
fn a_trace_that_is_cut_off_is_used_as_far_as_it_goes() {
    let (scratch, trace) = traced();
    let bytes = fs::read(&trace).unwrap();
    fs::write(scratch.path("cut.trace"), &bytes[..bytes.len() / 2]).unwrap();
    let ended = run(&["explain", &scratch.text("cut.trace")]);
    assert!(
        ended.err.contains("broken at byte") && ended.err.contains("the part before that is used"),
        "{}",
        ended.err
    );
    ended.done();
}

#[test]
fn what_is_no_trace_or_not_in_it_is_said() {
    let (scratch, trace) = traced();
    fs::write(scratch.path("other"), b"not a trace").unwrap();
    let said = run(&["explain", &scratch.text("other")]).failed(2);
    assert!(said.contains("not a trace file") && said.contains("--trace"), "{said}");
    let said = run(&["explain", &scratch.text("nowhere")]).failed(6);
    assert!(said.contains("check the name"), "{said}");
    let said = run(&["explain", &trace, "--connection", "999999"]).failed(2);
    assert!(said.contains("there is no connection 999999"), "{said}");
    let said = run(&["explain", &trace, "--byte", "4000000000"]).failed(2);
    assert!(said.contains("no segment with byte 4000000000"), "{said}");
}

/// The trace of figure 6 has more connections with data than are drawn by default.
#[test]
fn pictures_have_the_numbers_of_the_list_and_only_the_worst_are_made_unasked() {
    let (scratch, trace) = traced();
    let accounts = accounts(&trace);
    let with_data = accounts.iter().filter(|one| one["account"]["bytes_sent"].as_u64() > Some(0)).count();
    assert!(with_data > 10, "{with_data}");
    let numbers = |folder: &str| -> Vec<usize> {
        let names = fs::read_dir(scratch.path(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap());
        let mut numbers: Vec<usize> =
            names.filter_map(|name| name.strip_suffix("-windows.svg")?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    };
    let ended = run(&["convert", &trace, "--to", "svg", "-o", &scratch.text("unasked")]);
    assert!(ended.err.contains("--all makes those of all"), "{}", ended.err);
    // The message counts those that lost any time.
    let lost = accounts.iter().filter(|one| {
        let time = &one["account"]["waiting"];
        ["timeout", "tail-probe", "recovery"].iter().any(|kind| time[kind].as_f64() > Some(0.0))
    });
    let expected = match lost.count() {
        0 => "the 10 that sent most (none lost time)".to_owned(),
        lost @ 1..10 => format!("the {lost} that lost time and the {} others that sent most", 10 - lost),
        _ => "the 10 that lost most time".to_owned(),
    };
    assert!(ended.err.contains(&expected), "{expected}: {}", ended.err);
    ended.done();
    run(&["convert", &trace, "--to", "svg", "--all", "-o", &scratch.text("all")]).done();
    assert_eq!((numbers("unasked").len(), numbers("all").len()), (10, with_data));
    let two = numbers("all")[..2].to_vec();
    let wanted = format!("{},{}", two[0], two[1]);
    run(&["convert", &trace, "--to", "svg", "--connection", &wanted, "-o", &scratch.text("two")]).done();
    assert_eq!(numbers("two"), two);
    let page = run(&["convert", &trace, "--to", "html", "--connection", &wanted]).done();
    let heading = format!("<h2 id=\"connection-{0}\">Connection {0}: ", two[1]);
    assert!(page.contains(&heading) && page.matches("<h3>Windows: ").count() == 2);
}

/// The stack's trace and the packets of one transfer agree in bytes, retransmissions and timeouts.
#[test]
fn a_capture_is_explained_as_the_trace_of_the_same_transfer() {
    let scratch = Scratch::new();
    let scenario = repository("examples/scenarios/fig6.toml");
    let (trace, pcap) = (scratch.text("fig6.trace"), scratch.text("fig6.pcapng"));
    run(&["run", scenario.to_str().unwrap(), "--trace", &trace, "--pcap", &pcap]).done();
    let transfer = |all: Vec<Value>| {
        let megabyte = all.into_iter().find(|one| one["account"]["bytes_sent"] == 1_000_000).unwrap();
        let account = megabyte["account"].clone();
        (megabyte["connection"].to_string(), account)
    };
    let (_, traced) = transfer(accounts(&trace));
    let (number, captured) = transfer(accounts(&pcap));
    for key in ["bytes_sent_again", "timeouts"] {
        let count =
            |account: &Value| account[key].as_array().map_or(account[key].clone(), |all| all.len().into());
        assert_eq!(count(&captured), count(&traced), "{key}: {captured} {traced}");
    }
    let said = run(&["explain", &pcap, "--connection", &number]).done();
    assert!(said.contains("was captured for") && said.contains("What was sent again is taken for"), "{said}");
    run(&["convert", &pcap, "--to", "svg", "--connection", &number, "-o", &scratch.text("graphs")]).done();
    let names: Vec<_> =
        fs::read_dir(scratch.path("graphs")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    for graph in ["windows", "sequence", "rtt"] {
        assert!(names.iter().any(|name| *name == *format!("{number}-{graph}.svg")), "{names:?}");
    }
}
