//! Goal: a file that comes in pieces becomes a table, sentences, graphs and Allman and Paxson's assessments;
//! other and broken files are answered by the place and the reason.

use serde_json::Value;

use super::example::capture as lossy;
use crate::Lab;

fn ask(lab: &mut Lab, request: &str) -> Value {
    serde_json::from_str(&lab.answer(request)).unwrap()
}

/// The answer to the end of a file that comes in pieces, or the first error.
fn read(lab: &mut Lab, name: &str, bytes: &[u8]) -> Value {
    let begin = format!("{{\"ask\": \"capture-begin\", \"name\": \"{name}\", \"length\": {}}}", bytes.len());
    assert_eq!(ask(lab, &begin)["name"], name);
    for piece in bytes.chunks(10_000) {
        let progress: Value = serde_json::from_str(&lab.push(piece)).unwrap();
        if progress["error"].is_string() {
            return progress;
        }
        assert!(progress["read"].as_u64() <= progress["length"].as_u64(), "{progress}");
    }
    ask(lab, r#"{"ask": "capture-end"}"#)
}

#[test]
fn a_lossy_capture_is_explained_drawn_and_assessed() {
    let mut lab = Lab::new();
    let table = read(&mut lab, "lossy.pcapng", &lossy().unwrap());
    assert_eq!((&table["name"], &table["rows"].as_array().unwrap().len()), (&"lossy.pcapng".into(), &1));
    let head: Vec<&str> = table["head"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let column = |name: &str| head.iter().position(|head| *head == name).unwrap();
    let cell = |name: &str| table["rows"][0][column(name)].as_str().unwrap().to_owned();
    assert_eq!(cell("KB sent"), "200.0");
    assert!(cell("KB again").parse::<f64>().unwrap() > 0.5 && cell("timeouts") != "0", "{table}");

    let example = ask(&mut lab, r#"{"ask": "capture-example"}"#);
    assert_eq!((&example["rows"], &example["segments"]), (&table["rows"], &table["segments"]));
    let shown = ask(&mut lab, r#"{"ask": "capture-connection", "index": 0}"#);
    let said = shown["sentences"].to_string();
    assert!(said.contains("was captured for") && said.contains("taken for"), "{said}");
    let figures = shown["figures"].as_array().unwrap();
    let titles: Vec<&str> =
        figures.iter().filter_map(|figure| figure["data"]["title"].as_str()?.split(':').next()).collect();
    assert_eq!(titles[..3], ["Windows", "Round trips and throughput", "Sequence"], "{titles:?}");
    let sequence = figures[2]["data"]["panels"][0]["series"].as_array().unwrap();
    let again = sequence.iter().find(|one| one["name"] == "again: timeout").unwrap();
    assert!(again["note"][0].as_str().unwrap().contains("the retransmission timer ran out"), "{again}");
    let rto = &shown["assessed"]["rto"];
    let good = rto["head"].as_array().unwrap().iter().position(|head| *head == "good").unwrap();
    let rows = rto["rows"].as_array().unwrap();
    assert!(rows.len() > 40 && rows[0][good] != "0", "{rto}");
    assert!(shown["assessed"]["ssthresh"].is_object());

    // The byte of the first such retransmission.
    let byte = again["y"][0].as_f64().unwrap() * 1000.0 + 1.0;
    let history = ask(&mut lab, &format!("{{\"ask\": \"capture-byte\", \"index\": 0, \"byte\": {byte:.0}}}"));
    assert!(history["sentences"].to_string().contains("declared lost"), "{history}");
    for wrong in [
        r#"{"ask": "capture-connection", "index": 7}"#,
        r#"{"ask": "capture-byte", "index": 0, "byte": 999999999}"#,
    ] {
        assert!(ask(&mut lab, wrong)["error"].is_string(), "{wrong}");
    }
}

#[test]
fn broken_and_wrong_files_are_answered_by_place_and_reason() {
    let mut lab = Lab::new();
    let whole = lossy().unwrap();
    let cut = read(&mut lab, "cut.pcapng", &whole[..whole.len() / 2]);
    let remarks = cut["remarks"].to_string();
    assert!(remarks.contains("ends within a block that begins at byte"), "{remarks}");
    assert!(remarks.contains("where frame") && cut["rows"][0].is_array(), "{remarks}");

    for (name, bytes, why) in [
        ("notes.txt", &b"Dear diary, today nothing was captured at all."[..], "is neither pcap nor pcapng"),
        ("x.pcap.gz", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "unpack it first"),
        ("empty.pcap", b"", "is empty"),
    ] {
        let error = read(&mut lab, name, bytes)["error"].to_string();
        assert!(error.contains(name) && error.contains(why), "{name}: {error}");
        let after = ask(&mut lab, r#"{"ask": "capture-connection", "index": 0}"#);
        assert!(after["error"].is_string(), "nothing is left of the file before");
    }
    // A capture without TCP.
    let header: [u32; 6] = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 101];
    let none: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    let error = read(&mut lab, "none.pcap", &none)["error"].to_string();
    assert!(error.contains("shows no TCP connection that carried data"), "{error}");
    assert!(ask(&mut lab, r#"{"ask": "capture-end"}"#)["error"].is_string());
}
