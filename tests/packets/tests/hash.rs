//! The packets are the pinned ones in a build with debug assertions, too.

use ackclock_packets::{PINNED, hash, parts};

#[test]
fn every_build_sends_the_same_packets() {
    let parts = parts();
    for part in &parts {
        println!("{part}");
        assert!(part.packets > 1000, "{part}");
    }
    assert_eq!(hash(&parts), PINNED, "put it into PINNED if other packets were meant");
}
