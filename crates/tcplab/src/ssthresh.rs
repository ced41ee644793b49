//! `tcplab ssthresh`: how estimates of the bandwidth at the start of a connection would have done on captured
//! ones.

use ackclock_cli::{Exit, Failure};
use ackclock_control::bandwidth::SenderEstimatorKind;
use serde::Serialize;

use crate::recorded::{self, Inputs, Remarks};
use ackclock_assess::{EstimateRow as Row, Estimator, StartUp, Unfit, transfers};

/// Options of `tcplab ssthresh`.
#[derive(Debug, clap::Args)]
pub(crate) struct SsthreshArgs {
    #[command(flatten)]
    inputs: Inputs,
    /// A further estimator at the sender, beside the paper's: `csa:5,0.2`, `tssf:5` or `packet-pair`; may be
    /// repeated
    #[arg(long, value_name = "WORDS")]
    estimator: Vec<String>,
    /// Number of samples that the receiver takes (K)
    #[arg(long, value_name = "K", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=256))]
    samples: u16,
}

/// A connection, and each estimator's result on it. Rates are in bytes a second.
#[derive(Debug, Serialize)]
struct Connection {
    #[serde(flatten)]
    about: recorded::Connection,
    rtt_seconds: f64,
    /// B.
    bottleneck: u64,
    /// L.
    loss_point: Option<u64>,
    /// L′.
    largest: u64,
    /// E of each estimator.
    estimates: Vec<(String, Option<u64>)>,
}

/// All results, for programs.
#[derive(Debug, Serialize)]
struct SsthreshReport {
    #[serde(flatten)]
    remarks: Remarks,
    estimators: Vec<Row>,
    connections: Vec<Connection>,
}

pub(crate) fn run(args: &SsthreshArgs) -> anyhow::Result<Exit> {
    let estimators = chosen(args)?;
    let captures = args.inputs.open()?;
    let (transfers, left_out) = transfers(&captures.vantages, args.inputs.side);
    let (mut start_ups, mut connections) = (Vec::new(), Vec::new());
    let (mut assessed, mut unfit) = (Vec::new(), Vec::<Unfit>::new());
    for transfer in &transfers {
        match StartUp::new(transfer) {
            Ok(start_up) => {
                connections.push(Connection::new(
                    recorded::Connection::new(transfer),
                    &start_up,
                    &estimators,
                ));
                start_ups.push(start_up);
                assessed.push(transfer);
            }
            Err(why) => unfit.push(why),
        }
    }
    let rows = estimators.iter().map(|estimator| Row::new(*estimator, &estimator.regions(&start_ups)));
    let report = SsthreshReport {
        remarks: Remarks::new(&captures, &assessed, &left_out, &unfit),
        estimators: rows.collect(),
        connections,
    };

    report.remarks.say();
    if args.inputs.verbose {
        args.inputs.print(&report.detail())?;
    }
    let csv = args.inputs.csv;
    let cells = |of: fn(&Row, bool) -> Vec<String>| -> Vec<Vec<String>> {
        report.estimators.iter().map(|row| of(row, csv)).collect()
    };
    let tables = [
        recorded::table_of(&Row::LOSS_HEAD, &cells(Row::loss_cells), csv),
        recorded::table_of(&Row::LOSSLESS_HEAD, &cells(Row::lossless_cells), csv),
    ];
    let mut text = tables.join("\n");
    if !csv {
        text += &format!("\n{}", Row::LEGEND);
    }
    args.inputs.print(&text)?;
    args.inputs.write_json(&report)?;
    report.remarks.exit()
}

/// The paper's estimators, and the requested ones.
fn chosen(args: &SsthreshArgs) -> anyhow::Result<Vec<Estimator>> {
    let paper = Estimator::of_the_paper().into_iter().map(|estimator| match estimator {
        Estimator::Receiver(combined, _) => Estimator::Receiver(combined, args.samples.into()),
        other => other,
    });
    let mut estimators: Vec<Estimator> = paper.collect();
    for words in &args.estimator {
        let kind = SenderEstimatorKind::find(words).map_err(|error| Failure::usage(error.to_string()))?;
        if !estimators.contains(&Estimator::Sender(kind)) {
            estimators.push(Estimator::Sender(kind));
        }
    }
    Ok(estimators)
}

impl Connection {
    fn new(about: recorded::Connection, start_up: &StartUp, estimators: &[Estimator]) -> Self {
        let estimates =
            estimators.iter().map(|estimator| (estimator.to_string(), start_up.estimate(*estimator)));
        Self {
            about,
            rtt_seconds: start_up.path.rtt.as_secs_f64(),
            bottleneck: start_up.path.bottleneck,
            loss_point: start_up.loss_point,
            largest: start_up.largest,
            estimates: estimates.collect(),
        }
    }
}

impl SsthreshReport {
    /// Each connection, with all estimates.
    fn detail(&self) -> String {
        let mut text = String::new();
        for connection in &self.connections {
            let point = match connection.loss_point {
                Some(loss_point) => format!("L = {loss_point}"),
                None => format!("no loss, L' = {}", connection.largest),
            };
            text +=
                &format!("{}\nB = {}, {point} bytes/s", connection.about.in_words(), connection.bottleneck);
            for (name, estimate) in &connection.estimates {
                let estimate = estimate.map_or_else(|| "none".to_owned(), |estimate| estimate.to_string());
                text += &format!("; {name} {estimate}");
            }
            text += "\n\n";
        }
        text
    }
}
