//! A custom congestion controller: Reno that leaves slow start when the round trip grows by a quarter.
//!
//!     cargo run --example custom_congestion_control
//!
//! The example registers it by name, checks it with the conformance kit, compares it with Reno and Vegas on a
//! simulated path, and then moves ten megabytes between two stacks.

use ackclock::Stack;
use ackclock_control::congestion::{
    Ack, Controller, IdleRestart, LossEpisode, Registry, SlowStart, Start, Timeout, Undo, Window, factory,
};
use ackclock_control::kit;
use ackclock_device::memory;
use ackclock_sim::units::{Rate, Span};
use ackclock_sim::{Direction, Scenario, Simulation, TcpSettings, TrafficConfig};
use anyhow::Context;
use tokio::io::AsyncWriteExt;

// ANCHOR: controller
#[derive(Debug)]
struct Wary(Window);

impl Controller for Wary {
    fn name(&self) -> &'static str {
        "wary"
    }
    fn on_ack(&mut self, ack: &Ack) {
        if ack.rtt_ns.is_some_and(|rtt| rtt / 5 > ack.rtt_min_ns / 4) {
            self.0.limit_slow_start(self.0.cwnd());
        }
        if !Window::may_grow(ack) {
        } else if self.0.in_slow_start() {
            self.0.slow_start(ack.bytes_acked, SlowStart::Counted);
        } else {
            self.0.reno_step(ack.bytes_acked);
        }
    }
    fn on_loss_episode(&mut self, loss: &LossEpisode) {
        self.0.reduce(self.0.half_of(loss.flight_size));
    }
    fn on_timeout(&mut self, timeout: &Timeout) {
        self.0.collapse(timeout, self.0.half_of(timeout.flight_size));
    }
    fn on_idle_restart(&mut self, idle: &IdleRestart) {
        self.0.restart(idle);
    }
    fn on_undo(&mut self, _: &Undo) {
        self.0.undo();
    }
    fn on_mss_change(&mut self, smss: u32) {
        self.0.set_smss(smss);
    }
    fn cwnd(&self) -> u64 {
        self.0.cwnd()
    }
    fn ssthresh(&self) -> u64 {
        self.0.ssthresh()
    }
}
// ANCHOR_END: controller

// ANCHOR: experiment
/// Ten seconds alone on 200 KB/s, 50 ms and ten buffers, the path of the Vegas paper.
fn experiment(name: &str, registry: &Registry) -> anyhow::Result<()> {
    let path = Direction::new(Rate::bytes_per_second(200_000), Span::millis(50)).buffers(10);
    let scenario = Scenario::new(Span::seconds(10))
        .host("a")
        .host("b")
        .link("a", "b", path)
        .tcp(TcpSettings { congestion: Some(name.to_owned()), ..TcpSettings::default() })
        .traffic(TrafficConfig::bulk("file", "a", "b", None));
    let report = Simulation::with_registry(&scenario, registry)?.run();
    let flow = report.flow("file").context("the flow of the scenario")?;
    let queue = report.link("a-b:there").context("the link of the scenario")?;
    println!(
        "{name:8} {:3.0} KB/s, {:2} segments retransmitted, {:4.1} packets queued on average",
        flow.goodput_bytes_per_second / 1e3,
        flow.there.retransmits,
        queue.queue_mean,
    );
    Ok(())
}
// ANCHOR_END: experiment

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    // ANCHOR: register
    let mut registry = Registry::builtin();
    registry.register(factory("wary", |start: &Start| Box::new(Wary(Window::new(start)))))?;
    let report = kit::examine(registry.find("wary")?.as_ref());
    print!("{report}");
    anyhow::ensure!(report.passed(), "not a controller for real connections");
    // ANCHOR_END: register
    for name in ["reno", "vegas", "wary"] {
        experiment(name, &registry)?;
    }

    // ANCHOR: connections
    let (left, right) = memory::pair(memory::Config::default());
    let client = Stack::builder().device(left).congestion_control(registry.find("wary")?)?;
    let client = client.address("10.0.0.1/24".parse()?).spawn()?;
    // ANCHOR_END: connections
    let server = Stack::builder().device(right).address("10.0.0.2/24".parse()?).spawn()?;
    let listener = server.listen("10.0.0.2:9".parse()?)?;
    let mut sender = client.connect("10.0.0.2:9".parse()?).await?;
    let (mut receiver, _) = listener.accept().await?;
    tokio::spawn(async move {
        sender.write_all(&vec![7; 10 << 20]).await?;
        println!("{:?}", sender.info().map(|info| (info.congestion, info.cwnd)));
        sender.shutdown().await
    });
    println!("{} bytes", tokio::io::copy(&mut receiver, &mut tokio::io::sink()).await?);
    Ok(())
}
