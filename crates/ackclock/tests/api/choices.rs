//! Profiles, controllers and the other choices, by name and by value, on stack, socket, listener and stream.

use std::io::ErrorKind;
use std::time::Duration;

use ackclock::bandwidth::SenderEstimatorKind;
use ackclock::congestion::{Registry, Reno, factory};
use ackclock::profile::{AckPolicy, CHOICES, Choice, Ecn, Profile, Recovery, UndoChoice};
use ackclock::rtt::RtoConfig;
use ackclock::{BuildError, Instant, SimulatedOnly, Stack, TcpConfig};
use ackclock_device::memory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{accepted, addr, connection, host, hosts};

#[tokio::test]
async fn a_profile_is_chosen_on_stack_socket_and_listener() {
    let (left, right) = memory::pair(memory::Config::default());
    let client =
        host("10.0.0.1/24", "fd00::1/64").profile("vegas-1995").unwrap().device(left).spawn().unwrap();
    let server = host("10.0.0.2/24", "fd00::2/64").device(right).spawn().unwrap();

    let listener = server.listener().addr(addr("10.0.0.2:80")).profile("tahoe-1988").unwrap().bind().unwrap();
    let (stream, peer) = accepted(&client, &listener).await;
    let (info, peer) = (stream.info().unwrap(), peer.info().unwrap());
    assert_eq!((info.profile, info.congestion), ("vegas-1995", "vegas"));
    assert_eq!(info.rto_config, RtoConfig { ..Profile::find("vegas-1995").unwrap().choices.rto });
    assert!(!info.timestamps && !info.sack && info.window_scale.is_none(), "options of its time");
    assert_eq!((peer.profile, peer.congestion), ("tahoe-1988", "tahoe"));
    assert_eq!((info.cwnd, peer.cwnd), (u64::from(info.snd_mss), u64::from(peer.snd_mss)), "one segment");

    let socket = client.socket();
    socket.set_profile(Profile::find("sack-2003").unwrap()).unwrap();
    socket.set_congestion_control("vegas-2-4").unwrap();
    let (stream, _) = tokio::join!(socket.connect(addr("10.0.0.2:80")), listener.accept());
    let info = stream.unwrap().info().unwrap();
    assert_eq!((info.profile, info.congestion), ("sack-2003", "vegas-2-4"));
}

#[tokio::test]
async fn a_transfer_under_a_profile_of_1988_is_whole() {
    let (left, right) = memory::pair(memory::Config::default());
    let client =
        host("10.0.0.1/24", "fd00::1/64").profile("tahoe-1988").unwrap().device(left).spawn().unwrap();
    let server =
        host("10.0.0.2/24", "fd00::2/64").profile("reno-1990").unwrap().device(right).spawn().unwrap();
    let listener = server.listen(addr("10.0.0.2:80")).unwrap();
    let (mut stream, mut peer) = accepted(&client, &listener).await;
    let sent: Vec<u8> = (0..1_000_000_u32).map(|i| (i % 251) as u8).collect();
    let writing = async {
        stream.write_all(&sent).await.unwrap();
        stream.shutdown().await.unwrap();
    };
    let mut received = Vec::new();
    let (_, read) = tokio::join!(writing, peer.read_to_end(&mut received));
    read.unwrap();
    assert!(received == sent);
}

#[tokio::test]
async fn unknown_names_are_invalid_and_the_valid_ones_are_listed() {
    let hosts = hosts();
    let socket = hosts.client.socket();
    let (stream, _peer) = connection(&hosts).await;
    let checks = [
        (Stack::builder().profile("vegas").map(drop), "vegas-1995"),
        (Stack::builder().congestion_control("vega").map(drop), "vegas-star"),
        (socket.set_profile("reno"), "reno-1990"),
        (socket.set_congestion_control("renault"), "newreno"),
        (socket.set_recovery("rack"), "rack-tlp"),
        (socket.set_rto("jacobson"), "jacobson-1988"),
        (socket.set_rto("rfc6298,min=2s,max=1s"), "longer than the largest"),
        (
            socket.set_rto(RtoConfig { rto_max: Duration::ZERO, ..RtoConfig::default() }),
            "longer than the largest",
        ),
        (socket.set_undo("eifel"), "timestamps"),
        (socket.set_acks("lazy"), "window-share"),
        (socket.set_start_up("csaa"), "tcsa-prime"),
        (socket.set_start_up("csa:1"), "csa:5,0.2"),
        (socket.set_ecn("on"), "accurate"),
        (stream.set_congestion_control("renault"), "newreno"),
        (stream.set_recovery("rack"), "rack-tlp"),
        (stream.set_rto("jacobson"), "jacobson-1988"),
        (stream.set_rto(RtoConfig { granularity: Duration::MAX, ..RtoConfig::default() }), "tick"),
        (stream.set_undo("eifel"), "timestamps"),
        (stream.set_acks("lazy"), "window-share"),
        (stream.set_acks(AckPolicy::WindowShare { percent: 0, delay_max: Duration::ZERO }), "1 to 100 %"),
        (hosts.server.listener().profile("tahoe").map(drop), "tahoe-1988"),
        (hosts.server.listener().congestion_control("tahoo").map(drop), "tahoe"),
    ];
    for (result, expected) in checks {
        let error = result.expect_err(expected);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(expected), "{error} names no {expected}");
    }
}

#[tokio::test]
async fn single_choices_overrule_the_profile() {
    let hosts = hosts();
    let listener = hosts.server.listen(addr("10.0.0.2:80")).unwrap();
    let socket = hosts.client.socket();
    socket.set_profile("reno-1990").unwrap();
    socket.set_recovery("newreno").unwrap();
    socket.set_rto("rfc6298,min=1s").unwrap();
    socket.set_undo(UndoChoice::OFF).unwrap();
    socket.set_acks("window-share:50,100ms").unwrap();
    socket.set_start_up("csa:5,0.2").unwrap();
    socket.set_start_up("off").unwrap();
    socket.set_pacing(false).unwrap();
    socket.set_ecn(Ecn::Off).unwrap();
    let (stream, _) = tokio::join!(socket.connect(addr("10.0.0.2:80")), listener.accept());
    let stream = stream.unwrap();
    let info = stream.info().unwrap();
    assert_eq!((info.profile, info.congestion, info.recovery), ("reno-1990", "reno", Recovery::NewReno));
    assert_eq!(info.rto_config.rto_min, Duration::from_secs(1));
    let acks = AckPolicy::WindowShare { percent: 50, delay_max: Duration::from_millis(100) };
    assert_eq!(info.acks, acks);
}

#[tokio::test]
async fn every_choice_is_made_by_its_key() {
    let hosts = hosts();
    let listener = hosts.server.listen(addr("10.0.0.2:80")).unwrap();
    let (socket, mut builder) = (hosts.client.socket(), Stack::builder());
    let mut listening = hosts.server.listener();
    for choice in &CHOICES {
        let Choice { key, example, .. } = choice;
        socket.choose(key, example).unwrap();
        builder = builder.choose(key, example).unwrap();
        listening = listening.choose(key, example).unwrap();
        let (of_socket, of_stack) = (socket.config().choices, builder.config().choices);
        assert_eq!(
            (choice.get(&of_socket), choice.get(&of_stack)),
            (example.to_string(), example.to_string())
        );
    }
    assert_eq!(socket.config().choices, builder.config().choices);
    let (stream, _) = tokio::join!(socket.connect(addr("10.0.0.2:80")), listener.accept());
    let info = stream.unwrap().info().unwrap();
    assert_eq!((info.recovery, info.acks.to_string()), (Recovery::NewReno, "every-second:100ms".to_owned()));
    assert_eq!((info.timestamps, info.cwnd), (false, 3 * u64::from(info.snd_mss)));

    for (key, value, valid) in [
        ("idel", "keep", "the nearest is `idle`"),
        ("idle", "kept", "restart-window"),
        ("rto", "rfc6298,backoff=off", "simulated networks only"),
    ] {
        let refused = [
            hosts.client.socket().choose(key, value).unwrap_err(),
            Stack::builder().choose(key, value).unwrap_err(),
            hosts.server.listener().choose(key, value).unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(valid), "{error}");
        }
    }
}

#[tokio::test]
async fn choices_of_an_open_connection_change() {
    let hosts = hosts();
    let (mut stream, mut peer) = connection(&hosts).await;
    stream.set_recovery("newreno").unwrap();
    stream.set_rto("rfc6298-strict").unwrap();
    stream.set_acks(AckPolicy::BSD_4_3).unwrap();
    stream.set_undo("dsack").unwrap();
    let info = stream.info().unwrap();
    assert_eq!((info.recovery, info.acks), (Recovery::NewReno, AckPolicy::BSD_4_3));
    assert!(info.rto >= Duration::from_secs(1) && info.srtt > Duration::ZERO, "{info:?}");
    stream.write_all(b"still there").await.unwrap();
    peer.read_exact(&mut [0; 11]).await.unwrap();
}

#[tokio::test]
async fn a_users_own_controller_is_found_by_its_name() {
    let mine = factory("mine", |start| Box::new(Reno::new(start)));
    let (left, right) = memory::pair(memory::Config::default());
    let client =
        host("10.0.0.1/24", "fd00::1/64").register(mine.clone()).unwrap().device(left).spawn().unwrap();
    let server = host("10.0.0.2/24", "fd00::2/64").device(right).spawn().unwrap();
    let listener = server.listen(addr("10.0.0.2:80")).unwrap();
    let (stream, peer) = accepted(&client, &listener).await;
    stream.set_congestion_control("mine").unwrap();
    let unknown = peer.set_congestion_control("mine").unwrap_err();
    assert!(unknown.to_string().contains("`mine`"), "only where it was registered: {unknown}");
    let unknown = stream.set_congestion_control("yours").unwrap_err();
    assert!(unknown.to_string().contains(", mine, "), "{unknown}");
    client.socket().set_congestion_control("mine").unwrap();
    client.socket().set_profile(Profile { congestion: "mine", ..Profile::modern() }).unwrap();

    let taken = Stack::builder().register(factory("reno", |start| Box::new(Reno::new(start)))).unwrap_err();
    assert!(taken.to_string().contains("`reno`"), "{taken}");
    let mut registry = Registry::builtin();
    registry.register(mine).unwrap();
    let _ = Stack::builder().registry(registry).congestion_control("mine").unwrap();
}

/// A clock that stands still.
#[derive(Debug)]
struct Stopped;

impl ackclock::Clock for Stopped {
    fn now(&self) -> Instant {
        Instant::ZERO
    }
}

#[tokio::test]
async fn a_sender_without_congestion_control_is_for_simulated_networks_only() {
    let hosts = hosts();
    let experiments = Registry::with_experiments();
    let uncontrolled = experiments.find("none-1987").unwrap();
    let by_name = hosts.client.socket().set_profile("none-1987").unwrap_err();
    assert!(by_name.to_string().contains("simulated networks only"), "{by_name}");
    assert_eq!(by_name.downcast::<SimulatedOnly>().unwrap(), SimulatedOnly("none-1987"));
    // Its controller has a parameter, and its timer does not double.
    let of_1986 = hosts.client.socket().set_profile("bsd43-1986").unwrap_err();
    assert!(of_1986.to_string().contains("simulated networks only"), "{of_1986}");

    let (stream, _peer) = connection(&hosts).await;
    stream.set_congestion_control("none-1987").unwrap_err().downcast::<SimulatedOnly>().unwrap();
    stream.set_congestion_control(uncontrolled.clone()).unwrap_err().downcast::<SimulatedOnly>().unwrap();
    let tcp = TcpConfig { congestion: uncontrolled, ..TcpConfig::default() };
    let socket = hosts.client.socket();
    socket.set_config(tcp.clone()).unwrap();
    socket.connect(addr("10.0.0.2:80")).await.unwrap_err().downcast::<SimulatedOnly>().unwrap();
    hosts.server.listener().tcp(tcp).bind().unwrap_err().downcast::<SimulatedOnly>().unwrap();

    let (left, _right) = memory::pair(memory::Config::default());
    let on_device = Stack::builder().profile("none-1987").unwrap().device(left).spawn().unwrap_err();
    assert!(matches!(on_device, BuildError::SimulatedOnly(_)), "{on_device}");
    let (stack, _port) = Stack::builder().profile("none-1987").unwrap().detached(Stopped, 1500).unwrap();
    stack.socket().set_congestion_control("none-1987").unwrap();
}

#[test]
fn estimators_by_value_and_by_name_are_the_same() {
    assert_eq!("csa:3,0.1".parse(), SenderEstimatorKind::find("csa"));
}
