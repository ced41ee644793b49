//! Accounts for programs: times in seconds, sizes in bytes, rates in bytes a second.

use std::collections::BTreeMap;
use std::time::Duration;

use ackclock_core::Instant;
use ackclock_core::trace::Failure;
use serde_json::{Value, json};

use super::account::Account;
use super::acks::Acks;
use super::allowed::Allowed;
use super::samples::{FarSample, SetRate};
use super::verdicts::Verdicts;
use super::waits::Silence;

impl Account {
    /// The account for programs: times in seconds, sizes in bytes, rates in bytes a second.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let waiting: BTreeMap<&str, f64> =
            self.waits.time.iter().map(|(what, time)| (what.name(), time.as_secs_f64())).collect();
        let round_trip = self.round_trips.range.map(|(least, mean, most)| {
            json!({
                "min": least.as_secs_f64(), "mean": mean.as_secs_f64(), "max": most.as_secs_f64(),
                "samples": self.round_trips.count,
            })
        });
        let (late, latest) = self.waits.late;
        json!({
            "duration": self.duration.as_secs_f64(),
            "waiting": waiting,
            "bytes_sent": self.bytes_sent,
            "bytes_received": self.bytes_received,
            "bytes_sent_again": self.again.bytes,
            "segments_sent_again": self.again.segments,
            "losses": self.verdicts.declared,
            "refuted_losses": refuted(&self.verdicts),
            "held_losses": held(&self.verdicts),
            "loss_episodes": self.episodes,
            "marks": self.marks,
            "timeouts": silences(&self.waits.timeouts),
            "tail_probes": { "silences": silences(&self.waits.probes), "needless": self.verdicts.needless_probes },
            "undone": self.verdicts.undone,
            "late_timers": { "count": late, "most": latest.as_secs_f64() },
            "round_trip": round_trip,
            "far_round_trips": self.round_trips.far.iter().map(far).collect::<Vec<_>>(),
            "acks": acks(&self.acks),
            "theory": self.allowed.as_ref().map(theory),
            "failed": self.failed.map(Failure::name),
        })
    }
}

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

fn silences(silences: &[Silence]) -> Value {
    let silence = |silence: &Silence| json!({ "at": seconds(silence.at), "silence": silence.lasted.as_secs_f64(), "in_a_row": silence.count });
    silences.iter().map(silence).collect()
}

fn refuted(verdicts: &Verdicts) -> Value {
    let rule = |(rule, refuted): (&&str, &super::verdicts::Refuted)| {
        ((*rule).to_owned(), json!({ "verdicts": refuted.verdicts, "bytes": refuted.bytes }))
    };
    Value::Object(verdicts.refuted.iter().map(rule).collect())
}

fn held(verdicts: &Verdicts) -> Value {
    let held = &verdicts.held;
    let longest = held.longest.map(|(at, time)| json!({ "at": seconds(at), "time": time.as_secs_f64() }));
    json!({
        "count": held.losses(), "by": held.by, "time": held.time.as_secs_f64(), "longest": longest,
        "never_sent": held.never,
    })
}

fn far(far: &FarSample) -> Value {
    let (pacing, bandwidth) = match far.rate {
        Some(SetRate::Pacing(rate)) => (Some(rate), None),
        Some(SetRate::Bandwidth(rate)) => (None, Some(rate)),
        None => (None, None),
    };
    json!({
        "at": seconds(far.at), "ack": far.ack, "sample": far.sample.as_secs_f64(),
        "usual": far.usual.as_secs_f64(), "srtt": far.srtt.as_ref().map(Duration::as_secs_f64),
        "rto": far.rto.as_secs_f64(), "pacing_rate": pacing, "bandwidth": bandwidth,
    })
}

fn acks(acks: &Acks) -> Value {
    let (peer, own) = (&acks.peer, &acks.own);
    json!({
        "of_sent": {
            "acks": peer.acks, "segments": peer.segments, "mean": acks.covered(), "most": peer.most,
            "stretched": peer.stretched,
        },
        "of_received": { "acks": own.acks, "segments": own.arrivals, "mean": acks.answered() },
        "segment_bytes": acks.segment_bytes,
    })
}

fn theory(allowed: &Allowed) -> Value {
    let by_acks =
        allowed.reno_by_acks.map(|(rate, per_ack)| json!({ "rate": rate, "segments_per_ack": per_ack }));
    json!({
        "reductions": allowed.reductions, "timeouts": allowed.timeouts, "segments": allowed.segments,
        "round_trip": allowed.round_trip.as_secs_f64(), "reno": allowed.reno, "reno_by_acks": by_acks, "cubic": allowed.cubic,
        "reached": allowed.reached, "ratio": allowed.reached / allowed.own(),
    })
}
