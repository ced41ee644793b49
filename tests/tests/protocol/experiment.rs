//! An experimental option of the application's (RFC 6994) on SYN and SYN-ACK.

use std::time::Duration;

use ackclock_core::profile::Ecn;
use ackclock_core::{Experiment, TcpConfig};
use ackclock_tests::script::{Script, Setup, modern_options, peer_syn};
use ackclock_tests::segment::{ACK, Opt, SYN, Seg};

const ID: u32 = 0x1234_5678;
const OURS: Experiment = Experiment { id: ID, value: *b"our word" };
const THEIRS: Experiment = Experiment { id: ID, value: *b"theirs!!" };

fn option(experiment: Experiment) -> Opt {
    Opt::Other(254, [&experiment.id.to_be_bytes()[..], &experiment.value].concat())
}

fn carries(segment: &Seg, experiment: Experiment) -> bool {
    segment.options.contains(&option(experiment))
}

fn taking_part() -> Setup {
    let tcp = TcpConfig { experiment: Some(OURS), ..TcpConfig::default() };
    Setup { tcp, ..Setup::default() }
}

#[test]
fn the_syn_says_it_twice_and_then_goes_without() {
    let mut s = Script::connecting(&taking_part());
    let mut carried = vec![carries(&s.sent(), OURS)];
    while carried.len() < 4 {
        let (_, syn) = s.wait(Duration::from_secs(60)).unwrap();
        assert!(syn.has(SYN));
        carried.push(carries(&syn, OURS));
    }
    assert_eq!(carried, [true, true, false, false]);
}

#[test]
fn the_answer_to_a_syn_is_read_by_who_takes_part() {
    let setup = Setup { peer_options: modern_options(7), ..taking_part() };
    let mut s = Script::connecting(&setup);
    s.sent();
    s.peer(peer_syn(&setup).ack(1).opt(option(THEIRS)));
    assert_eq!(s.connection().peer_experiment(), Some(THEIRS));
}

#[test]
fn the_word_of_a_client_is_read_by_who_takes_part_and_answered() {
    let setup = taking_part();
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup).opt(option(THEIRS)));
    assert!(carries(&s.sent(), OURS));
    s.peer_ack(1, 1);
    s.accept();
    assert_eq!(s.connection().peer_experiment(), Some(THEIRS));
}

#[test]
fn another_experiment_and_none_are_not_taken_for_ours() {
    let other = Experiment { id: ID + 1, ..THEIRS };
    for (setup, said) in [(taking_part(), other), (Setup::default(), THEIRS)] {
        let mut s = Script::listening(&setup);
        s.peer(peer_syn(&setup).opt(option(said)));
        assert!(!carries(&s.sent(), said));
        s.peer_ack(1, 1);
        s.accept();
        assert_eq!(s.connection().peer_experiment(), None);
    }
}

#[test]
fn a_syn_ack_says_it_twice_and_then_goes_without() {
    let setup = taking_part();
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup));
    let mut carried = vec![carries(&s.sent(), OURS)];
    for _ in 0..3 {
        carried.push(carries(&s.wait(Duration::from_secs(60)).unwrap().1, OURS));
    }
    assert_eq!(carried, [true, true, false, false]);
}

#[test]
fn where_accurate_ecn_takes_the_room_the_word_is_left_out() {
    let mut setup = Setup { peer_options: modern_options(7), ..taking_part() };
    setup.tcp.choices.ecn = Ecn::Accurate;
    let mut s = Script::listening(&setup);
    s.peer(peer_syn(&setup).ace(0b111));
    let syn_ack = s.sent();
    assert!(syn_ack.has(SYN | ACK) && syn_ack.accecn().is_some());
    assert!(!carries(&syn_ack, OURS));
}

#[test]
fn a_data_segment_says_nothing() {
    let setup = taking_part();
    let mut s = Script::accepted(&setup);
    s.write(1, 10);
    let data = s.expect_data(1, 10);
    assert!(!carries(&data, OURS));
}
