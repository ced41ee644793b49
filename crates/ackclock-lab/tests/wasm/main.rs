//! Each scene gives the same packets natively and as WebAssembly, and the same answers. It
//! needs node, and the parts that scripts/lab.sh makes (feature `bundle`).

use std::path::{Path, PathBuf};
use std::process::Command;

use ackclock_lab::Lab;
use serde_json::{Value, json};

/// Where scripts/lab.sh puts its parts: beside the folder of the build that runs this.
fn parts() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let target = program.ancestors().nth(3).unwrap();
    target.join("lab/parts")
}

/// The module's answers to these requests.
fn answers(requests: &[Value]) -> Vec<String> {
    let parts = parts();
    assert!(parts.join("lab_bg.wasm").exists(), "{} has no module; run scripts/lab.sh", parts.display());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wasm/ask.js");
    let request = Value::from(requests).to_string();
    let ran = Command::new("node").arg(script).arg(parts).arg(request).output();
    let ran = ran.expect("node runs; apt-get install nodejs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

fn scenes() -> Vec<String> {
    let catalogue: Value = serde_json::from_str(&Lab::new().answer(r#"{"ask": "catalogue"}"#)).unwrap();
    let scenes = catalogue["scenes"].as_array().unwrap();
    scenes.iter().map(|scene| scene["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_scene_has_the_same_packets_in_both() {
    let scenes = scenes();
    assert!(scenes.len() >= 12, "{scenes:?}");
    let request = |scene: &String| json!({ "ask": "hash", "setting": { "scene": scene } });
    let requests: Vec<Value> = scenes.iter().map(request).collect();
    let wasm = answers(&requests);
    for ((scene, request), wasm) in scenes.iter().zip(&requests).zip(wasm) {
        let native = Lab::new().answer(&request.to_string());
        assert!(native.starts_with(r#"{"hash":""#), "{scene}: {native}");
        assert_eq!(native, wasm, "{scene}");
    }
}

#[test]
fn answers_are_the_same_text_in_both() {
    let setting =
        json!({ "scene": "reno-loss", "queue": "red", "loss": "0.5%", "second": "bbr", "amount": "300kB" });
    let requests = [
        json!({ "ask": "catalogue" }),
        json!({ "ask": "run", "setting": setting }),
        json!({ "ask": "explain", "run": 1, "connection": 0, "byte": 1 }),
        json!({ "ask": "run", "setting": { "scene": "vegas-8" } }),
        json!({ "ask": "kit", "controller": "vegas", "situation": 2 }),
    ];
    let mut lab = Lab::new();
    let native: Vec<String> = requests.iter().map(|request| lab.answer(&request.to_string())).collect();
    for (native, wasm) in native.iter().zip(answers(&requests)) {
        let from = native.bytes().zip(wasm.bytes()).position(|(one, other)| one != other);
        let near =
            |text: &str| from.map(|at| text[at.saturating_sub(60)..].chars().take(120).collect::<String>());
        assert!(*native == wasm, "{:?}\n{:?}", near(native), near(&wasm));
    }
}
