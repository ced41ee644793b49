//! A host made from the command line's flags: the stack, its device, and the wrappers around the device.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ackclock::journal::JournalEnd;
use ackclock::{BuildError, Recording, RecordingError, RecordingInfo, Stack, TcpConfig, Warning, Warnings};
use ackclock_cli::{Exit, Failure};
use ackclock_control::quantity::Limit;
use ackclock_device::Device;
use ackclock_device::capture::{Capture, Captured};
use ackclock_device::impair::{Impaired, Network, Settings};

use crate::args::{Common, ImpairArgs, TcpArgs};
use crate::device::{self, Label, Opened};
use crate::net::{Net, STACK_CLOSE_TIME};
use crate::trace::{Recorder, Wanted};

/// A host, and what is attached to its device.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) net: Net,
    impairment: Option<Network>,
    capture: Option<(Capture, PathBuf)>,
    recorder: Option<Recorder>,
    recorded: Option<Recorded>,
}

/// A stack with a recording.
#[derive(Debug)]
struct Recorded {
    stack: Stack,
    path: PathBuf,
    /// Whether its early end has been reported.
    told: Arc<AtomicBool>,
}

impl Host {
    /// Opens the device and starts the stack, or uses the kernel's TCP, as the flags ask. Must be called
    /// within a tokio runtime.
    pub async fn start(args: &Common) -> Result<Self, Failure> {
        if args.kernel {
            return Ok(Self {
                net: Net::kernel(),
                impairment: None,
                capture: None,
                recorder: None,
                recorded: None,
            });
        }
        let (label, opened) = device::open(&args.device, args.verbose).await?;
        Self::on_device(opened, label, args)
    }

    /// Starts a stack on an open device.
    fn on_device(opened: Opened, label: Label, args: &Common) -> Result<Self, Failure> {
        let Opened { mut devices, addresses, ports, remarks } = opened;
        let mut capture = None;
        if let Some(path) = &args.observe.pcap {
            let device = only(&mut devices)?;
            let captured = Captured::create(device, &label.name, path)
                .map_err(|error| Failure::file("capture to", path, &error))?;
            capture = Some((captured.handle(), path.clone()));
            devices.push(Box::new(captured));
        }
        let mut impairment = None;
        if let Some(settings) = impairment_settings(&args.impair) {
            let seed = args.impair.seed.unwrap_or(SEED);
            let impaired = Impaired::new(only(&mut devices)?, seed, settings, settings)
                .map_err(|error| Failure::usage(error.to_string()))?;
            impairment = Some(impaired.handle());
            devices.push(Box::new(impaired));
        }
        let mut tcp = tcp_config(&args.tcp)?;
        args.control.apply(&mut tcp).map_err(Failure::usage)?;
        let wanted = Wanted::create(&args.observe)?;
        tcp.trace = wanted.as_ref().map(|wanted| wanted.config);
        let mut builder = Stack::builder().queues(devices).tcp(tcp).close_timeout(STACK_CLOSE_TIME);
        for address in addresses {
            builder = builder.address(address);
        }
        if let Some(shaping) = args.tcp.shape {
            builder = builder.shaping(shaping);
        }
        if let Some(ports) = ports {
            builder = builder.ephemeral_ports(*ports.start(), *ports.end());
        }
        if let Some(path) = &args.observe.control_socket {
            builder = builder.control(path);
        }
        if let Some(path) = &args.observe.record {
            builder = builder.record(recording(path, args.observe.record_limit));
        }
        let stack = builder.spawn().map_err(not_built)?;
        let told = Arc::new(AtomicBool::new(false));
        tokio::spawn(tell(stack.warnings(), Arc::clone(&told)));
        let recorded = args.observe.record.clone().map(|path| Recorded { stack: stack.clone(), path, told });
        if let Some(remarks) = remarks {
            tokio::spawn(remarks.tell());
        }
        let recorder = wanted.map(|wanted| wanted.start(&stack)).transpose()?;
        Ok(Self { net: Net::user(stack, label), impairment, capture, recorder, recorded })
    }

    /// Reports on the impairment, the capture and the trace, once the stack has closed or is no longer waited
    /// for.
    pub async fn finish(self, verbose: bool) {
        if let (Some(network), true) = (&self.impairment, verbose) {
            let (sent, received) = (network.statistics_sent(), network.statistics_received());
            for (direction, counts) in [("sent", sent), ("received", received)] {
                say!(
                    "tcpcat: impairment of packets {direction}: {} of {} lost, {} dropped by a full queue, \
                     {} marked, {} reordered, {} duplicated",
                    counts.lost,
                    counts.offered,
                    counts.queue_full,
                    counts.marked,
                    counts.reordered,
                    counts.duplicated
                );
            }
        }
        if let Some((capture, path)) = &self.capture {
            capture.flush();
            let report = capture.report();
            let path = path.display();
            match report.stopped {
                Some(why) => {
                    say!("tcpcat: the capture in {path} ends after {} packets: {why}", report.packets)
                }
                None if report.lost > 0 => say!(
                    "tcpcat: the capture in {path} lacks {} packets: its reader is too slow",
                    report.lost
                ),
                None if verbose => say!("tcpcat: {} packets are in {path}", report.packets),
                None => {}
            }
        }
        if let Some(recorder) = self.recorder {
            recorder.finish(verbose).await;
        }
        if let Some(recorded) = self.recorded {
            recorded.finish(verbose).await;
        }
    }
}

impl Recorded {
    /// Tells how far the recording goes.
    async fn finish(self, verbose: bool) {
        let Some(info) = self.settled().await else { return };
        let (path, calls) = (self.path.display(), info.calls);
        match info.ended {
            None | Some(JournalEnd::Closed) if info.waiting > 0 => say!(
                "tcpcat: the recording in {path} lacks its last {} bytes: its reader is too slow",
                info.waiting
            ),
            Some(why) if why != JournalEnd::Closed && !self.told.load(Ordering::Relaxed) => {
                say!("tcpcat: the recording in {path} ends after {calls} calls: {why}");
            }
            None | Some(JournalEnd::Closed) if verbose => {
                say!("tcpcat: {calls} calls of the stack are in {path}")
            }
            _ => {}
        }
    }
}

impl Recorded {
    /// The state of the recording, once the reader of a pipe has taken it or a second has passed.
    async fn settled(&self) -> Option<RecordingInfo> {
        for _ in 0..SETTLE_TRIES {
            if self.stack.recording()?.waiting == 0 {
                break;
            }
            tokio::time::sleep(SETTLE_POLL).await;
        }
        self.stack.recording()
    }
}

/// How often, and how far apart, the end of a recording is looked at.
const SETTLE_TRIES: u32 = 100;
const SETTLE_POLL: Duration = Duration::from_millis(10);

fn recording(path: &Path, limit: Option<u64>) -> Recording {
    let recording = Recording::new(path).program(concat!("tcpcat ", env!("CARGO_PKG_VERSION")));
    limit.map_or(recording.clone(), |limit| recording.limit(limit))
}

fn not_built(error: BuildError) -> Failure {
    match &error {
        BuildError::Recording(RecordingError::Limit(_)) => Failure::usage(error.to_string()),
        BuildError::Recording(_) => Failure::new(Exit::File, error.to_string()),
        _ => Failure::new(Exit::Device, error.to_string()),
    }
}

/// The single device to wrap.
fn only(devices: &mut Vec<Box<dyn Device>>) -> Result<Box<dyn Device>, Failure> {
    let device = devices.pop().filter(|_| devices.is_empty());
    device.ok_or_else(|| {
        Failure::usage("--pcap and impairments work with one queue only").remedy("leave --queues out")
    })
}

/// Reports problems that no error reports: TCP sees them as loss.
async fn tell(mut warnings: Warnings, recording_told: Arc<AtomicBool>) {
    while let Some(warning) = warnings.next().await {
        recording_told.fetch_or(matches!(warning, Warning::Recording { .. }), Ordering::Relaxed);
        say!("tcpcat: warning: {warning}");
    }
}

fn tcp_config(args: &TcpArgs) -> Result<TcpConfig, Failure> {
    let mut config = TcpConfig {
        nodelay: args.nodelay,
        user_timeout: args.user_timeout,
        idle_timeout: args.idle_timeout,
        mss_max: args.mss,
        ..TcpConfig::default()
    };
    if let Some(bytes) = args.sndbuf {
        config.send_buffer_max = buffer("--sndbuf", bytes)?;
    }
    if let Some(bytes) = args.rcvbuf {
        config.receive_buffer_max = buffer("--rcvbuf", bytes)?;
    }
    Ok(config)
}

fn buffer(flag: &str, bytes: u64) -> Result<usize, Failure> {
    let size = usize::try_from(bytes).ok().filter(|size| BUFFER_SIZES.contains(size));
    size.ok_or_else(|| Failure::usage(format!("{flag} must be between 4KiB and 1GiB")))
}

fn impairment_settings(args: &ImpairArgs) -> Option<Settings> {
    let plain = Settings::default();
    // A queue beyond the address space never fills.
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let (queue_packets, queue_bytes) = match args.rate_limit.and_then(|limit| limit.queue) {
        None => (plain.queue_packets, plain.queue_bytes),
        Some(Limit::Packets(packets)) => (size(packets), None),
        Some(Limit::Bytes(bytes)) => (usize::MAX, Some(size(bytes))),
    };
    let settings = Settings {
        rate_bps: args.rate_limit.map(|limit| limit.rate_bps),
        queue_packets,
        queue_bytes,
        delay: args.delay.unwrap_or_default(),
        loss: args.loss.unwrap_or_default(),
        duplicate: args.dup.unwrap_or_default(),
        corrupt: args.corrupt.unwrap_or_default(),
        reorder: args.reorder.unwrap_or_default(),
        mark: args.mark.unwrap_or_default(),
        mark_above: args.mark_above,
        ..plain
    };
    (settings != plain).then_some(settings)
}

/// Words for the `io::Error` of a name without an address.
pub(crate) fn unresolved(host: &str, error: &io::Error) -> Failure {
    Failure::new(Exit::Unreachable, format!("{host:?} has no address: {error}"))
        .remedy(format!("ask the name server (getent hosts {host}), or give the address itself"))
}

/// The default seed of an impairment: without `--seed` a run can be repeated, too.
const SEED: u64 = 1;

const BUFFER_SIZES: std::ops::RangeInclusive<usize> = (4 << 10)..=(1 << 30);
