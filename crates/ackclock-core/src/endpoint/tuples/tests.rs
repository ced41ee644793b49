use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use super::*;

const PORTS: (u16, u16) = (1, 100);

fn tuple(port: u16) -> FourTuple {
    FourTuple::new("10.0.0.1:80".parse().unwrap(), format!("10.0.0.2:{port}").parse().unwrap())
}

#[test]
fn a_tuple_belongs_to_who_held_it_first_until_every_hold_is_given_back() {
    let directory = Directory::new(&[1; 32], PORTS);
    assert_eq!(directory.hold(&tuple(1), 0), Ok(()));
    assert_eq!(directory.hold(&tuple(1), 1), Err(0));
    assert_eq!(directory.hold(&tuple(1), 0), Ok(()));
    directory.release(&tuple(1), 0);
    assert_eq!((directory.holder(&tuple(1)), directory.holder(&tuple(2))), (Some(0), None));
    directory.release(&tuple(1), 0);
    assert_eq!(directory.hold(&tuple(1), 1), Ok(()));
}

#[test]
fn tuples_are_spread_over_the_stripes() {
    let directory = Directory::new(&[1; 32], PORTS);
    (0..4096).for_each(|port| directory.hold(&tuple(port), 0).unwrap());
    let used: Vec<usize> = directory.stripes.iter().map(|held| held.lock().unwrap().len()).collect();
    assert!(used.iter().all(|used| (16..=256).contains(used)), "64 each, more or less: {used:?}");
}

#[test]
fn a_port_that_was_found_taken_is_free_when_the_last_hold_is_given_back() {
    let directory = Directory::new(&[1; 32], (80, 80));
    let to_peer = Use::of(&tuple(1));
    let pick = || directory.with_taken(|taken| taken.pick(to_peer, 0));
    directory.hold(&tuple(1), 1).unwrap();
    assert_eq!(pick(), Some(80), "as long as no one has looked");
    assert!(directory.is_taken(&tuple(1)) && !directory.is_taken(&tuple(2)));
    assert_eq!(pick(), None);
    directory.hold(&tuple(1), 1).unwrap();
    directory.release(&tuple(1), 1);
    assert_eq!(pick(), None);
    directory.release(&tuple(1), 1);
    assert_eq!(pick(), Some(80));
}

#[test]
fn connections_on_a_port_are_counted_however_they_come_and_go_between() {
    let directory = Directory::new(&[1; 32], PORTS);
    let is_connected = |addr: Option<&str>| {
        let addr = addr.map(|addr| addr.parse().unwrap());
        directory.with_taken(|taken| taken.is_connected(addr, 80))
    };
    (0..300).for_each(|port| directory.hold(&tuple(port), 0).unwrap());
    directory.count_connections();
    (300..310).for_each(|port| directory.hold(&tuple(port), 1).unwrap());
    for (addr, expected) in [
        (None, true),
        (Some("0.0.0.0"), true),
        (Some("10.0.0.1"), true),
        (Some("10.0.0.3"), false),
        (Some("::"), false),
    ] {
        assert_eq!(is_connected(addr), expected, "{addr:?}");
    }
    (0..182).for_each(|port| directory.release(&tuple(port), 0));
    assert!(is_connected(None) && directory.watches.load(Ordering::Relaxed), "128 are left");
    directory.release(&tuple(182), 0);
    assert!(!directory.watches.load(Ordering::Relaxed), "so few are counted again");
}

#[test]
fn a_cookie_is_out_for_its_lifetime_and_at_most_a_second_longer() {
    let watch = CookieWatch::default();
    let at = |ms| Instant::from_millis(ms);
    assert!(!watch.is_out(at(0)), "none was sent");
    watch.sent(at(1_999));
    assert!(watch.is_out(at(1_999)) && watch.is_out(at(1_999 + 128_000)));
    assert!(!watch.is_out(at(1_999 + 129_001)));
    watch.sent(at(50_000));
    watch.sent(at(49_000));
    assert!(watch.is_out(at(178_999)), "an endpoint whose clock is behind takes nothing back");
}

#[test]
fn of_threads_that_ask_for_one_tuple_at_once_one_gets_it() {
    let directory = Directory::new(&[1; 32], PORTS);
    let held = |shard| (0..10_000).filter(|&port| directory.hold(&tuple(port), shard).is_ok()).count();
    let got = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|shard| scope.spawn(move || held(shard))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    assert_eq!(got, 10_000);
}

const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

fn remote(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 443))
}

fn first(ports: &mut Ports, peer: u8) -> u16 {
    let to_peer = Use::Connection(LOCAL, remote(peer));
    let random = ports.draw(to_peer);
    ports.taken.pick(to_peer, random).unwrap()
}

#[test]
fn sec_a7_the_next_port_cannot_be_guessed_from_those_before() {
    const DRAWS: u32 = 100_000;
    let mut ports = Ports::new(&[1; 32], (1024, 65_535), 0);
    let mut hits = [0_u32; 3];
    let mut before = 0_u16;
    let mut seen_by_x = 0_u16;
    for _ in 0..DRAWS {
        let to_x = first(&mut ports, 1);
        let to_y = first(&mut ports, 2);
        hits[0] += u32::from(to_x == before.wrapping_add(1));
        hits[1] += u32::from(to_y == to_x.wrapping_add(1) || to_y == to_x);
        // The best guess from a difference seen before.
        hits[2] += u32::from(to_x == to_y.wrapping_add(before.wrapping_sub(seen_by_x)));
        (before, seen_by_x) = (to_x, to_y);
    }
    // Expected: draws / range, about 1.5 for each guess; ten is far outside of chance.
    assert!(hits.iter().all(|&hits| hits <= 10), "{hits:?}");
}

#[test]
fn sec_a7_every_port_is_tried_once_and_then_it_ends() {
    let mut ports = Ports::new(&[1; 32], (2000, 2099), 0);
    let to_peer = Use::Connection(LOCAL, remote(1));
    let mut tried = Vec::new();
    loop {
        let random = ports.draw(to_peer);
        let Some(port) = ports.taken.pick(to_peer, random) else { break };
        tried.push(port);
        ports.taken.learn(to_peer, port);
    }
    assert_eq!(tried.len(), 100);
    assert_eq!(tried.into_iter().collect::<HashSet<_>>(), (2000..=2099).collect());
}

#[test]
fn sec_a7_behind_a_run_of_taken_ports_no_port_is_likelier_than_another() {
    // RFC 6056 §3.3.1: the next free port after a random one "is biased towards the first available port
    // after a sequence of unavailable port numbers"; a draw among the free ones is not.
    const DRAWS: u32 = 10_000;
    let mut ports = Ports::new(&[1; 32], (2000, 2999), 0);
    let to_peer = Use::Connection(LOCAL, remote(1));
    (2000..2990).for_each(|port| ports.taken.learn(to_peer, port));
    let mut drawn = [0_u32; 10];
    for _ in 0..DRAWS {
        drawn[usize::from(first(&mut ports, 1) - 2990)] += 1;
    }
    // 1,000 each; five standard deviations of a binomial with p = 0.1 are 150.
    assert!(drawn.iter().all(|drawn| (850..=1_150).contains(drawn)), "{drawn:?}");
}

#[test]
fn endpoints_with_one_secret_draw_different_ports() {
    let drawn = |shard| {
        let mut ports = Ports::new(&[1; 32], (1024, 65_535), shard);
        [(); 8].map(|()| first(&mut ports, 1))
    };
    assert_eq!(drawn(1), drawn(1));
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        assert_ne!(drawn(one), drawn(other), "{one} {other}");
    }
}

#[test]
fn port_zero_is_never_chosen_and_a_reversed_range_is_put_right() {
    let mut ports = Ports::new(&[1; 32], (2, 0), 0);
    let chosen: HashSet<u16> = (0..64).map(|_| first(&mut ports, 1)).collect();
    assert_eq!(chosen, HashSet::from([1, 2]));
}

proptest! {
    #[test]
    fn a_port_set_agrees_with_an_ordered_set(
        len in prop_oneof![1_u32..300, 4_000_u32..9_000, Just(65_535)],
        steps in proptest::collection::vec((any::<bool>(), any::<u32>(), any::<u32>()), 0..200),
    ) {
        let (mut set, mut model) = (PortSet::new(len), BTreeSet::new());
        for (inserts, place, n) in steps {
            let place = place % len;
            if inserts {
                set.insert(place);
                model.insert(place);
            } else {
                prop_assert_eq!(set.remove(place), model.remove(&place));
                prop_assert_eq!(set.len, model.len() as u32);
            }
            let missing = len - model.len() as u32;
            let mut expected = (0..len).filter(|place| !model.contains(place));
            let n = n % (missing + 1);
            prop_assert_eq!(set.nth_missing(n), expected.nth(n as usize), "{} of {}", n, missing);
        }
    }
}

#[test]
fn a_port_is_picked_until_it_is_learnt_and_again_when_its_user_has_gone() {
    let mut taken = Taken::new((2, 0));
    let tuple = FourTuple::new("10.0.0.1:2".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
    let to_peer = Use::of(&tuple);
    taken.came(&tuple, true);
    assert!(taken.is_empty(), "nothing is remembered before a draw has hit");
    assert_eq!([0, 1, 2].map(|random| taken.pick(to_peer, random)), [Some(1), Some(2), Some(1)]);
    taken.learn(to_peer, 2);
    assert_eq!([0, 1].map(|random| taken.pick(to_peer, random)), [Some(1); 2]);
    taken.learn(to_peer, 1);
    assert_eq!(taken.pick(to_peer, 7), None);
    assert_eq!(taken.pick(Use::Datagrams(None), 7), Some(2), "for another use");
    taken.went(&tuple, true);
    assert_eq!(taken.pick(to_peer, 7), Some(2));
    taken.released(1);
    assert!(taken.is_empty());
}
