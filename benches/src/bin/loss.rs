//! Compares this stack's sender with the Linux kernel's over the same emulated path, which loses the same
//! packets of both.
//!
//! `loss --rtt 20ms --loss 1% --cc cubic --receiver linux --rounds 5 --secs 4`. Each line of the standard
//! output is one run as JSON; text for people goes to the standard error. `scripts/loss.py` makes the table
//! of `docs/benchmarks.md` from the lines.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use ackclock_benches::race::{Cell, Flow, Party, RaceResult, Run};
use ackclock_sim::units::{Rate, Share, Span};
use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use serde::Serialize;

/// Compares this stack's sender with the Linux kernel's over an emulated path.
#[derive(Debug, Parser)]
struct LossArgs {
    /// Round trips of the paths, as in 0.1ms,20ms.
    #[arg(long, value_delimiter = ',', required = true)]
    rtt: Vec<Span>,
    /// Probability that a data packet is lost, as in 0%,1%.
    #[arg(long, value_delimiter = ',', default_value = "0%")]
    loss: Vec<Share>,
    /// Probability that a pure acknowledgement is lost; unless given, the same as that of data.
    #[arg(long)]
    ack_loss: Option<Share>,
    /// Rates of the bottleneck, as in unlimited,100Mbit/s.
    #[arg(long, value_delimiter = ',', default_value = "unlimited")]
    rate: Vec<Rate>,
    /// Controllers, of both senders.
    #[arg(long, value_delimiter = ',', default_value = "cubic")]
    cc: Vec<String>,
    /// Controller of this stack's sender, if it is another one.
    #[arg(long)]
    ours: Option<String>,
    /// Receivers.
    #[arg(long, value_delimiter = ',', default_value = "linux")]
    receiver: Vec<Whose>,
    /// Senders, in turn; `both` send at the same time through the same bottleneck, and take turns in
    /// beginning; `linux-twice` is two of the kernel's in their place, for comparison.
    #[arg(long, value_delimiter = ',', default_value = "linux,ackclock")]
    sender: Vec<Sending>,
    /// Rounds; in each every sender has its turn, and other packets are lost.
    #[arg(long, default_value_t = 1)]
    rounds: u64,
    /// Seconds that are measured of each run.
    #[arg(long, default_value_t = 4.0)]
    secs: f64,
    /// The first round's seed; the next rounds count up.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes the trace of this stack's sender there, for `tcplab explain`; of several runs the last.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Writes the packets of each sender to DIR/SENDER.pcapng; of several rounds the last.
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Whose {
    Linux,
    Ackclock,
}

#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
enum Sending {
    Linux,
    Ackclock,
    Both,
    LinuxTwice,
}

/// A line of the output.
#[derive(Debug, Serialize)]
struct Line<'a> {
    cell: &'a Cell,
    seed: u64,
    round: u64,
    #[serde(flatten)]
    outcome: &'a RaceResult,
}

fn main() -> anyhow::Result<()> {
    let args = LossArgs::parse();
    ackclock_device::netns::enter_private().context("the two hosts are network namespaces")?;
    for cell in cells(&args) {
        for round in 0..args.rounds {
            let mut goodputs = Vec::new();
            for &sending in &args.sender {
                let outcome = run(&args, &cell, args.seed + round, sending)?;
                let line = Line { cell: &cell, seed: args.seed + round, round, outcome: &outcome };
                println!("{}", serde_json::to_string(&line)?);
                outcome.flows.iter().for_each(|flow| tell(&cell, flow, &outcome));
                goodputs.extend(outcome.flows.iter().map(|flow| (flow.party, flow.goodput_bps)));
            }
            goodputs.sort_by_key(|(party, _)| *party == Party::Ackclock);
            if let [(Party::Linux, linux), (Party::Ackclock, ours)] = goodputs[..] {
                eprintln!("  ackclock : linux = {:.3}", ours / linux);
            }
        }
    }
    Ok(())
}

fn cells(args: &LossArgs) -> Vec<Cell> {
    let mut cells = Vec::new();
    for cc in &args.cc {
        for &receiver in &args.receiver {
            for rate in &args.rate {
                for &rtt in &args.rtt {
                    for &loss in &args.loss {
                        cells.push(Cell {
                            rtt_us: rtt.0 / 1000,
                            loss,
                            loss_back: args.ack_loss.unwrap_or(loss),
                            rate_bps: (!rate.is_unlimited()).then(|| rate.bits()),
                            controller: cc.clone(),
                            our_controller: args.ours.as_ref().unwrap_or(cc).clone(),
                            receiver: match receiver {
                                Whose::Linux => Party::Linux,
                                Whose::Ackclock => Party::Ackclock,
                            },
                        });
                    }
                }
            }
        }
    }
    cells
}

fn run(args: &LossArgs, cell: &Cell, seed: u64, sending: Sending) -> anyhow::Result<RaceResult> {
    let (senders, name) = match sending {
        Sending::Linux => (vec![Party::Linux], "linux"),
        Sending::Ackclock => (vec![Party::Ackclock], "ackclock"),
        Sending::Both if seed.is_multiple_of(2) => (vec![Party::Ackclock, Party::Linux], "both"),
        Sending::Both => (vec![Party::Linux, Party::Ackclock], "both"),
        Sending::LinuxTwice => (vec![Party::Linux, Party::Linux], "linux-twice"),
    };
    let pcap = args.pcap.as_deref().map(|folder: &Path| folder.join(format!("{name}.pcapng")));
    let (time, trace) = (Duration::from_secs_f64(args.secs), args.trace.clone());
    Ok(Run { cell: cell.clone(), senders, time, seed, trace, pcap }.run()?)
}

fn tell(cell: &Cell, flow: &Flow, outcome: &RaceResult) {
    let Flow { party, goodput_bps, says, seen, probes, .. } = flow;
    let again = 100.0 * seen.bytes_again as f64 / seen.data_bytes.max(1) as f64;
    let rate = cell.rate_bps.map_or_else(String::new, |bps| format!(" {} Mbit/s", bps / 1_000_000));
    let dropped = match outcome.dropped_besides {
        0 => String::new(),
        count => format!(", {count} DROPPED BESIDES"),
    };
    let probes = probes.map_or_else(String::new, |count| format!(" {count} probes"));
    let sender = match party {
        Party::Linux => "linux   ",
        Party::Ackclock => "ackclock",
    };
    eprintln!(
        "{:>5} ms {:>4} %{rate} to {:?}: {sender} {:<6} {:>9.2} Mbit/s, again {again:.2} % (loss {:.2} %, \
         full {}), silence {:.0} ms, {} pauses, {} RTOs{probes}, rtt {}/{} us, cwnd {}, late {}/{}/{} us, \
         write {} ns{dropped}",
        cell.rtt_us as f64 / 1000.0,
        cell.loss.fraction() * 100.0,
        cell.receiver,
        says.controller,
        goodput_bps / 1e6,
        100.0 * outcome.path.there.lost as f64 / outcome.path.there.drawn.max(1) as f64,
        outcome.path.there.queue_full,
        seen.silence_max_ns as f64 / 1e6,
        seen.pauses,
        says.timeouts,
        says.rtt_min_us,
        says.srtt_us,
        says.cwnd_segments,
        outcome.path.late_ns[0] / 1000,
        outcome.path.late_ns[1] / 1000,
        outcome.path.late_ns[2] / 1000,
        outcome.path.write_ns,
    );
}
