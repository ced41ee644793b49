use ackclock_wire::random::Rng;
use proptest::prelude::*;

use super::*;

fn listening(listeners_max: usize) -> Listening {
    let state = KeyedState(Key::derive(&[1; 32], Purpose::Tables));
    Listening::new(Instant::ZERO, &state, listeners_max, &[1; 32])
}

fn open(listening: &mut Listening, options: ListenOptions) -> Result<ListenerId, ListenError> {
    let (tcp, later) = (Arc::new(TcpConfig::default()), Key::derive(&[1; 32], Purpose::Later));
    listening.open(options, None, &tcp, &later)
}

fn on(addr: Option<&str>, port: Option<u16>) -> ListenOptions {
    ListenOptions::new(ListenAddr { addr: addr.map(|addr| addr.parse().unwrap()), port })
}

#[test]
fn the_most_specific_listener_wins() {
    let mut listeners = listening(8);
    let tuple = FourTuple::new("10.0.0.1:80".parse().unwrap(), "10.0.0.2:4000".parse().unwrap());
    let find = |listeners: &Listening| listeners.find(&tuple);
    assert_eq!(find(&listeners), None);
    for (addr, port) in [
        (None, None),
        (Some("0.0.0.0"), None),
        (None, Some(80)),
        (Some("0.0.0.0"), Some(80)),
        (Some("10.0.0.1"), None),
        (Some("10.0.0.1"), Some(80)),
    ] {
        let id = open(&mut listeners, on(addr, port)).unwrap();
        assert_eq!(find(&listeners), Some(id));
    }
    let others = open(&mut listeners, on(Some("10.0.0.2"), Some(80))).unwrap();
    assert_ne!(find(&listeners), Some(others));
    let other_family = open(&mut listeners, on(Some("::"), Some(80))).unwrap();
    assert_ne!(find(&listeners), Some(other_family));
}

#[test]
fn one_address_has_one_listener_and_is_free_again_after_it() {
    let mut listeners = listening(8);
    let id = open(&mut listeners, on(None, Some(80))).unwrap();
    assert_eq!(open(&mut listeners, on(None, Some(80))), Err(ListenError::AddressInUse));
    assert!(listeners.close(id).is_some());
    assert!(listeners.close(id).is_none());
    assert!(open(&mut listeners, on(None, Some(80))).is_ok());
}

#[test]
fn an_address_is_shared_only_by_those_who_all_said_so() {
    let shared = || ListenOptions { reuse_port: true, ..on(None, Some(80)) };
    let mut listeners = listening(128);
    let alone = open(&mut listeners, on(None, Some(80))).unwrap();
    assert_eq!(open(&mut listeners, shared()), Err(ListenError::AddressInUse));
    listeners.close(alone).unwrap();
    let first = open(&mut listeners, shared()).unwrap();
    let second = open(&mut listeners, shared()).unwrap();
    assert_eq!(open(&mut listeners, on(None, Some(80))), Err(ListenError::AddressInUse));
    // The remaining one has the address alone, and still shares it.
    listeners.close(first).unwrap();
    let tuple = FourTuple::new("10.0.0.1:80".parse().unwrap(), "10.0.0.2:4000".parse().unwrap());
    assert_eq!(listeners.find(&tuple), Some(second));
    assert_eq!(open(&mut listeners, on(None, Some(80))), Err(ListenError::AddressInUse));
    (1..MEMBERS_MAX).for_each(|_| assert!(open(&mut listeners, shared()).is_ok()));
    assert_eq!(open(&mut listeners, shared()), Err(ListenError::TooManyOnAddress(MEMBERS_MAX)));
}

#[test]
fn the_table_of_listeners_is_bounded() {
    let mut listeners = listening(1);
    open(&mut listeners, on(None, Some(80))).unwrap();
    assert_eq!(open(&mut listeners, on(None, Some(81))), Err(ListenError::TooManyListeners(1)));
}

fn tuples() -> impl Iterator<Item = FourTuple> {
    let local = "10.0.0.1:80".parse().unwrap();
    (1024..5120).map(move |port| FourTuple::new(local, format!("10.0.0.2:{port}").parse().unwrap()))
}

fn key() -> Key {
    Key::derive(&[3; 32], Purpose::Reuse)
}

fn group(members: u32) -> Group {
    Group { key: key(), members: (0..members).collect() }
}

#[test]
fn each_member_has_its_share_of_the_tuples() {
    let group = group(4);
    let mut counts = [0; 4];
    tuples().for_each(|tuple| counts[group.choose(&tuple).unwrap() as usize] += 1);
    // 4,096 four-tuples: 1,024 each, and a standard deviation of 28.
    assert!(counts.iter().all(|count| (900..1150).contains(count)), "{counts:?}");
}

#[test]
fn a_member_that_leaves_moves_its_own_four_tuples_only() {
    let mut group = group(4);
    let before: Vec<_> = tuples().map(|tuple| group.choose(&tuple)).collect();
    assert_eq!(group.leave(2), None);
    for (tuple, before) in tuples().zip(before) {
        let after = group.choose(&tuple);
        assert!(before == Some(2) && after != before || before != Some(2) && after == before);
    }
}

#[test]
fn a_member_that_comes_takes_four_tuples_only_for_itself() {
    let mut group = group(3);
    let before: Vec<_> = tuples().map(|tuple| group.choose(&tuple)).collect();
    group.members.push(3);
    for (tuple, before) in tuples().zip(before) {
        let after = group.choose(&tuple);
        assert!(after == before || after == Some(3));
    }
}

#[test]
fn another_key_spreads_otherwise() {
    let (group, mut other) = (group(4), group(4));
    other.key = Key::derive(&[4; 32], Purpose::Reuse);
    let same = tuples().filter(|tuple| group.choose(tuple) == other.choose(tuple)).count();
    assert!((900..1150).contains(&same), "{same} of 4096 four-tuples: a quarter by chance");
}

#[test]
fn a_group_says_who_is_left() {
    let mut group = group(64);
    (2..64).for_each(|member| assert_eq!(group.leave(member), None));
    assert_eq!(group.leave(0), Some(1));
}

const LISTENER: ListenerId = ListenerId { index: 0, generation: 0 };

fn record() -> HalfOpen {
    let tuple = FourTuple::new("10.0.0.1:80".parse().unwrap(), "10.0.0.2:4000".parse().unwrap());
    let peer = PeerSyn {
        irs: SeqNum::new(u32::MAX),
        timestamps: None,
        window: 1000,
        mss: None,
        window_scale: None,
        sack: false,
        ecn: Offer::None,
        wants_cookie: false,
    };
    let phase = Phase::Answered { retransmits: 0, window: 100 };
    HalfOpen {
        tuple,
        listener: LISTENER,
        peer,
        iss: SeqNum::new(500),
        phase,
        told: false,
        repeated: false,
        since: Instant::ZERO,
        limiter: Limiter::default(),
    }
}

fn segment(flags: Flags, seq: u32, ack: u32) -> Segment<'static> {
    Segment {
        src_port: 4000,
        dst_port: 80,
        seq: SeqNum::new(seq),
        ack: SeqNum::new(ack),
        flags,
        window: 1000,
        urgent: 0,
        options: TcpOptions::default(),
        payload: &[],
    }
}

fn judge(flags: Flags, seq: u32, ack: u32) -> HalfOpenAction {
    record().judge(Instant::ZERO, &segment(flags, seq, ack))
}

#[test]
fn the_acknowledgement_of_the_syn_ack_establishes() {
    assert_eq!(judge(Flags::ACK, 0, 501), HalfOpenAction::Establish);
    assert_eq!(judge(Flags::ACK | Flags::FIN, 0, 501), HalfOpenAction::Establish);
    assert_eq!(judge(Flags::ACK, 99, 501), HalfOpenAction::Establish, "reordered before earlier data");
}

#[test]
fn any_other_acknowledgement_is_reset() {
    for ack in [500, 502, 501_u32.wrapping_add(1 << 31), 0] {
        assert_eq!(judge(Flags::ACK, 0, ack), HalfOpenAction::Reset, "{ack}");
    }
}

#[test]
fn a_segment_without_ack_is_dropped() {
    assert_eq!(judge(Flags::NONE, 0, 501), HalfOpenAction::Drop);
    assert_eq!(judge(Flags::FIN | Flags::PSH | Flags::URG, 0, 501), HalfOpenAction::Drop);
}

// Tests: RFC 9293 MUST-11
#[test]
fn sec_a1_only_the_exact_reset_returns_a_half_open_connection_to_listen() {
    assert_eq!(judge(Flags::RST, 0, 0), HalfOpenAction::Forget);
    for in_window in [1, 50, 99] {
        assert_eq!(judge(Flags::RST, in_window, 0), HalfOpenAction::Acknowledge, "{in_window}");
    }
    for outside in [u32::MAX, 100, 1 << 31] {
        assert_eq!(judge(Flags::RST, outside, 0), HalfOpenAction::Drop, "{outside}");
    }
}

#[test]
fn the_same_syn_repeats_the_syn_ack() {
    assert_eq!(judge(Flags::SYN, u32::MAX, 0), HalfOpenAction::Repeat);
    assert_eq!(judge(Flags::SYN | Flags::ECE | Flags::CWR, u32::MAX, 0), HalfOpenAction::Repeat);
    assert_eq!(judge(Flags::SYN | Flags::ACK, u32::MAX, 501), HalfOpenAction::Acknowledge);
}

#[test]
fn another_syn_outside_the_window_is_challenged_and_inside_it_forgets() {
    assert_eq!(judge(Flags::SYN, 70_000, 0), HalfOpenAction::Acknowledge);
    assert_eq!(judge(Flags::SYN, 5, 0), HalfOpenAction::Forget);
}

#[test]
fn sec_a5_challenges_of_one_record_are_limited() {
    let mut record = record();
    let unacceptable = segment(Flags::ACK, 1 << 31, 501);
    let answers = (0..10_000).map(|ms| record.judge(Instant::from_millis(ms), &unacceptable));
    assert_eq!(answers.filter(|action| *action == HalfOpenAction::Acknowledge).count(), 20);
}

#[test]
fn with_timestamps_old_segments_are_unacceptable_and_bare_ones_dropped() {
    let mut record = record();
    record.peer.timestamps = Some(1000);
    let mut ack = segment(Flags::ACK, 0, 501);
    assert_eq!(record.judge(Instant::ZERO, &ack), HalfOpenAction::Drop);
    ack.options.timestamps = Some((999, 0));
    assert_eq!(record.judge(Instant::ZERO, &ack), HalfOpenAction::Acknowledge);
    ack.options.timestamps = Some((1000, 0));
    assert_eq!(record.judge(Instant::ZERO, &ack), HalfOpenAction::Establish);
}

#[test]
fn a_syn_ack_is_repeated_five_times_with_backoff_and_then_given_up() {
    let mut queue = listening(8);
    let index = queue.insert(record());
    let mut at = Vec::new();
    loop {
        let now = queue.next_timeout().unwrap();
        at.push(now.as_millis() / 1000);
        if queue.pop_expired(now).unwrap() == (Expiry::GiveUp { index, undecided: false }) {
            break;
        }
    }
    assert_eq!(at, [1, 3, 7, 15, 31, 63]);
}

#[test]
fn sec_b13_one_source_has_a_bounded_share_and_gives_it_back() {
    let mut queue = listening(8);
    let options = |port| ListenOptions { syn_backlog: 16, ..on(None, Some(port)) };
    let (first, second) = (open(&mut queue, options(80)).unwrap(), open(&mut queue, options(81)).unwrap());
    assert_eq!(first, LISTENER);
    let from = |port| HalfOpen { tuple: FourTuple { remote_port: port, ..record().tuple }, ..record() };
    let indices: Vec<u32> = (0..4).map(|port| queue.insert(from(port))).collect();
    let (remote, other) = (record().tuple.remote_addr, "10.0.0.3".parse().unwrap());
    let room = |queue: &mut Listening, id, remote| queue.room(Instant::ZERO, id, remote);
    assert_eq!(room(&mut queue, first, remote), Room::Cookie);
    assert_eq!(room(&mut queue, first, other), Room::Record);
    assert_eq!(room(&mut queue, second, remote), Room::Record);
    queue.remove(indices[0]);
    assert_eq!(room(&mut queue, first, remote), Room::Record);
    indices[1..].iter().for_each(|index| assert!(queue.remove(*index).is_some()));
    assert!(queue.by_source.is_empty());
}

#[test]
fn sec_b13_an_ipv6_source_is_its_64_bit_prefix() {
    let source = |addr: &str| Source::new(LISTENER, addr.parse().unwrap());
    assert_eq!(source("2001:db8:0:1::1"), source("2001:db8:0:1:ffff::"));
    assert_ne!(source("2001:db8:0:1::1"), source("2001:db8:0:2::1"));
    assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
}

// RFC 9768 §3.2.2.1
#[test]
fn a_cookie_agreed_on_the_form_of_ecn_that_its_acknowledgement_shows() {
    let (none, some) = (Flags::ACK, Flags::ACK | Flags::from_ace(0b010));
    let (accurate, classic) = (Offer::Accurate(Codepoint::NotEct), Offer::Classic);
    for (wanted, flags, expected) in [
        (Ecn::Off, none, Offer::None),
        (Ecn::Off, some, Offer::None),
        (Ecn::Classic, none, classic),
        (Ecn::Classic, some, classic),
        (Ecn::Accurate, none, classic),
        (Ecn::Accurate, some, accurate),
    ] {
        assert_eq!(ecn_of_cookie(wanted, flags), expected, "{wanted:?} {flags:?}");
    }
}

fn tuple() -> FourTuple {
    FourTuple::new("10.0.0.1:80".parse().unwrap(), "192.0.2.9:40000".parse().unwrap())
}

fn seconds(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1000)
}

const PLAIN: CookieOptions = CookieOptions { mss: 1460, with_timestamps: None };

#[test]
fn a_cookie_tells_the_mss_rounded_down() {
    let cookies = Cookies::new(&[1; 32]);
    let told = |mss| {
        let options = CookieOptions { mss, with_timestamps: None };
        let cookie = cookies.issue(seconds(5), &tuple(), SeqNum::new(7), options);
        cookies.check(seconds(6), &tuple(), SeqNum::new(7), cookie, None).map(|options| options.mss)
    };
    assert_eq!(told(1460), Some(1460));
    assert_eq!(told(1459), Some(1440));
    assert_eq!(told(9000), Some(8960));
    assert_eq!(told(100), Some(216));
}

#[test]
fn a_cookie_lives_at_most_128_seconds() {
    let cookies = Cookies::new(&[1; 32]);
    for issued in [0, 1, 63, 64, 100, 191, 64 * 1_000_003 + 9] {
        let cookie = cookies.issue(seconds(issued), &tuple(), SeqNum::new(7), PLAIN);
        let taken = |at| cookies.check(seconds(at), &tuple(), SeqNum::new(7), cookie, None) == Some(PLAIN);
        assert!((0..=64).all(|age| taken(issued + age)), "issued at {issued}");
        assert!((128..600).all(|age| !taken(issued + age)), "issued at {issued}");
    }
}

#[test]
fn a_cookie_is_bound_to_name_sequence_number_and_secret() {
    let cookies = Cookies::new(&[1; 32]);
    let now = seconds(1000);
    let cookie = cookies.issue(now, &tuple(), SeqNum::new(7), PLAIN);
    let other = FourTuple { remote_port: 40_001, ..tuple() };
    assert_eq!(cookies.check(now, &other, SeqNum::new(7), cookie, None), None);
    assert_eq!(cookies.check(now, &tuple(), SeqNum::new(8), cookie, None), None);
    assert_eq!(cookies.check(now, &tuple(), SeqNum::new(7), cookie + 1, None), None);
    assert_eq!(Cookies::new(&[2; 32]).check(now, &tuple(), SeqNum::new(7), cookie, None), None);
}

#[test]
fn extras_cannot_be_changed_on_the_way() {
    let cookies = Cookies::new(&[1; 32]);
    let extras = CookieExtras { window_scale: Some(7), sack: true, ecn: true };
    let options = CookieOptions { mss: 1460, with_timestamps: Some(extras) };
    let cookie = cookies.issue(seconds(9), &tuple(), SeqNum::new(7), options);
    let timestamp = cookie_timestamp(123_456, extras);
    let check = |echo| cookies.check(seconds(9), &tuple(), SeqNum::new(7), cookie, echo);
    assert_eq!(check(Some(timestamp)), Some(options));
    assert_eq!(check(None), None, "the timestamps were left out");
    assert_eq!(check(Some(timestamp ^ 1)), None, "another window scale");
    assert_eq!(check(Some(timestamp ^ 1 << 4)), None, "no SACK");
    assert_eq!(check(Some(timestamp ^ 1 << 5)), None, "no ECN");
}

#[test]
fn sec_a13_guessed_cookies_are_refused() {
    const GUESSES: u32 = 300_000;
    let cookies = Cookies::new(&[1; 32]);
    let mut rng = Rng::new(7);
    let mut taken = 0;
    for _ in 0..GUESSES {
        let [irs, cookie] = [(); 2].map(|()| SeqNum::new((rng.next_u64() >> 32) as u32));
        taken += u32::from(cookies.check(seconds(77), &tuple(), irs, cookie, None).is_some());
    }
    // 2^-28 each: one in a thousand runs of this size would have one, and this run is always the same.
    assert_eq!(taken, 0);
}

proptest! {
    #[test]
    fn the_timestamp_carries_the_extras_and_is_never_ahead_of_the_clock(
        clock in any::<u32>(), scale in prop::option::of(0_u8..=14), sack in any::<bool>(), ecn in any::<bool>(),
    ) {
        let extras = CookieExtras { window_scale: scale, sack, ecn };
        let timestamp = cookie_timestamp(clock, extras);
        prop_assert_eq!(extras_from(timestamp), extras);
        prop_assert!(clock.wrapping_sub(timestamp) < 64);
    }
}
