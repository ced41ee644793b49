//! `recv -k`: one file after the other.

use std::fs;
use std::io::Write;

use crate::common::{HOST1, Netns, Process, Scratch, assert_same, random_file, said};

#[test]
fn what_comes_goes_to_stdout_one_after_the_other() {
    let Some(netns) = Netns::new() else { return };
    let listener = netns.listen(&format!("recv - -l 7000 -k -v {HOST1}"));
    for text in ["one\n", "two\n", "three\n"] {
        let mut sender = Process::start(netns.command("nc").args(["-N", "10.9.1.2", "7000"]));
        sender.stdin().write_all(text.as_bytes()).unwrap();
        said(&sender.finish(), 0);
        listener.await_line(&format!("{} bytes, in stdout", text.len()));
    }
    listener.signal("INT");
    let ended = listener.finish();
    said(&ended, 0);
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "one\ntwo\nthree\n");
}

#[test]
fn each_file_has_its_name_in_a_directory_and_a_sender_that_fails_ends_nothing() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let into = scratch.path("into");
    fs::create_dir(&into).unwrap();
    fs::write(into.join("0002-127.0.0.1"), "it was there").unwrap();
    let from = random_file(&scratch, "from", 300_000);
    let listener = netns.listen(&format!("recv {} -l 7000 -k --verify -v --kernel", into.display()));
    let send = |flags: &str| {
        let line = format!("send {} 127.0.0.1 7000 {flags} --kernel", from.display());
        said(&netns.tcpcat(&line), 0)
    };
    assert!(send("--verify").contains("verified"));
    let line = listener.await_line("0001-127.0.0.1");
    assert!(line.contains("300000 bytes") && line.contains("verified"), "{line}");

    let reset = "
import socket, struct
s = socket.create_connection(('127.0.0.1', 7000))
s.recv(24, socket.MSG_WAITALL)
s.sendall(b'no header, but data')
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
import time; time.sleep(0.2)
s.close()
";
    said(&Process::start(netns.command("python3").args(["-c", reset])).finish(), 0);
    listener.await_line("reset");

    assert!(send("-P 3").contains("verified"));
    listener.await_line("0004-127.0.0.1");
    listener.signal("TERM");
    said(&listener.finish(), 0);
    assert_same(&from, &into.join("0001-127.0.0.1"));
    assert_same(&from, &into.join("0004-127.0.0.1"));
    assert_eq!(fs::read_to_string(into.join("0002-127.0.0.1")).unwrap(), "it was there");
    assert!(!into.join("0003-127.0.0.1").exists(), "a part has no name");
}

#[test]
fn a_file_is_replaced_by_the_next_complete_one() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let to = scratch.path("to");
    let listener = netns.listen(&format!("recv {} -l 7000 -k -v --kernel", to.display()));
    for len in [70_000, 1_000] {
        let from = random_file(&scratch, "from", len);
        said(&netns.tcpcat(&format!("send {} 127.0.0.1 7000 --kernel", from.display())), 0);
        listener.await_line(&format!("{len} bytes"));
        assert_same(&from, &to);
    }
    listener.signal("INT");
    said(&listener.finish(), 0);
    let words = said(&netns.tcpcat(&format!("recv {} 127.0.0.1 7000 -k --kernel", to.display())), 2);
    assert!(words.contains("-k listens again"), "{words}");
}
