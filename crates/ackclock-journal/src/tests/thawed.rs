//! The oracle of frozen endpoints: a recording is cut at a call, the endpoint frozen and thawed, and the rest
//! of its calls made on the thawed one. Every packet, result and trace must be the recorded one.

use super::*;
use ackclock_core::State;
use ackclock_core::congestion::{Ack, Controller, LossEpisode, Start, Timeout, factory};

/// Replays a recording, with the endpoint thawed before each call that `cut` chooses. Returns the number of
/// cuts.
fn cut(file: &[u8], mut cut: impl FnMut(u64) -> bool) -> u64 {
    let mut replay = Replay::open(file, &Registry::with_experiments(), Changes::default()).unwrap();
    let mut cuts = 0;
    loop {
        let call = replay.calls();
        if cut(call) {
            cuts += 1;
            let form = replay.thaw_in_place().unwrap_or_else(|why| panic!("before call {call}: {why}"));
            let again = replay.endpoint_mut().freeze().unwrap();
            assert!(form == again, "before call {call}: the thawed endpoint has another form");
        }
        let Some(step) = replay.step(|_, _| ()).unwrap() else { break };
        assert_eq!(step.departure, None, "call {call}");
        while replay.endpoint_mut().poll_trace().is_some() {}
    }
    assert_eq!(replay.end(), Some(JournalEnd::Closed));
    cuts
}

#[test]
fn lossy_transfer_goes_on_from_its_form_before_any_call() {
    let recorded = Transfer::run(150_000, 40, u64::MAX);
    for file in [&recorded.file, &recorded.server_file] {
        let cuts = cut(file, |_| true);
        assert!(cuts > 500, "{cuts} cuts");
    }
}

/// A controller of a program, without a form.
#[derive(Debug)]
struct Formless(u64);

impl Controller for Formless {
    fn name(&self) -> &'static str {
        "formless"
    }
    fn on_ack(&mut self, ack: &Ack) {
        self.0 += ack.bytes_acked;
    }
    fn on_loss_episode(&mut self, _: &LossEpisode) {}
    fn on_timeout(&mut self, _: &Timeout) {}
    fn on_mss_change(&mut self, _: u32) {}
    fn cwnd(&self) -> u64 {
        self.0
    }
    fn ssthresh(&self) -> u64 {
        u64::MAX
    }
}

#[test]
fn controller_without_a_form_begins_again_with_its_window_and_is_named() {
    let mut registry = Registry::builtin();
    let formless = factory("formless", |start: &Start| Box::new(Formless(start.initial_window)));
    registry.register(formless.clone()).unwrap();
    let mut header = header("10.0.0.1");
    header.config.tcp = TcpConfig { congestion: formless, ..TcpConfig::default() }.into();
    let mut client = Endpoint::new(header.config, header.start);
    let mut server = Endpoint::new(self::header("10.0.0.22").config, header.start);
    let mut now = header.start;
    server.listen(now, ListenOptions::new(ListenAddr { addr: None, port: Some(7) })).unwrap();
    let to = SocketAddr::new("10.0.0.22".parse().unwrap(), 7);
    let id = client.connect(now, to, (None, 0), None).unwrap();
    for turn in 0..6 {
        if turn == 2 {
            client.update(now, id, |connection, now| connection.write(now, &[1; 20_000]).unwrap());
        }
        for [from, to] in [[0, 1], [1, 0]] {
            let ends = [&mut client, &mut server];
            while let Some(packet) = ends[from].poll_transmit(now, LIMITS).map(|packet| packet.to_vec()) {
                let meta = RxMeta { checksum: ChecksumState::Verified, segment_size: None };
                ends[to].handle_packet(now, &packet, meta);
            }
        }
        // As long as an acknowledgement may wait.
        now = now.plus_nanos(50_000_000);
        client.handle_timeout(now);
        server.handle_timeout(now);
    }
    let cwnd = client.connection(id).unwrap().info(now).cwnd;
    assert!(cwnd > 20_000, "{cwnd}: the window has grown");
    let thawed = Endpoint::thaw(&client.freeze().unwrap(), &registry, usize::MAX).unwrap();
    assert_eq!(thawed.begun_again, ["formless"]);
    assert_eq!(thawed.endpoint.connection(id).unwrap().info(now).cwnd, cwnd);
    let unknown = Endpoint::thaw(&client.freeze().unwrap(), &Registry::builtin(), usize::MAX).unwrap_err();
    assert!(unknown.to_string().contains("formless"), "{unknown}");
}

/// A sender in the middle of a lossy transfer, as version 1 wrote it (with `UPDATE_SNAPSHOTS=1`). Later
/// versions must read it, and keep one of their own beside it.
#[test]
fn form_of_version_1_is_read() {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/version-1.form");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        let recorded = Transfer::run(20_000, 40, u64::MAX);
        let mut replay = Replay::open(&recorded.file[..], &Registry::builtin(), Changes::default()).unwrap();
        let is_half_done = |replay: &mut Replay<&[u8]>| {
            let now = replay.now();
            let infos: Vec<_> = replay.endpoint_mut().connections().map(|(_, one)| one.info(now)).collect();
            infos.iter().any(|info| info.bytes_acked > 0 && info.send_queue > 0)
        };
        while !is_half_done(&mut replay) {
            replay.step(|_, _| ()).unwrap().expect("the recording has more calls");
        }
        std::fs::write(kept, replay.endpoint_mut().freeze().unwrap()).unwrap();
    }
    let form = std::fs::read(kept).unwrap();
    let mut endpoint = Endpoint::thaw(&form, &Registry::builtin(), 1 << 30).unwrap().endpoint;
    let (id, tuple) = endpoint.connections().map(|(id, connection)| (id, connection.tuple())).next().unwrap();
    assert_eq!(tuple.remote().to_string(), "10.0.0.22:7");
    // Later than the cut; the endpoint takes that for a pause.
    let now = Instant::from_millis(500);
    let info = endpoint.connection(id).unwrap().info(now);
    assert_eq!(info.state, State::Established);
    assert!(info.bytes_acked > 0 && info.send_queue > 0, "{info:?}");
    endpoint.handle_timeout(now);
    let packet = endpoint.poll_transmit(now, LIMITS).expect("the rest of the stream may leave").to_vec();
    assert_eq!(packet[16..20], [10, 0, 0, 22]);
}

#[test]
fn form_that_asks_for_more_memory_than_is_allowed_is_refused() {
    let form = Endpoint::new(header("10.0.0.1").config, Instant::ZERO).freeze().unwrap();
    let refused = Endpoint::thaw(&form, &Registry::builtin(), 1000).unwrap_err();
    assert!(refused.to_string().contains("memory budget"), "{refused}");
}
