//! A custom congestion controller: Reno that leaves slow start when the round trip grows by a quarter.
//!
//!     cargo run --example custom_congestion_control
//!
//! The example registers it by name, checks it with the conformance kit, and then moves ten megabytes between
//! two stacks.

use ackclock::Stack;
use ackclock_control::congestion::{
    Ack, Controller, IdleRestart, LossEpisode, Registry, SlowStart, Start, Timeout, Undo, Window, factory,
};
use ackclock_control::kit;
use ackclock_device::memory;
use tokio::io::AsyncWriteExt;

#[derive(Debug)]
struct Wary(Window);

impl Controller for Wary {
    fn name(&self) -> &'static str {
        "wary"
    }
    fn on_ack(&mut self, ack: &Ack) {
        if ack.rtt.is_some_and(|rtt| rtt > ack.rtt_min * 5 / 4) {
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

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut registry = Registry::builtin();
    registry.register(factory("wary", |start: &Start| Box::new(Wary(Window::new(start)))))?;
    let report = kit::examine(registry.find("wary")?.as_ref());
    print!("{report}");
    anyhow::ensure!(report.passed(), "not a controller for real connections");

    let (left, right) = memory::pair(memory::Config::default());
    let client = Stack::builder().device(left).congestion_control(registry.find("wary")?)?;
    let client = client.address("10.0.0.1/24".parse()?).spawn()?;
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
