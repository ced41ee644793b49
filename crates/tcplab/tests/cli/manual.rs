//! The manual pages and the completions of tcplab.

use std::fs;

use crate::{Scratch, run};

#[test]
fn a_manual_page_of_each_command_is_written() {
    let scratch = Scratch::new();
    let folder = scratch.path("man1");
    run(&["man", "--out", folder.to_str().unwrap()]).done();
    let mut names: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 14 && names.iter().all(|name| name.ends_with(".1")), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("inside")), "{names:?}");
    for (page, expected) in [("tcplab.1", "EXIT STATUS"), ("tcplab-between.1", "in real time")] {
        let text = fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.starts_with(".ie") && text.contains(expected), "{page}: {text}");
    }
    run(&["man", "--out", "/proc/man1"]).failed(6);
}

#[test]
fn completions_of_each_shell_know_the_commands_and_their_values() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]).done();
        for word in ["between", "scenario", "vegas-1995", "illinois"] {
            assert!(script.contains(word), "{shell} does not offer {word}");
        }
    }
}
