//! The beginning of a transfer, in the form that the assessment of ssthresh estimates takes: Allman and
//! Paxson (1999), §3.
//!
//! - B is PBM's estimate from the departures at the sender and the arrivals at the receiver. Without these,
//!   it comes from the acknowledgements at the sender, whose spacing is less reliable (§3.3).
//! - The round trip is the smallest of a segment with data, so a rate above B is one that fills a queue. A
//!   SYN is smaller and takes less time on a slow link, so its round trip counts only where no segment gave
//!   one.
//! - L is the flight that ends with the first lost segment, over the round trip; L′ is the largest flight.
//!   Estimators at the sender see the acknowledgements that arrived before that segment was sent. The
//!   receiver's estimator stops where it finds the first segment missing.

use std::collections::{HashMap, VecDeque};

use ackclock_control::Instant;
use ackclock_control::assess::ssthresh::{KnownPath, LossRow, LosslessRow, rate};
use ackclock_control::bandwidth::{
    CsaConfig, Passage, Receiver, ReceiverEstimates, SenderEstimatorKind, pbm_between,
};
use serde::Serialize;

use crate::capture::Delivery;
use crate::transfer::Transfer;
use crate::view::{Entry, View};

/// The yardstick for estimators, and their input.
#[derive(Clone, Debug)]
pub struct StartUp {
    /// The path, as the beginning shows it.
    pub path: KnownPath,
    /// L, if anything was lost.
    pub loss_point: Option<u64>,
    /// L′.
    pub largest: u64,
    initial_window: u64,
    /// At the sender, before the first loss: when each acknowledgement came, and how many bytes it
    /// acknowledged.
    acks: Vec<(Instant, u64)>,
    /// At the receiver, up to the first loss.
    pbm_prime: Option<u64>,
    /// The receiver's view, if it was captured.
    received: Option<Vec<Entry>>,
}

/// Why a transfer is unsuitable for assessing estimators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unfit {
    /// The first retransmission was not necessary.
    Avoidable,
    /// PBM finds no bandwidth.
    NoBottleneck,
    /// No round trip was seen.
    NoRoundTrip,
}

/// An estimator of the paper, or one that a user requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimator {
    /// PBM up to the first loss.
    PbmPrime,
    /// An estimator at the sender.
    Sender(SenderEstimatorKind),
    /// The receiver's estimators, from this many samples.
    Receiver(Combined, usize),
}

/// How samples become one estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combined {
    /// The smallest.
    Min,
    /// The mean.
    Avg,
    /// The median.
    Med,
    /// The largest.
    Max,
}

/// A row of tables 5 and 6.
#[derive(Clone, Copy, Debug, Default)]
pub struct Regions {
    /// Of the transfers that lost something.
    pub loss: LossRow,
    /// Of the others.
    pub lossless: LosslessRow,
}

impl StartUp {
    /// Examines the beginning of a transfer.
    ///
    /// # Errors
    /// The transfer is unsuitable.
    pub fn new(transfer: &Transfer) -> Result<Self, Unfit> {
        if transfer.replay.first_repair == Some(None) {
            return Err(Unfit::Avoidable);
        }
        let smallest = transfer.replay.rtt_min.or(transfer.handshake);
        let rtt = smallest.filter(|rtt| !rtt.is_zero()).ok_or(Unfit::NoRoundTrip)?;
        let lost = first_lost(transfer);
        let flights = Flights::of(&transfer.sent, lost);
        let (whole, until_loss) = match &transfer.received {
            Some((view, delivery)) => passages(&transfer.sent, view, delivery, lost),
            None => (answered(&transfer.sent, None), answered(&transfer.sent, lost)),
        };
        let path = KnownPath {
            bottleneck: pbm_between(whole).ok_or(Unfit::NoBottleneck)?,
            rtt,
            segment: transfer.sent.mss,
            segments_per_ack: 2,
        };
        Ok(Self {
            path,
            loss_point: flights.at_loss.map(|flight| rate(flight, rtt)),
            largest: rate(flights.largest, rtt),
            initial_window: flights.initial,
            acks: acknowledged(&transfer.sent, lost),
            pbm_prime: pbm_between(until_loss),
            received: transfer.received.as_ref().map(|(view, _)| view.entries.clone()),
        })
    }

    /// The estimator's result, in bytes a second.
    pub fn estimate(&self, estimator: Estimator) -> Option<u64> {
        match estimator {
            Estimator::PbmPrime => self.pbm_prime,
            Estimator::Sender(kind) => {
                let mut estimator = kind.create(self.path.rtt, self.initial_window, self.path.segment.into());
                self.acks.iter().for_each(|&(at, bytes)| estimator.on_ack(at, bytes));
                estimator.estimate()
            }
            Estimator::Receiver(combined, samples) => {
                let estimates = self.at_receiver(samples)?;
                Some(match combined {
                    Combined::Min => estimates.min,
                    Combined::Avg => estimates.mean,
                    Combined::Med => estimates.median,
                    Combined::Max => estimates.max,
                })
            }
        }
    }

    fn at_receiver(&self, samples: usize) -> Option<ReceiverEstimates> {
        let mut receiver = Receiver::new(samples, self.initial_window, self.path.segment.into());
        let (mut in_order, mut acked) = (0, 0);
        for entry in self.received.as_ref()? {
            match *entry {
                Entry::Data { from, .. } if from > in_order => {
                    receiver.on_loss();
                    break;
                }
                Entry::Data { at, to, .. } => {
                    receiver.on_data(Instant::from_nanos(at), to.saturating_sub(in_order));
                    in_order = in_order.max(to);
                }
                Entry::Ack { to, .. } if to > acked => {
                    acked = to;
                    receiver.on_ack_sent();
                }
                Entry::Ack { .. } => {}
            }
        }
        receiver.estimates()
    }
}

impl Estimator {
    /// The rows of tables 5 and 6. The scan garbles the parameters of the four rows of CSA; they are those of
    /// §3.3.2: the chosen one, and n = 2 with the three larger ν.
    pub fn of_the_paper() -> Vec<Self> {
        let csa = |n, nu_e4| CsaConfig::new(n, nu_e4).unwrap_or(CsaConfig::PAPER);
        let sender = [
            SenderEstimatorKind::Tssf { n: 3 },
            SenderEstimatorKind::Csa(CsaConfig::PAPER),
            SenderEstimatorKind::Csa(csa(2, 500)),
            SenderEstimatorKind::Csa(csa(2, 1000)),
            SenderEstimatorKind::Csa(csa(2, 2000)),
            SenderEstimatorKind::Tcsa(CsaConfig::PAPER),
            SenderEstimatorKind::TcsaPrime(CsaConfig::PAPER),
        ];
        let receiver = [Combined::Min, Combined::Avg, Combined::Med, Combined::Max];
        let sender = sender.map(Self::Sender);
        let receiver = receiver.map(|combined| Self::Receiver(combined, SAMPLES));
        [Self::PbmPrime].into_iter().chain(sender).chain(receiver).collect()
    }

    /// Whether it needs the receiver's side.
    pub fn is_at_receiver(self) -> bool {
        matches!(self, Self::Receiver(..))
    }

    /// Its results on these transfers, as far as it was applicable.
    pub fn regions(self, transfers: &[StartUp]) -> Regions {
        let (mut loss, mut lossless) = (Vec::new(), Vec::new());
        let blind = |transfer: &&StartUp| self.is_at_receiver() && transfer.received.is_none();
        for transfer in transfers.iter().filter(|transfer| !blind(transfer)) {
            let estimate = transfer.estimate(self);
            match transfer.loss_point {
                Some(loss_point) => loss.push((transfer.path, loss_point, estimate)),
                None => lossless.push((transfer.path, transfer.largest, estimate)),
            }
        }
        Regions { loss: LossRow::of(loss), lossless: LosslessRow::of(lossless) }
    }
}

impl Unfit {
    /// A phrase that follows the number of connections.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Avoidable => "first sent again what was not lost, which says nothing of the path",
            Self::NoBottleneck => {
                "have no bottleneck that PBM could find: too few segments, or none in a row"
            }
            Self::NoRoundTrip => "show no round trip",
        }
    }
}

impl std::fmt::Display for Estimator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PbmPrime => f.write_str("pbm-prime"),
            Self::Sender(kind) => write!(f, "{kind}"),
            Self::Receiver(combined, samples) => {
                let combined = match combined {
                    Combined::Min => "min",
                    Combined::Avg => "avg",
                    Combined::Med => "med",
                    Combined::Max => "max",
                };
                write!(f, "recv-{combined}:{samples}")
            }
        }
    }
}

/// The entry that sent the first lost segment: one that never arrived, or had to be retransmitted.
fn first_lost(transfer: &Transfer) -> Option<usize> {
    let sent = &transfer.sent.entries;
    match (&transfer.received, transfer.replay.first_repair) {
        (Some((_, delivery)), _) => sent.iter().position(|entry| {
            let data = matches!(entry, Entry::Data { .. });
            data && delivery.arrived.get(entry.index()).is_some_and(Option::is_none)
        }),
        (None, Some(Some(byte))) => sent
            .iter()
            .position(|entry| matches!(*entry, Entry::Data { from, to, .. } if from <= byte && byte < to)),
        (None, _) => None,
    }
}

/// Bytes outstanding at the sender.
struct Flights {
    /// Before the first acknowledgement.
    initial: u64,
    largest: u64,
    /// With the first lost segment.
    at_loss: Option<u64>,
}

impl Flights {
    fn of(view: &View, lost: Option<usize>) -> Self {
        let (mut una, mut max) = (0, 0);
        let mut flights = Self { initial: 0, largest: 0, at_loss: None };
        for (number, entry) in view.entries.iter().enumerate() {
            match *entry {
                Entry::Data { to, .. } => {
                    max = max.max(to);
                    let flight = max.saturating_sub(una);
                    flights.largest = flights.largest.max(flight);
                    if una == 0 {
                        flights.initial = flight;
                    }
                    if lost == Some(number) {
                        flights.at_loss = Some(flight);
                    }
                }
                Entry::Ack { to, .. } => una = una.max(to.min(max)),
            }
        }
        flights
    }
}

/// The acknowledgements before an entry: when each came, and how many bytes it acknowledged; 0 for a
/// duplicate.
fn acknowledged(view: &View, before: Option<usize>) -> Vec<(Instant, u64)> {
    let entries = view.entries.get(..before.unwrap_or(view.entries.len())).unwrap_or_default();
    let mut una = 0;
    let mut acks = Vec::new();
    for entry in entries {
        if let Entry::Ack { at, to, bare, .. } = *entry
            && (to > una || bare && to == una && una > 0)
        {
            acks.push((Instant::from_nanos(at), to.saturating_sub(una)));
            una = una.max(to);
        }
    }
    acks
}

/// The acknowledgements of new data before an entry, as if each were the arrival of the newest segment that
/// it acknowledges.
fn answered(view: &View, before: Option<usize>) -> Vec<Passage> {
    let entries = view.entries.get(..before.unwrap_or(view.entries.len())).unwrap_or_default();
    let (mut una, mut max) = (0, 0);
    let mut outstanding = VecDeque::new();
    let mut answers = Vec::new();
    for entry in entries {
        match *entry {
            Entry::Data { at, to, .. } if to > max => {
                max = to;
                outstanding.push_back((to, at));
            }
            Entry::Ack { at, to, .. } if to > una => {
                let covered = outstanding.partition_point(|(end, _)| *end <= to);
                if let Some((_, sent)) = outstanding.drain(..covered).next_back() {
                    let (sent, arrived) = (Instant::from_nanos(sent), Instant::from_nanos(at));
                    answers.push(Passage { sent, arrived, bytes: to - una });
                }
                una = to;
            }
            Entry::Data { .. } | Entry::Ack { .. } => {}
        }
    }
    answers
}

/// The data that arrived at the receiver: all of it, and what was sent before the first lost segment.
fn passages(
    sent: &View,
    received: &View,
    delivery: &Delivery,
    lost: Option<usize>,
) -> (Vec<Passage>, Vec<Passage>) {
    let departures: HashMap<usize, u64> = sent
        .entries
        .iter()
        .filter_map(|entry| match *entry {
            Entry::Data { at, index, .. } => Some((delivery.arrived.get(index).copied().flatten()?, at)),
            Entry::Ack { .. } => None,
        })
        .collect();
    // Pieces of a segment that was cut on its way left together.
    let mut departed = 0;
    let mut all = Vec::new();
    for entry in &received.entries {
        if let Entry::Data { at, from, to, index, .. } = *entry {
            departed = departures.get(&index).copied().unwrap_or(departed);
            let (sent, arrived) = (Instant::from_nanos(departed), Instant::from_nanos(at));
            all.push((index, Passage { sent, arrived, bytes: to - from }));
        }
    }
    let lost_index = lost.and_then(|lost| sent.entries.get(lost)).map_or(usize::MAX, Entry::index);
    let later = delivery.arrived.get(lost_index.min(delivery.arrived.len())..).unwrap_or_default();
    let end = later.iter().flatten().min().copied().unwrap_or(usize::MAX);
    let until_loss = all.iter().take_while(|(index, _)| *index < end).map(|(_, packet)| *packet).collect();
    (all.into_iter().map(|(_, packet)| packet).collect(), until_loss)
}

/// K in the paper.
const SAMPLES: usize = 50;
