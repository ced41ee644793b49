//! `tcplab papers`, without the work.

use crate::run;

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
fn the_list_has_a_line_for_each() {
    let said = run(&["papers", "--list"]).done();
    assert!(said.starts_with("id"), "{said}");
}
