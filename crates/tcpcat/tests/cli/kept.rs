//! The fate of a file and of its destination, and the words of each end about it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use crate::common::{HOST1, Netns, Process, Scratch, assert_same, random_file, said};

const LEN: usize = 500_000;
/// A file takes two seconds.
const RATE: &str = "2M";

/// Sends a file while `meanwhile` happens; returns what sender and receiver said, with these exit codes.
fn transfer(
    netns: &Netns,
    scratch: &Scratch,
    flags: &str,
    codes: (i32, i32),
    meanwhile: impl FnOnce(),
) -> (String, String) {
    let (from, to) = (random_file(scratch, "from", LEN), scratch.path("to"));
    let verify = if flags.is_empty() { "" } else { "--verify" };
    let receiver = netns.listen(&format!("recv {} -l 7000 -v {verify} --kernel", to.display()));
    let line = format!("send {} 127.0.0.1 7000 --rate {RATE} {flags} --kernel", from.display());
    let sender = netns.start(&line);
    receiver.await_line("connection from");
    meanwhile();
    (said(&sender.finish(), codes.0), said(&receiver.finish(), codes.1))
}

#[test]
fn a_sender_is_told_of_a_file_that_is_kept_and_of_one_that_is_not() {
    let Some(netns) = Netns::new() else { return };
    for flags in ["--verify", "-P 3"] {
        let scratch = Scratch::new();
        let to = scratch.path("to");
        let (sender, receiver) = transfer(&netns, &scratch, flags, (1, 6), || fs::create_dir(&to).unwrap());
        assert!(sender.contains("could not keep the file") && !sender.contains("verified"), "{sender}");
        assert!(receiver.contains("the complete file is in") && !receiver.contains("verified"), "{receiver}");
        let part = scratch.await_part(LEN as u64);
        assert!(receiver.contains(&part.display().to_string()), "{receiver}");
        assert_same(&scratch.path("from"), &part);
    }
}

#[test]
fn a_destination_that_becomes_a_directory_is_6_and_the_file_stays_beside() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let to = scratch.path("to");
    // A plain sender may have left by then: the end of its stream was acknowledged.
    let from = random_file(&scratch, "from", LEN);
    let receiver = netns.listen(&format!("recv {} -l 7000 -v --kernel", to.display()));
    let mut sender = Process::start(netns.command("nc").args(["-N", "127.0.0.1", "7000"]));
    let mut stdin = sender.stdin();
    stdin.write_all(&fs::read(&from).unwrap()).unwrap();
    let part = scratch.await_part(1);
    fs::create_dir(&to).unwrap();
    drop(stdin);
    sender.finish();
    let words = said(&receiver.finish(), 6);
    assert!(words.contains(&format!("the complete file is in {}", part.display())), "{words}");
    assert_same(&from, &part);
}

#[test]
fn a_directory_that_is_removed_is_6_at_the_receiver_and_1_at_the_sender() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let directory = scratch.path("directory");
    fs::create_dir(&directory).unwrap();
    let from = random_file(&scratch, "from", LEN);
    let to = directory.join("to");
    let receiver = netns.listen(&format!("recv {} -l 7000 -v --verify --kernel", to.display()));
    let line = format!("send {} 127.0.0.1 7000 --rate {RATE} --verify --kernel", from.display());
    let sender = netns.start(&line);
    let has_begun = || {
        let mut entries = fs::read_dir(&directory).unwrap();
        entries.any(|entry| entry.unwrap().metadata().is_ok_and(|metadata| metadata.len() > 0))
    };
    while !has_begun() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    fs::remove_dir_all(&directory).unwrap();
    assert!(said(&sender.finish(), 1).contains("could not keep the file"));
    let words = said(&receiver.finish(), 6);
    assert!(words.contains("No such file") && !words.contains("the complete file is in"), "{words}");
}

#[test]
fn a_destination_that_cannot_be_written_is_6_before_there_is_a_connection() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    for (to, says) in [
        (scratch.path(""), "name a file in that directory"),
        (scratch.path("nowhere").join("to"), "directories are not created"),
        ("/proc/version".into(), "to fix it"),
    ] {
        let words = said(&netns.tcpcat(&format!("recv {} -l 7000 --kernel", to.display())), 6);
        assert!(words.contains("cannot write"), "{words}");
        assert!(words.contains(says) || to.starts_with("/proc"), "{words}");
    }
}

#[test]
fn a_private_file_is_private_while_it_is_replaced_and_after_a_failure() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let to = scratch.path("to");
    fs::write(&to, "old").unwrap();
    fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let mut part = None;
    transfer(&netns, &scratch, "", (0, 0), || part = Some(mode(&scratch.await_part(1))));
    assert_eq!((part, mode(&to)), (Some(0o600), 0o600));

    let receiver = netns.listen(&format!("recv {} -l 7000 -v --kernel", to.display()));
    let mut sender = Process::start(netns.command("nc").args(["127.0.0.1", "7000"]));
    sender.stdin().write_all(b"secret").unwrap();
    let part = scratch.await_part(6);
    receiver.signal("TERM");
    said(&receiver.finish(), 143);
    assert_eq!((fs::read(&part).unwrap(), mode(&part)), (b"secret".to_vec(), 0o600));
    sender.finish();
}

#[test]
fn a_link_stays_and_a_pipe_gets_the_bytes() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    std::os::unix::fs::symlink("behind", scratch.path("to")).unwrap();
    transfer(&netns, &scratch, "--verify", (0, 0), || {});
    assert!(fs::symlink_metadata(scratch.path("to")).unwrap().is_symlink());
    assert_same(&scratch.path("from"), &scratch.path("behind"));

    // Another name of the old file keeps it.
    fs::write(scratch.path("behind"), "old").unwrap();
    fs::hard_link(scratch.path("behind"), scratch.path("other")).unwrap();
    transfer(&netns, &scratch, "--verify", (0, 0), || {});
    assert_same(&scratch.path("from"), &scratch.path("behind"));
    assert_eq!(fs::read(scratch.path("other")).unwrap(), b"old");

    let fifo = scratch.path("fifo");
    netns.shell(&format!("mkfifo {}", fifo.display()));
    let out = scratch.path("out");
    let reader = format!("cat {} > {}", fifo.display(), out.display());
    let reader = Process::start(netns.command("sh").args(["-c", &reader]));
    let receiver = netns.listen(&format!("recv {} -l 7000 -v --verify --kernel", fifo.display()));
    let from = scratch.path("from");
    said(&netns.tcpcat(&format!("send {} 127.0.0.1 7000 --verify --kernel", from.display())), 0);
    said(&receiver.finish(), 0);
    said(&reader.finish(), 0);
    assert_same(&from, &out);

    // A reader that leaves takes the rest with it.
    let reader = format!("head -c 1000 {}", fifo.display());
    let reader = Process::start(netns.command("sh").args(["-c", &reader]));
    let receiver = netns.listen(&format!("recv {} -l 7000 -v --verify --kernel", fifo.display()));
    let from = random_file(&scratch, "from", 5_000_000);
    said(&netns.tcpcat(&format!("send {} 127.0.0.1 7000 --verify --kernel", from.display())), 1);
    assert!(said(&receiver.finish(), 6).contains("Broken pipe"));
    reader.finish();
}

#[test]
fn a_file_may_be_received_over_itself() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let (file, copy) = (random_file(&scratch, "from", LEN), random_file(&scratch, "copy", LEN));
    for flags in ["", "--verify"] {
        let receiver = netns.listen(&format!("recv {} -l 7000 -v {flags} --kernel", file.display()));
        said(&netns.tcpcat(&format!("send {} 127.0.0.1 7000 {flags} --kernel", file.display())), 0);
        said(&receiver.finish(), 0);
        assert_same(&file, &copy);
    }
}

#[test]
fn a_file_without_a_length_goes_to_its_end() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let to = scratch.path("to");
    for (flags, device) in [("", "--kernel"), ("--verify", "--kernel"), ("-P 3", "--kernel"), ("", HOST1)] {
        let receives = if flags.is_empty() { "" } else { "--verify" };
        let receiver = netns.listen(&format!("recv {} -l 7000 -v {receives} {device}", to.display()));
        let host = if device == HOST1 { "10.9.1.2" } else { "127.0.0.1" };
        said(&netns.tcpcat(&format!("send /proc/version {host} 7000 {flags} --kernel")), 0);
        said(&receiver.finish(), 0);
        assert_same("/proc/version".as_ref(), &to);
        fs::remove_file(&to).unwrap();
    }
}

#[test]
fn a_file_that_grows_goes_to_its_new_end_unless_its_length_was_promised() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    for (flags, len) in [("", LEN + 5), ("--verify", LEN)] {
        let from = scratch.path("from");
        let (sender, _) = transfer(&netns, &scratch, flags, (0, 0), || {
            fs::File::options().append(true).open(&from).unwrap().write_all(b"later").unwrap();
        });
        assert!(fs::read(scratch.path("to")).unwrap() == fs::read(&from).unwrap()[..len], "{flags}");
        assert_eq!(sender.contains("grew while it was sent: its first 500000 bytes"), len == LEN, "{sender}");
    }
}

#[test]
fn a_file_that_is_shorter_than_its_length_is_6_and_no_file_at_the_receiver() {
    let Some(netns) = Netns::new() else { return };
    let scratch = Scratch::new();
    let to = scratch.path("to");
    for flags in ["", "--verify"] {
        let receiver = netns.listen(&format!("recv {} -l 7000 -v {flags} --kernel", to.display()));
        let words =
            said(&netns.tcpcat(&format!("send /sys/class/net/lo/mtu 127.0.0.1 7000 {flags} --kernel")), 6);
        assert!(words.contains("truncated") && words.contains("tcpcat send -"), "{words}");
        receiver.signal("TERM");
        receiver.finish();
        assert!(!to.exists());
    }
}
