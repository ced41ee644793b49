//! Sweeps beyond one machine: shards, what a merge refuses, and the command lines of `examples/cluster`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{Ended, Scratch, ended, repository, run};

/// Eight short runs, at two rates.
const GRID: [&str; 9] =
    ["compare", "--cc", "reno,vegas", "--rate", "1Mbit/s,4Mbit/s", "--duration", "3s", "--seeds", "2"];

fn compare(more: &[&str]) -> Ended {
    run(&[&GRID, more].concat())
}

/// Runs these shards of the grid, each into its own folder, and returns the folders.
fn shards(scratch: &Scratch, names: &[&str]) -> Vec<String> {
    let one = |name: &&str| {
        let out = scratch.text(&format!("shard-{}", name.replace('/', "-of-")));
        let ended = compare(&["--shard", name, "--out", &out]);
        assert!(
            ended.err.contains(&format!("shard {name}: ")) && ended.err.contains("of 8 runs"),
            "{}",
            ended.err
        );
        assert_eq!(ended.done(), "");
        out
    };
    names.iter().map(one).collect()
}

fn merge(folders: &[String], more: &[&str]) -> Ended {
    let folders: Vec<&str> = folders.iter().map(String::as_str).collect();
    run(&[&["compare", "--merge"], &folders[..], more].concat())
}

/// All files below a folder, with their bytes.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
        } else {
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn merged_shards_are_one_run_byte_for_byte() {
    let scratch = Scratch::new();
    let (all, json) = (scratch.text("all"), scratch.text("all.json"));
    let table = compare(&["--jobs", "1", "--out", &all, "--json", &json]).done();
    let mut folders = shards(&scratch, &["3/3", "1/3", "2/3"]);
    let runs = |folder: &String| fs::read_to_string(format!("{folder}/cells.jsonl")).unwrap().lines().count();
    assert_eq!(folders.iter().map(runs).collect::<Vec<_>>(), [3, 2, 3]);
    for name in ["merged", "merged-in-another-order"] {
        folders.rotate_left(1);
        let (out, merged_json) = (scratch.text(name), scratch.text(&format!("{name}.json")));
        let merged = merge(&folders, &["--out", &out, "--json", &merged_json]);
        assert!(merged.err.contains("8 runs of 3 shards"), "{}", merged.err);
        assert_eq!(merged.done(), table);
        assert_eq!(fs::read(merged_json).unwrap(), fs::read(&json).unwrap());
        let (merged, one) = (files(Path::new(&out)), files(Path::new(&all)));
        assert!(one.contains_key("report.html") && one.contains_key("cells.jsonl"), "{:?}", one.keys());
        assert!(one.keys().any(|name| name.starts_with("pictures/")), "{:?}", one.keys());
        assert_eq!(merged.keys().collect::<Vec<_>>(), one.keys().collect::<Vec<_>>());
        assert!(merged == one);
    }
}

#[test]
fn what_is_missing_is_named_and_its_command_goes_on() {
    let scratch = Scratch::new();
    let out = scratch.text("merged");
    let folders = shards(&scratch, &["1/4", "3/4"]);
    let said = merge(&folders, &["--out", &out]).failed(1);
    assert!(said.contains("none of the folders holds shard 2/4, 4/4"), "{said}");
    assert!(said.contains("run each of these shards again with its own command"), "{said}");

    let mut folders = [folders, shards(&scratch, &["2/4", "4/4"])].concat();
    let cells = format!("{}/cells.jsonl", folders[0]);
    let lines = fs::read_to_string(&cells).unwrap();
    let (kept, torn) = lines.split_once('\n').unwrap();
    fs::write(&cells, format!("{kept}\n{}", &torn[..torn.len() - 5])).unwrap();
    let torn: Value = serde_json::from_str(torn).unwrap();
    let name = |key: &str| torn["cell"][key].as_str().unwrap().to_owned();
    let said = merge(&folders, &["--out", &out]).failed(1);
    let wanted = format!("lacks 1 of 2 runs: {} at {}, 20ms, 1bdp, 0%, seed ", name("cc"), name("rate"));
    assert!(said.contains(&format!("shard 1/4 in {} {wanted}", folders[0])), "{said}");
    assert!(!scratch.path("merged").exists());

    shards(&scratch, &["1/4"]);
    folders.push(folders[0].clone());
    let said = merge(&folders, &["--out", &out]).failed(2);
    assert!(said.contains("shard 1/4 is both") && said.contains("name one of the two"), "{said}");
    folders.pop();
    merge(&folders, &["--out", &out]).done();
}

#[test]
fn shards_that_do_not_belong_together_are_refused() {
    let scratch = Scratch::new();
    let out = scratch.text("merged");
    let folders = shards(&scratch, &["1/2", "2/2"]);
    let refused = |other: &str, wanted: &[&str]| {
        let said = merge(&[folders[0].clone(), other.to_owned()], &["--out", &out]).failed(2);
        assert!(wanted.iter().all(|wanted| said.contains(wanted)), "{said}");
    };
    let other = scratch.text("seeds");
    let seeds = [&GRID[..7], &["--seeds", "3", "--shard", "2/2", "--out", &other]].concat();
    run(&seeds).done();
    refused(&other, &["shards of different grids: --seeds 2 and --seeds 3"]);
    let other = scratch.text("controllers");
    let controllers =
        [&["compare", "--cc", "reno,bbr"], &GRID[3..], &["--shard", "2/2", "--out", &other]].concat();
    run(&controllers).done();
    refused(&other, &["--cc reno,vegas and --cc reno,bbr"]);
    refused(
        &shards(&scratch, &["2/3"])[0],
        &["is shard 1/2 and", "is shard 2/3: the grid was divided in two ways"],
    );
    compare(&["--out", &scratch.text("whole")]).done();
    refused(&scratch.text("whole"), &["holds no shard", "--shard I/N --out DIR"]);

    let label = format!("{}/shard.json", folders[1]);
    let text = fs::read_to_string(&label).unwrap();
    let build = serde_json::from_str::<Value>(&text).unwrap()["build"].as_str().unwrap().to_owned();
    fs::write(&label, text.replace(&build, "another")).unwrap();
    refused(
        &folders[1],
        &["was run by another build of tcplab", "merge with the program that ran the shards"],
    );
    fs::write(&label, "{").unwrap();
    refused(&folders[1], &["shard.json is damaged"]);
    let said = merge(&folders[..1], &["--out", &folders[0]]).failed(2);
    assert!(said.contains("is one of the folders to merge"), "{said}");
    let said = merge(&[scratch.text("nowhere")], &["--out", &out]).failed(6);
    assert!(said.contains("nowhere"), "{said}");
    assert!(!scratch.path("merged").exists());
}

#[test]
fn a_folder_keeps_to_its_shard() {
    let scratch = Scratch::new();
    let out = shards(&scratch, &["1/2"]).remove(0);
    let again = compare(&["--shard", "1/2", "--out", &out]);
    assert!(again.err.contains("4 of 4 runs come from"), "{}", again.err);
    let said = compare(&["--shard", "2/2", "--out", &out]).failed(2);
    assert!(said.contains("holds shard 1/2, not this shard 2/2") && said.contains("--fresh"), "{said}");
    let other = [&GRID[..7], &["--seeds", "3", "--shard", "1/2", "--out", &out]].concat();
    let said = run(&other).failed(2);
    assert!(said.contains("--seeds 2 and --seeds 3") && said.contains("--out"), "{said}");
    compare(&["--shard", "2/2", "--out", &out, "--fresh"]).done();
    let label: Value =
        serde_json::from_str(&fs::read_to_string(format!("{out}/shard.json")).unwrap()).unwrap();
    assert_eq!(label["shard"], "2/2");

    for (words, wanted) in [
        (&["--shard", "1/2"][..], "--out"),
        (&["--shard", "3/2", "--out", &out], "I from 1 to N"),
        (&["--shard", "1/9", "--out", &scratch.text("many")], "divide by 8 at most"),
        (&["--shard", "1/2", "--out", &out, "--json", "-"], "--json"),
        (&["--merge", &out, "--out", &out], "--cc"),
    ] {
        let said = compare(words).failed(2);
        assert!(said.contains(wanted), "{words:?}: {said}");
    }
    assert!(!scratch.path("many").exists());
    assert!(run(&["compare", "--merge", &out]).failed(2).contains("--out"));
}

#[test]
fn the_examples_for_slurm_and_kubernetes_run_each_shard_once() {
    let slurm = fs::read_to_string(repository("examples/cluster/sweep.sbatch")).unwrap();
    assert!(slurm.contains("#SBATCH --array=1-4\n") && slurm.contains("\nSHARDS=4\n"), "{slurm}");
    let job = fs::read_to_string(repository("examples/cluster/sweep.yaml")).unwrap();
    assert!(
        job.contains("completions: 4\n") && job.contains("- name: SHARDS\n              value: \"4\"\n"),
        "{job}"
    );
    assert!(job.contains("completionMode: Indexed\n"), "{job}");
    let script = block(&job, "- |");
    // Kubernetes would expand it before the shell does.
    assert!(script.contains("JOB_COMPLETION_INDEX") && !script.contains("$("), "{script}");

    let scratch = Scratch::new();
    let tables =
        [("slurm", slurm, "SLURM_ARRAY_TASK_ID", 1), ("kubernetes", script, "JOB_COMPLETION_INDEX", 0)].map(
            |(name, script, variable, first)| {
                let sweep = scratch.path(name);
                for index in first..first + 4 {
                    let done =
                        shell(&script, &[(variable, &index.to_string()), ("SWEEP", sweep.to_str().unwrap())]);
                    assert!(
                        done.err.contains(&format!("shard {}/4: 8 of 32 runs", index + 1 - first)),
                        "{}",
                        done.err
                    );
                    done.done();
                }
                let folders: Vec<String> = (1..=4)
                    .map(|shard| sweep.join(format!("shard-{shard}")).to_str().unwrap().to_owned())
                    .collect();
                merge(&folders, &["--out", sweep.join("all").to_str().unwrap()]).done()
            },
        );
    assert_eq!(tables[0], tables[1]);
}

/// The lines of a literal block of YAML, which are indented more than the line that begins it.
fn block(yaml: &str, begins: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = yaml.lines().skip_while(|line| line.trim() != begins);
    let outer = indent(lines.next().unwrap());
    lines.take_while(|line| indent(line) > outer).map(|line| format!("{}\n", line.trim_start())).collect()
}

/// Runs a script as the examples do, with `tcplab` in the path and four shards.
fn shell(script: &str, variables: &[(&str, &str)]) -> Ended {
    let programs = Path::new(env!("CARGO_BIN_EXE_tcplab")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-euc", script]).env("PATH", path).env("SHARDS", "4").envs(variables.iter().copied());
    ended(command.output().unwrap())
}
