//! The recipes in `docs/recipes`: they are YAML, and what they run, runs.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use super::{Scratch, repository};
use ackclock_tests::kernel::program::have;
use serde_json::Value;

/// A recipe as JSON, by Python's parser of YAML; `None`, with a message, without it.
fn recipe(name: &str) -> Option<Value> {
    let program = "import json, sys, yaml; print(json.dumps(yaml.load(sys.stdin, yaml.BaseLoader)))";
    let file = fs::File::open(repository(&format!("docs/recipes/{name}"))).unwrap();
    let output = Command::new("python3").args(["-c", program]).stdin(file).output().unwrap();
    if String::from_utf8_lossy(&output.stderr).contains("No module named 'yaml'") {
        println!("skipped: Python has no module `yaml`");
        return None;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// A port that was free a moment ago.
fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

#[test]
fn the_job_for_github_runs_as_it_is() {
    if !have("curl") || !have("python3") {
        return;
    }
    let Some(action) = recipe("github-action.yml") else { return };
    let steps = action["jobs"]["phone"]["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["name"] == "Test over a phone's network").unwrap();
    let mut script = step["run"].as_str().unwrap().to_owned();
    for port in ["8000", "8080", "8474"] {
        script = script.replace(port, &free_port());
    }
    let scratch = Scratch::new();
    fs::copy(repository("docs/recipes/phone.toml"), scratch.path("phone.toml")).unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_tcplab")).parent().unwrap().display();
    let output = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "bash", "-c", &script])
        .current_dir(scratch.path("."))
        .env("PATH", format!("{program}:{}", std::env::var("PATH").unwrap()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&fs::read(scratch.path("report.json")).unwrap()).unwrap();
    // The first attempts of the first client may have come before the server.
    assert!(report["connections"]["accepted"].as_u64().unwrap() >= 3, "{report}");
    assert!(report["network"]["packets_partitioned"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn the_services_of_docker_compose_fit_together() {
    let Some(compose) = recipe("docker-compose.yml") else { return };
    let services = &compose["services"];
    let command = services["network"]["command"].as_array().unwrap();
    let mut words: Vec<&str> = command.iter().map(|word| word.as_str().unwrap()).collect();
    let to = words.iter().position(|word| *word == "--to").unwrap();
    let (server, port) = words[to + 1].split_once(':').unwrap();
    assert!(services[server].is_object() && port == "80", "nginx listens there");
    let file = repository("docs/recipes/phone.toml");
    let scenario = words.iter().position(|word| *word == "/phone.toml").unwrap();
    words[scenario] = file.to_str().unwrap();
    // With other addresses, since those of the file may be taken here.
    let words: Vec<String> =
        words.iter().map(|word| word.replace(":8080", ":0").replace(":8474", ":0")).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_tcplab"))
        .args(words)
        .args(["--duration", "300ms"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("leads from phone to server, and on to server:80"), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["connections"]["accepted"], 0);
}
