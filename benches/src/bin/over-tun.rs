//! One measurement of one program over TUN against the kernel's TCP: `over-tun --program ackclock --offload
//! --service sink`. The standard output is a line of JSON; `scripts/tun.py` alternates between the programs
//! and makes a table.

#![forbid(unsafe_code)]

use std::time::Duration;

use ackclock_benches::over_tun::{
    Beside, Client, Crowd, CrowdMeasured, Ground, Latencies, Measured, Program, Service, Settings,
};
use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use serde::Serialize;

/// Measures a program over TUN.
#[derive(Debug, Parser)]
struct OverTunArgs {
    /// Which.
    #[arg(long, required_unless_present = "command")]
    program: Option<Which>,
    /// Another program and its arguments, separated by spaces. It must create device pft0 with 10.77.0.1/24,
    /// own 10.77.0.2, and serve the same ports as tun-peer.
    #[arg(
        long,
        value_delimiter = ' ',
        conflicts_with_all = ["program", "offload", "buffer", "busy_poll", "zerocopy", "queues"]
    )]
    command: Vec<String>,
    /// The requested service.
    #[arg(long)]
    service: Service,
    /// With a virtio-net header, and packets of 64 KB whole.
    #[arg(long)]
    offload: bool,
    /// Bytes of this stack's buffers in each direction.
    #[arg(long)]
    buffer: Option<usize>,
    /// Microseconds for which this stack polls busily.
    #[arg(long)]
    busy_poll: Option<u64>,
    /// This stack sends and receives by slices.
    #[arg(long)]
    zerocopy: bool,
    /// Queues of this stack's device, each with a thread of its own.
    #[arg(long)]
    queues: Option<usize>,
    /// Connections at the same time. Each has its own thread of the client, unless `--together` is given.
    #[arg(long, default_value_t = 1)]
    flows: usize,
    /// Run all connections on one thread of the client, and measure how evenly they are served.
    #[arg(long)]
    together: bool,
    /// Measure one-byte round trips beside these connections, which share another thread.
    #[arg(long)]
    echo_beside: bool,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 4.0)]
    secs: f64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    Null,
    Ackclock,
    Kernel,
}

/// The line of the output.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Line {
    Rate {
        /// Bytes, round trips or connections a second.
        rate: f64,
        #[serde(flatten)]
        measured: Measured,
    },
    Crowd {
        /// Bytes or round trips a second.
        rate: f64,
        #[serde(flatten)]
        crowd: CrowdMeasured,
    },
    Latencies(Latencies),
}

fn main() -> anyhow::Result<()> {
    let args = OverTunArgs::parse();
    let folder = std::env::current_exe()?.parent().context("this program lies in a folder")?.to_owned();
    let program = args.program.map(|which| match which {
        Which::Null => Program::Null,
        Which::Kernel => Program::Kernel,
        Which::Ackclock => Program::Ackclock(Settings {
            buffer: args.buffer,
            busy_poll: args.busy_poll,
            queues: args.queues,
            zerocopy: args.zerocopy,
        }),
    });
    let ground = Ground::prepare(folder)?;
    let running = match program {
        Some(program) => ground.start(program, args.offload)?,
        None => ground.start_other(&args.command)?,
    };
    let time = Duration::from_secs_f64(args.secs);
    let rate = |measured: &Measured| measured.count as f64 / measured.seconds;
    let line = if args.echo_beside {
        Line::Latencies(Beside::connect(args.service, args.flows)?.measure(time)?)
    } else if args.together {
        let crowd = Crowd::connect(args.service, args.flows)?.measure(&running, time)?;
        Line::Crowd { rate: rate(&crowd.measured), crowd }
    } else {
        let measured = Client::connect(args.service, args.flows)?.measure(&running, time)?;
        Line::Rate { rate: rate(&measured), measured }
    };
    println!("{}", serde_json::to_string(&line)?);
    Ok(())
}
