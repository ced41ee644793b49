//! `tcpcat demo`: two hosts in user space and the kernel's TCP exchange data in a private network, with and
//! without loss.
//!
//! It changes nothing outside the process: its network namespace ends with it. Without a namespace and
//! without a requested device, a cable of memory joins the two hosts, and the kernel takes no part.

mod exchange;
mod network;
mod table;
mod transfer;
mod wires;

use std::time::Duration;

use ackclock_cli::{Exit, Failure};
use ackclock_control::quantity::Share;

pub(crate) use self::network::Ground;
use self::network::{Hosts, Trace};
use self::table::{Row, Table};
use self::transfer::Route;
use crate::args::DemoArgs;
use crate::json;

/// Enters the private network if that is possible. Call it before the process has threads.
pub(crate) fn prepare(args: &DemoArgs) -> Ground {
    if args.memory {
        Ground::memory("--memory asks for it")
    } else {
        Ground::enter(args.device.unwrap_or_default())
    }
}

/// Runs the demonstration.
pub(crate) async fn run(args: DemoArgs, ground: Option<Ground>) -> Exit {
    let ground = ground.unwrap_or_else(|| Ground::memory("nothing was prepared"));
    let (table, bytes) = (Table::new(args.json), args.bytes);
    if let (Ground::Memory { why }, Some(_)) = (&ground, args.device) {
        let failure =
            Failure::new(Exit::Device, format!("the demonstration cannot make its private network: {why}"));
        return json::fail(&failure.remedy("run it as root, or without --device to use memory"), args.json);
    }
    say!("{ground}");
    let trace = match args.trace.as_deref().map(Trace::begin).transpose() {
        Ok(trace) => trace,
        Err(failure) => return json::fail(&failure, args.json),
    };
    let rounds = rounds(&args, ground, &table, trace.as_ref()).await;
    if let Some(trace) = &trace {
        trace.file.tell(true);
    }
    match rounds {
        Ok(rows) => {
            let failed = rows.iter().find_map(|row| row.failure.as_ref().map(Failure::exit));
            table.finish(&rows);
            if rows.iter().any(|row| row.moved_less_than(bytes)) {
                say!("A transfer that moved less was stopped after {} s.", transfer::TIME_MAX.as_secs());
            }
            failed.unwrap_or(Exit::Done)
        }
        Err(failure) => json::fail(&failure, args.json),
    }
}

async fn rounds(
    args: &DemoArgs,
    ground: Ground,
    table: &Table,
    trace: Option<&Trace>,
) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let losses = if args.loss > Share::ZERO { vec![Share::ZERO, args.loss] } else { vec![Share::ZERO] };
    let mut ground = ground;
    let control = args.control_socket.as_deref();
    for loss in losses {
        let hosts = match Hosts::build(&ground, loss, trace, control).await {
            Ok(hosts) => hosts,
            // The devices are not available after all: use memory instead.
            Err(failure) if rows.is_empty() && !ground.is_memory() && args.device.is_none() => {
                ground = Ground::memory(&failure.to_string());
                say!("{ground}");
                Hosts::build(&ground, loss, trace, control).await?
            }
            Err(failure) => return Err(failure),
        };
        for route in Route::all(ground.is_memory()) {
            table.begin(route, loss);
            let moving = transfer::run(&hosts, route, args.bytes);
            let result = tokio::time::timeout(TRANSFER_TIME_MAX, moving).await.unwrap_or_else(|_| {
                Err(Failure::new(Exit::Failed, format!("incomplete after {} s", TRANSFER_TIME_MAX.as_secs())))
            });
            let row = Row::new(route, loss, args.bytes, result);
            table.show(&row);
            rows.push(row);
        }
        hosts.close().await;
    }
    Ok(rows)
}

/// The longest that a transfer may take to finish after its time.
const TRANSFER_TIME_MAX: Duration = Duration::from_secs(30);
