//! TCP over simulated paths does what TCP does.

use ackclock_sim::scenario::{Change, Jitter, Loss, PolicerConfig, Variation};
use ackclock_sim::units::{Bytes, Limit, Rate, Share, Span};
use ackclock_sim::{Direction, QueueConfig, Scenario, Simulation, TcpSettings, TrafficConfig};

use super::{bottleneck, dumbbell};

fn endless(name: &str, from: &str, to: &str) -> TrafficConfig {
    TrafficConfig::bulk(name, from, to, None)
}

#[test]
fn the_modern_profile_fills_a_bottleneck() {
    let scenario = dumbbell(Span::seconds(20), bottleneck()).traffic(endless("bulk", "a", "b"));
    let report = Simulation::new(&scenario).unwrap().run();
    let link = report.link("left-right:there").unwrap();
    assert!(link.utilisation >= 0.95, "{link:?}");
    // Headers take 52 of 1500 bytes.
    let goodput = report.flows[0].goodput_bytes_per_second;
    assert!((0.90..0.97).contains(&(goodput / 1_000_000.0)), "{goodput}");
    let rtt = report.flows[0].there.rtt;
    assert!(rtt.mean > 0.044 && rtt.p99 < 0.13 && rtt.count > 100, "{rtt:?}");
}

#[test]
fn two_renos_share_a_bottleneck() {
    let mut scenario = dumbbell(Span::seconds(120), bottleneck()).tcp(TcpSettings::profile("sack-2003"));
    // Without noise, the losses of a drop-tail queue fall on the flow whose packets arrive just after
    // another's: Floyd and Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways", 1992. Their
    // remedy is a random delay of up to one packet's time at the bottleneck.
    let jitter = Jitter { by: Variation::Uniform(Span(1_500_000)), may_reorder: false };
    let access = Direction { jitter: Some(jitter), ..Direction::new(Rate::mbit(100), Span::millis(1)) };
    scenario.links[0].there.jitter = Some(jitter);
    scenario = scenario.host("c").host("d").link("c", "left", access.clone()).link("right", "d", access);
    let scenario = scenario
        .traffic(endless("first", "a", "b"))
        .traffic(endless("second", "c", "d").start(Span::seconds(2)));
    let report = Simulation::new(&scenario).unwrap().run();
    assert!(report.jain_index > 0.9, "{report:#?}");
    assert!(report.link("left-right:there").unwrap().utilisation > 0.9);
}

#[test]
fn traffic_in_both_directions_fills_both() {
    let scenario = dumbbell(Span::seconds(30), bottleneck())
        .traffic(endless("there", "a", "b"))
        .traffic(endless("back", "b", "a"));
    let report = Simulation::new(&scenario).unwrap().run();
    for name in ["left-right:there", "left-right:back"] {
        assert!(report.link(name).unwrap().utilisation > 0.8, "{:?}", report.link(name));
    }
}

#[test]
fn a_chain_of_five_routers_carries_at_its_slowest_link() {
    let mut scenario = Scenario::new(Span::seconds(20)).host("a").host("b");
    let rates = [20, 12, 8, 16, 10, 20];
    let names: Vec<String> = (0..5).map(|n| format!("r{n}")).collect();
    for name in &names {
        scenario = scenario.router(name);
    }
    let path: Vec<&str> = std::iter::once("a").chain(names.iter().map(String::as_str)).chain(["b"]).collect();
    for (hop, rate) in path.windows(2).zip(rates) {
        let direction = Direction::new(Rate::mbit(rate), Span::millis(3)).buffers(60);
        scenario = scenario.link(hop[0], hop[1], direction);
    }
    let report = Simulation::new(&scenario.traffic(endless("bulk", "a", "b"))).unwrap().run();
    let utilisations: Vec<f64> = report.links.iter().step_by(2).map(|link| link.utilisation).collect();
    assert!(utilisations[2] > 0.95, "{utilisations:?}");
    assert!(utilisations[0] < 0.5, "{utilisations:?}");
}

#[test]
fn a_fixed_window_fills_a_deep_queue_where_a_tuned_one_does_not() {
    let peak = |settings: TcpSettings| {
        let slow = Direction::new(Rate::bits_per_second(256_000), Span::millis(50)).buffers(200);
        let scenario = dumbbell(Span::seconds(60), slow).tcp(settings).traffic(endless("bulk", "a", "b"));
        Simulation::new(&scenario).unwrap().run().link("left-right:there").unwrap().queue_peak
    };
    let reno = TcpSettings::profile("sack-2003");
    // The first window of 64 KiB is 45 segments, and stays.
    let tuned = peak(reno.clone());
    assert!((40..50).contains(&tuned), "{tuned}");
    assert_eq!(peak(reno.fixed_window(1_000_000)), 200);
}

#[test]
fn codel_keeps_the_delay_low_where_drop_tail_fills() {
    let delay = |queue| {
        let scenario = dumbbell(Span::seconds(40), bottleneck().queue(queue))
            .tcp(TcpSettings::profile("sack-2003"))
            .traffic(endless("bulk", "a", "b"));
        let report = Simulation::new(&scenario).unwrap().run();
        let link = report.link("left-right:there").unwrap();
        assert!(link.utilisation > 0.75, "{link:?}");
        (link.queue_delay.mean, link.queue_peak)
    };
    let (bloated, peak) = delay(QueueConfig::drop_tail(Limit::Packets(400)));
    // The receiver's window is tuned to twice what arrives in the shortest round trip, so one such product
    // waits: 44 ms.
    assert!((0.035..0.055).contains(&bloated) && peak <= 400, "{bloated}");
    for queue in
        [QueueConfig::codel(Limit::Packets(400), false), QueueConfig::fq_codel(Limit::Packets(400), false)]
    {
        let (mean, _) = delay(queue);
        assert!(mean < bloated / 3.0, "{mean} against {bloated}");
    }
}

#[test]
fn red_drops_before_its_queue_is_full() {
    let red = QueueConfig::Red {
        limit: Limit::Packets(200),
        min: 10,
        max: 30,
        max_p: Share::percent(10),
        weight_shift: 7,
        gentle: true,
        mark: false,
    };
    let scenario = dumbbell(Span::seconds(30), bottleneck().queue(red))
        .tcp(TcpSettings::profile("sack-2003"))
        .traffic(endless("bulk", "a", "b"));
    let report = Simulation::new(&scenario).unwrap().run();
    let link = report.link("left-right:there").unwrap();
    assert!(link.dropped() > 0 && link.dropped_by(ackclock_sim::queue::DropRule::QueueFull) == 0, "{link:?}");
    // A window that is halved to no less than half the path's product, and grows back evenly, fills three
    // quarters of it.
    assert!(link.utilisation > 0.75 && link.queue_mean < 30.0, "{link:?}");
}

#[test]
fn a_policer_holds_a_flow_to_its_rate() {
    let policer = PolicerConfig { rate: Rate::mbit(2), burst: Bytes(30_000), mark: false };
    let scenario = dumbbell(Span::seconds(20), Direction { policer: Some(policer), ..bottleneck() })
        .traffic(endless("bulk", "a", "b"));
    let report = Simulation::new(&scenario).unwrap().run();
    let sent = report.link("left-right:there").unwrap().sent_bytes;
    assert!(sent <= 20 * 250_000 + 30_000 && sent > 20 * 250_000 * 7 / 10, "{sent}");
}

#[test]
fn loss_by_chance_costs_retransmissions_of_as_much() {
    let lossy = bottleneck().loss(Loss::Independent(Share::percent(1)));
    let scenario = dumbbell(Span::seconds(60), lossy).traffic(endless("bulk", "a", "b"));
    let report = Simulation::new(&scenario).unwrap().run();
    let flow = &report.flows[0].there;
    let lost = report.link("left-right:there").unwrap().dropped();
    assert!(flow.retransmits >= lost * 9 / 10 && flow.retransmits <= lost * 2 + 20, "{lost} lost, {flow:?}");
}

#[test]
fn an_old_profile_ends_with_its_window_and_a_small_one_limits() {
    // 16 KB a round trip of 44 ms and more: at most 372 KB/s, on a link of 1 MB/s.
    let settings = TcpSettings { receive_buffer: Some(Bytes(16_384)), ..TcpSettings::profile("tahoe-1988") };
    let scenario = dumbbell(Span::seconds(20), bottleneck()).tcp(settings).traffic(endless("bulk", "a", "b"));
    let report = Simulation::new(&scenario).unwrap().run();
    let goodput = report.flows[0].goodput_bytes_per_second;
    assert!((150_000.0..372_000.0).contains(&goodput), "{goodput}");
    assert_eq!(report.flows[0].there.retransmits, 0);
}

#[test]
fn marks_take_the_place_of_drops() {
    let run = |queue| {
        let settings = TcpSettings::profile("modern").choose("ecn", "classic");
        let scenario = dumbbell(Span::seconds(20), bottleneck().queue(queue))
            .tcp(settings)
            .traffic(endless("bulk", "a", "b"));
        Simulation::new(&scenario).unwrap().run()
    };
    let limit = Limit::Packets(400);
    let red = QueueConfig::Red {
        limit,
        min: 5,
        max: 15,
        max_p: Share::percent(10),
        weight_shift: 7,
        gentle: true,
        mark: true,
    };
    let drop_tail = QueueConfig::DropTail { limit, mark_above: Some(Limit::Packets(20)) };
    for queue in [drop_tail, red, QueueConfig::codel(limit, true), QueueConfig::fq_codel(limit, true)] {
        let report = run(queue.clone());
        let link = report.link("left-right:there").unwrap();
        assert!(link.marked > 0 && link.dropped() == 0, "{queue:?}: {link:?}");
        assert_eq!(report.flows[0].there.retransmits, 0, "{queue:?}");
        assert!(link.utilisation > 0.75, "{queue:?}: {link:?}");
    }
}

// RFC 4015 step 11. Each jump of the delay causes a timeout or none, and any timeout is wrong.
#[test]
fn wrong_timeouts_make_the_timer_more_patient() {
    let (mut jumps, mut timeouts, mut bytes) = (0, 0, 0);
    for (window, recovery) in [(2, "rack-tlp"), (2, "newreno"), (8, "rack-tlp"), (8, "newreno")] {
        let modern = TcpSettings::profile("modern").choose("recovery", recovery);
        let mut scenario = dumbbell(Span::seconds(120), bottleneck()).tcp(modern.fixed_window(window * 1448));
        scenario.links[1].name = Some("wan".into());
        for second in 1..120 {
            for (after, delay) in [(0, 320), (300, 20)] {
                let change = Change::new(Span::millis(1000 * second + after), "wan");
                scenario = scenario.change(Change { delay: Some(Span::millis(delay)), ..change });
            }
            jumps += 1;
        }
        let report = Simulation::new(&scenario.traffic(endless("bulk", "a", "b"))).unwrap().run();
        let sent = report.flows[0].there;
        println!("{recovery}, {window} segments: {} timeouts, {} bytes", sent.timeouts, sent.bytes);
        timeouts += sent.timeouts;
        bytes += sent.bytes;
    }
    // With averages of samples only, it is 0.97 a jump, and the path carries 2 % more.
    let rate = timeouts as f64 / f64::from(jumps);
    assert!((0.6..0.9).contains(&rate), "{timeouts} timeouts in {jumps} jumps");
    assert!((33_000_000..35_000_000).contains(&bytes), "{bytes}");
}
