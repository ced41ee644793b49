//! [`seeds`]: one test on many networks, which differ in their seed.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{VirtualNetwork, seconds};
use crate::observe::{Observer, PacketEvent, Pcapng, What};
use crate::scenario::Scenario;

/// The result of a test of [`seeds`].
type Tested = Result<(), Box<dyn Error>>;

/// Runs a test once for each seed, each time on a fresh network of the scenario, and panics with a report if
/// a seed fails. A test fails if it returns an error or panics.
///
/// The report names the smallest seed that fails, the error, and the command that runs this seed alone. The
/// packets of its run are in a capture, which Wireshark and `tcplab explain` read; the last of them are in
/// the report.
///
/// ```
/// use ackclock_sim::scenario::Loss;
/// use ackclock_sim::units::{Rate, Share, Span};
/// use ackclock_sim::{Direction, Scenario, seeds};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let path = Direction::new(Rate::mbit(10), Span::millis(20)).loss(Loss::Independent(Share::percent(2)));
/// let scenario = Scenario::new(Span::seconds(60)).host("a").host("b").link("a", "b", path);
/// seeds(1..=100, &scenario, |net| {
///     let (client, server) = (net.stack("a")?, net.stack("b")?);
///     let addr = (net.lookup("b")?, 80).into();
///     let received = net.run(async move {
///         let listener = server.listen(addr)?;
///         tokio::spawn(async move { listener.accept().await?.0.write_all(&[7; 20_000]).await });
///         let mut received = Vec::new();
///         client.connect(addr).await?.read_to_end(&mut received).await?;
///         std::io::Result::Ok(received)
///     })??;
///     assert_eq!(received.len(), 20_000);
///     Ok(())
/// });
/// ```
///
/// ```text
/// seed 40 fails, the smallest of 100 seeds that does: the download took 3.4 s
/// run it alone: ACKCLOCK_SEED=40 cargo test downloads_take_three_seconds
/// its packets: /tmp/ackclock-downloads_take_three_seconds-40.pcapng (tcplab explain FILE, or Wireshark)
/// the last of them:
/// ..
/// ```
///
/// The variable `ACKCLOCK_SEED` takes the place of `seeds`, for every test that calls this function: filter
/// the tests by name, as the command does. The seeds run on all processors, so the test must be `Sync`; a
/// network stays on one thread. If a seed fails and then passes when it runs again for its capture, the
/// report says so: the test uses something that is not the seed's.
///
/// # Panics
/// If a seed fails, `seeds` is empty, the scenario cannot be run, or `ACKCLOCK_SEED` is not a number.
pub fn seeds(
    seeds: impl IntoIterator<Item = u64>,
    scenario: &Scenario,
    test: impl Fn(&mut VirtualNetwork) -> Result<(), Box<dyn Error>> + Sync,
) {
    let alone = std::env::var(VARIABLE).ok();
    let all = chosen(seeds, alone.as_deref()).unwrap_or_else(|why| panic!("{why}"));
    let Some((seed, error)) = first_failure(&all, scenario, &test) else { return };
    let name = thread::current().name().filter(|name| *name != "main").unwrap_or_default().to_owned();
    let evidence = Evidence::of(seed, &name, scenario, &test);
    panic!("{}", report(seed, &all, &error, &name, &evidence));
}

/// The seeds to run, smallest first: all of them, or the one of the variable.
fn chosen(seeds: impl IntoIterator<Item = u64>, alone: Option<&str>) -> Result<Vec<u64>, String> {
    if let Some(text) = alone {
        let seed = text.trim().parse();
        return seed.map(|seed| vec![seed]).map_err(|_| format!("{VARIABLE}={text}: write a number, a seed"));
    }
    let mut all: Vec<u64> = seeds.into_iter().collect();
    all.sort_unstable();
    all.dedup();
    if all.is_empty() { Err("there is no seed to run".into()) } else { Ok(all) }
}

/// The smallest seed that fails, and its error.
fn first_failure(
    all: &[u64],
    scenario: &Scenario,
    test: &(impl Fn(&mut VirtualNetwork) -> Tested + Sync),
) -> Option<(u64, String)> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(None::<(usize, String)>));
    let is_over = |index| lock(&found).as_ref().is_some_and(|(failed, _)| *failed < index);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            // A larger seed than one that failed is of no interest; smaller ones still are.
            let Some(&seed) = all.get(index).filter(|_| !is_over(index)) else { return };
            if let Err(error) = run(seed, scenario, test, |_| {}) {
                let mut found = lock(&found);
                if found.as_ref().is_none_or(|(failed, _)| index < *failed) {
                    *found = Some((index, error));
                }
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(all.len());
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.map(|(index, error)| (all[index], error))
}

/// Makes a network for the seed and runs the test on it.
fn run(
    seed: u64,
    scenario: &Scenario,
    test: impl Fn(&mut VirtualNetwork) -> Tested,
    watch: impl FnOnce(&mut VirtualNetwork),
) -> Result<(), String> {
    let scenario = scenario.clone().seed(seed);
    let mut net = VirtualNetwork::new(&scenario).map_err(|error| error.to_string())?;
    watch(&mut net);
    // The network is dropped after a panic, and nothing else outlives one.
    match catch_unwind(AssertUnwindSafe(|| test(&mut net))) {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(panic) => Err(message(&*panic)),
    }
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}

/// The findings about a seed that failed, once it has run again.
struct Evidence {
    again: Result<(), String>,
    capture: Result<PathBuf, String>,
    last: Vec<String>,
}

impl Evidence {
    fn of(seed: u64, name: &str, scenario: &Scenario, test: impl Fn(&mut VirtualNetwork) -> Tested) -> Self {
        let path = std::env::temp_dir().join(file_name(name, seed));
        let (last, mut capture) = (Rc::new(RefCell::new(Last::default())), None);
        let again = run(seed, scenario, test, |net| {
            last.borrow_mut().names = net.simulation().node_names().iter().map(|&name| name.into()).collect();
            net.observe(Rc::clone(&last));
            capture = Some(begin_capture(&path, net));
        });
        let finished = match capture {
            Some(Ok(capture)) => capture.borrow_mut().finish().map(|()| path.clone()),
            Some(Err(error)) => Err(error),
            None => return Self { again, capture: Err("there was no network".into()), last: Vec::new() },
        };
        let capture = finished.map_err(|error| format!("{} cannot be written: {error}", path.display()));
        let last = last.borrow_mut().lines.drain(..).collect();
        Self { again, capture, last }
    }
}

type Capture = Rc<RefCell<Pcapng<File>>>;

/// A capture of what the hosts that have stacks send and receive.
fn begin_capture(path: &Path, net: &mut VirtualNetwork) -> std::io::Result<Capture> {
    let file = File::create(path)?;
    let names: Vec<String> = net.simulation().node_names().iter().map(|&name| name.into()).collect();
    let nodes = (0..).zip(names.iter().map(String::as_str)).filter(|(_, name)| net.mtu(name).is_some());
    let capture = Rc::new(RefCell::new(Pcapng::new(file, nodes)));
    net.observe(Rc::clone(&capture));
    Ok(capture)
}

/// `ackclock-NAME-SEED.pcapng`, with the modules of a test's name as dots.
fn file_name(name: &str, seed: u64) -> String {
    let name = name.replace("::", ".").replace(|letter: char| !is_plain(letter), "-");
    if name.is_empty() { format!("ackclock-{seed}.pcapng") } else { format!("ackclock-{name}-{seed}.pcapng") }
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "._-".contains(letter)
}

fn report(seed: u64, all: &[u64], error: &str, name: &str, evidence: &Evidence) -> String {
    let smallest = match all.len() {
        1 => String::new(),
        many => format!(", the smallest of {many} seeds that does"),
    };
    let command = if name.is_empty() { "and the same command".into() } else { format!("cargo test {name}") };
    let mut text =
        format!("seed {seed} fails{smallest}: {error}\nrun it alone: {VARIABLE}={seed} {command}\n");
    match &evidence.again {
        Ok(()) => text.push_str(
            "it passed when it ran again: the test uses something that the seed does not decide, such as \
             the real time, random numbers, the order of a hash table, or `select!` without `biased`\n",
        ),
        Err(again) if again != error => {
            writeln!(text, "when it ran again, it failed otherwise: {again}").ok();
        }
        Err(_) => {}
    }
    match &evidence.capture {
        Ok(path) => {
            writeln!(text, "its packets: {} (tcplab explain FILE, or Wireshark)", path.display()).ok();
        }
        Err(why) => {
            writeln!(text, "its packets: {why}").ok();
        }
    }
    if !evidence.last.is_empty() {
        text.push_str("the last of them:");
        for line in &evidence.last {
            write!(text, "\n  {line}").ok();
        }
    }
    text
}

/// The last packets that hosts sent and received, and those that were lost.
#[derive(Default)]
struct Last {
    names: Vec<String>,
    lines: VecDeque<String>,
}

impl Observer for Last {
    fn packet(&mut self, event: &PacketEvent<'_>) {
        let what = match event.what {
            What::Sent => "sends",
            What::Delivered => "receives",
            What::Dropped(_) => "loses",
            _ => return,
        };
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        let name = self.names.get(event.node as usize).map_or("?", String::as_str);
        let mut line = format!("{} {name} {what} packet {}", seconds(event.at), event.packet.serial());
        if let Some(tcp) = event.packet.segment() {
            let (from, to) = tcp.ports;
            let bytes = event.packet.payload_len();
            write!(line, ", {from} > {to}, seq {} ack {}, {bytes} bytes", tcp.seq, tcp.ack).ok();
        }
        self.lines.push_back(line);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The variable of the environment that selects one seed.
const VARIABLE: &str = "ACKCLOCK_SEED";
/// How many packets a report shows.
const LINES: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_takes_the_place_of_the_seeds() {
        assert_eq!(chosen(1..=3, Some("40")), Ok(vec![40]));
        assert_eq!(chosen([3, 1, 2, 3], None), Ok(vec![1, 2, 3]));
        assert_eq!(chosen(1..=3, Some("x")), Err("ACKCLOCK_SEED=x: write a number, a seed".into()));
        assert_eq!(chosen([], None), Err("there is no seed to run".into()));
    }

    #[test]
    fn a_capture_is_named_after_the_test() {
        assert_eq!(file_name("downloads::are whole/1", 7), "ackclock-downloads.are-whole-1-7.pcapng");
        assert_eq!(file_name("", 7), "ackclock-7.pcapng");
    }
}
