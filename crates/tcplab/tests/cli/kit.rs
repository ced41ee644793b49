//! `tcplab kit`.

use crate::run;

#[test]
fn a_wrong_name_is_told_with_those_that_there_are() {
    let said = run(&["kit", "renoo"]).failed(2);
    assert!(said.contains("`renoo`") && said.contains("vegas"), "{said}");
    let said = run(&["kit"]).failed(2);
    assert!(said.contains("NAME"), "{said}");
}
