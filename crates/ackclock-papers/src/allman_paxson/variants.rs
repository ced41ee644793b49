//! Varies the points that the paper does not fix, to see which of them decide the held-out values.

use ackclock_assess::{Estimator, StartUp, Transfer};

use super::path::{ACKS, DrawnPath, Model};
use super::shared::share;
use super::timeouts::{All, Chosen};
use super::trace_set::TraceSet;
use super::undo::Undo;
use crate::Table;

/// Paths of each variant.
const PATHS: u64 = 240;

/// A variant: what it changes of what is open, and of each path.
type Variant = (&'static str, fn(Model) -> Model, fn(DrawnPath) -> DrawnPath);

const VARIANTS: [Variant; 11] = [
    ("busy hauls lose each packet for itself", |model| Model { burst_ms: 0, ..model }, same),
    ("bursts three times as long", |model| Model { burst_ms: 3 * model.burst_ms, ..model }, same),
    ("busy hauls do not delay", |model| Model { wait_ms: 0, ..model }, same),
    ("busy hauls delay three times as long", |model| Model { wait_ms: 3 * model.wait_ms, ..model }, same),
    ("they delay each packet for itself", |model| Model { wait_lasts_ms: 0, ..model }, same),
    ("their waits are exponential", |model| Model { wait_shape: 0, ..model }, same),
    ("routers take 3 ms", |model| Model { routers_ms: 3, ..model }, same),
    ("other traffic up to 120 % and 80 %", |model| Model { loads_percent: [120, 80], ..model }, same),
    ("no other traffic on the lines", same, DrawnPath::without_others),
    ("all receivers by the clock of 200 ms", same, |path| path.acknowledged(ACKS[0].0)),
    ("receivers that hardly delay acknowledgements", same, |path| path.acknowledged("every-second:1ms")),
];

fn same<T>(of: T) -> T {
    of
}

/// Some paths of the set.
type Part = (&'static str, fn(&DrawnPath) -> bool);

const PARTS: [Part; 8] = [
    ("all", |_| true),
    ("a quiet haul", |path| !path.is_busy()),
    ("a busy haul", DrawnPath::is_busy),
    ("a line of 64 or 512 kbit/s", |path| path.slowest_bps() <= 512_000),
    ("a line of 1.5 or 2 Mbit/s, none slower", |path| (512_001..10_000_000).contains(&path.slowest_bps())),
    ("both lines of 10 Mbit/s", |path| path.slowest_bps() == 10_000_000),
    ("other traffic of at most a tenth of each line", |path| path.most_load() <= 10),
    ("other traffic above a fifth of a line", |path| path.most_load() > 20),
];

/// A value of estimators of the timeout, mostly a ratio of two, and the paper's.
type Ratio = (&'static str, &'static str, fn(&Chosen<'_>) -> f64);

const RATIOS: [Ratio; 9] = [
    ("W~ at 1 s over none", "2.7", |of| of.ratio(Chosen::w_tilde, "ap-min-1000", "ap-min-0")),
    ("B of none over 1 s", "7.5", |of| of.ratio(Chosen::b, "ap-min-0", "ap-min-1000")),
    ("W~ of very-slow over fast", "1.3", |of| of.ratio(Chosen::w_tilde, "ap-very-slow", "ap-fast")),
    ("W of the same", "1.3", |of| of.ratio(Chosen::w, "ap-very-slow", "ap-fast")),
    ("W~ of take-first over std", "1.4", |of| of.ratio(Chosen::w_tilde, "ap-take-first", "ap-std")),
    ("B of 250 ms over k = 6", "0.93", |of| of.ratio(Chosen::b, "ap-min-250", "ap-k-6")),
    ("B of 250 ms over none", "0.48", |of| of.ratio(Chosen::b, "ap-min-250", "ap-min-0")),
    ("B of k = 6 over none", "0.52", |of| of.ratio(Chosen::b, "ap-k-6", "ap-min-0")),
    ("B of none, percent", "4.71", |of| 100.0 * of.b("ap-min-0")),
];
const PRESETS: [&str; 8] =
    ["ap-min-1000", "ap-min-250", "ap-min-0", "ap-very-slow", "ap-fast", "ap-take-first", "ap-std", "ap-k-6"];

/// The held-out values of each variant, and of parts of the set.
pub(super) fn tables(set: &TraceSet, all: &All) -> anyhow::Result<[Table; 2]> {
    let undo = [Undo::measure(set, None)?, Undo::measure(set, Some(2))?];
    let (model, paths) = (Model::in_force()?, &set.paths);
    let part = |&(name, is_in): &Part| {
        let numbers: Vec<usize> = (0..paths.len()).filter(|number| is_in(&paths[*number])).collect();
        row(name, all, &undo, &numbers, with_loss(numbers.iter().map(|number| &set.transfers[*number])))
    };
    let parts = Table {
        title: "Parts of the set".to_owned(),
        head: head("paths"),
        rows: [papers()].into_iter().chain(PARTS.iter().map(part)).collect(),
    };
    let first: Vec<usize> = (0..paths.len()).filter(|number| paths[*number].seed < PATHS).collect();
    let regions = with_loss(first.iter().map(|number| &set.transfers[*number]));
    let mut rows = vec![papers(), row("as they are", all, &undo, &first, regions)];
    for (name, open, change) in VARIANTS {
        let varied = TraceSet::of(&open(model), PATHS, change)?;
        let all = All::of(&varied.transfers, &PRESETS)?;
        let undo = [Undo::measure(&varied, None)?, Undo::measure(&varied, Some(2))?];
        let numbers: Vec<usize> = (0..varied.transfers.len()).collect();
        rows.push(row(name, &all, &undo, &numbers, with_loss(&varied.transfers)));
    }
    let title = format!("What is not known of the paths, varied: the first {PATHS} of the set");
    Ok([parts, Table { title, head: head("variant"), rows }])
}

fn head(first: &str) -> Vec<String> {
    let columns = RATIOS.iter().map(|(name, ..)| *name);
    let more = [
        "fall of B by undo, f = 1/2",
        "good ones among its finds",
        "with loss: harmed by TSSF",
        "helped by PBM'",
        "harmed by Recv max",
    ];
    [first, "transfers"].into_iter().chain(columns).chain(more).map(str::to_owned).collect()
}

fn papers() -> Vec<String> {
    let ratios = RATIOS.iter().map(|(_, paper, _)| *paper);
    ["the paper's", "14433"]
        .into_iter()
        .chain(ratios)
        .chain(["0.49", "0.025", "0.52", "0.31", "0.00"])
        .map(str::to_owned)
        .collect()
}

/// `undo`: without undo, and with f = 1/2.
fn row(
    name: &str,
    all: &All,
    [plain, half]: &[Undo; 2],
    numbers: &[usize],
    regions: [f64; 3],
) -> Vec<String> {
    let ratios = RATIOS.iter().map(|(.., ratio)| format!("{:.2}", all.of_these(numbers, ratio)));
    let more =
        [format!("{:.2}", half.fall_from(plain, numbers)), format!("{:.3}", half.sum(numbers).wrongly())];
    let regions = regions.map(|share| format!("{share:.3}"));
    [name.to_owned(), numbers.len().to_string()]
        .into_iter()
        .chain(ratios)
        .chain(more)
        .chain(regions)
        .collect()
}

/// The shares of the transfers with loss that TSSF harms, PBM' helps, and the largest sample harms.
fn with_loss<'a>(transfers: impl IntoIterator<Item = &'a Transfer>) -> [f64; 3] {
    let start_ups: Vec<StartUp> =
        transfers.into_iter().filter_map(|transfer| StartUp::new(transfer).ok()).collect();
    let [tssf, pbm, max] = ["tssf:3", "pbm-prime", "recv-max:50"].map(|name| {
        let estimator = Estimator::of_the_paper().into_iter().find(|one| one.to_string() == name);
        estimator.map_or([0; 6], |estimator| estimator.regions(&start_ups).loss.connections)
    });
    let of_all = |part: &[u32]| share(part.iter().sum::<u32>() as usize, max.iter().sum::<u32>() as usize);
    [of_all(&tssf[5..]), of_all(&pbm[2..5]), of_all(&max[5..])]
}
