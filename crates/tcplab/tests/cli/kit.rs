//! `tcplab kit`, and the committed pages.

use std::fs;

use ackclock_control::congestion::Registry;

use crate::{Scratch, repository, run};

/// The pages in docs/kit are what the code makes. After a change: `cargo run --release --bin tcplab -- kit
/// --all --out docs/kit`. Two of them are made here.
#[test]
fn kept_pages_are_what_the_code_makes() {
    let scratch = Scratch::new();
    let out = scratch.text("kit");
    run(&["kit", "reno", "vegas", "--out", &out]).done();
    for name in ["reno.md", "vegas.md"] {
        let made = fs::read_to_string(scratch.path("kit").join(name)).unwrap();
        let kept = fs::read_to_string(repository("docs/kit").join(name)).unwrap();
        assert_eq!(
            made, kept,
            "docs/kit/{name}: cargo run --release --bin tcplab -- kit --all --out docs/kit"
        );
    }
    let html = fs::read_to_string(scratch.path("kit").join("reno.html")).unwrap();
    assert!(html.contains("\">Situations</h2>") && !html.contains("src="), "{html}");
}

#[test]
fn there_is_a_page_for_each_controller_and_a_row_in_the_first() {
    let first = fs::read_to_string(repository("docs/kit/README.md")).unwrap();
    for name in Registry::builtin().names() {
        let page = fs::read_to_string(repository(&format!("docs/kit/{name}.md"))).unwrap();
        assert!(page.starts_with(&format!("# {name}\n")), "{name}");
        assert!(first.contains(&format!("[{name}]({name}.md)")), "{name}");
    }
}

#[test]
fn a_wrong_name_is_told_with_those_that_there_are() {
    let said = run(&["kit", "renoo"]).failed(2);
    assert!(said.contains("`renoo`") && said.contains("vegas"), "{said}");
    let said = run(&["kit"]).failed(2);
    assert!(said.contains("NAME"), "{said}");
}
