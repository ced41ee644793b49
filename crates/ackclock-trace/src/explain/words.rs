//! Accounts in sentences.

use std::time::Duration;

use super::account::{Account, account};
use super::acks::STRETCHED;
use super::allowed::Allowed;
use super::samples::{FarSample, RoundTrips, SetRate};
use super::units::{clock, counted, listed, percent, plural, rate, size, span, times};
use super::verdicts::{Held, Verdicts};
use super::waiting::Waiting;
use super::waits::Silence;
use crate::file::{Source, TracedSource};

/// Where the time of a connection went, in sentences.
#[must_use]
pub fn sentences(source: &TracedSource) -> Vec<String> {
    let account = account(source);
    let mut said = vec![life(source, &account)];
    if source.missed > 0 {
        let missed = source.missed;
        said.push(format!(
            "{missed} records before these are missing, so what follows is of the last part only."
        ));
    }
    if source.unknown > 0 {
        said.push(format!("{} records are of kinds that this version does not know.", source.unknown));
    }
    said.extend(waits(&account));
    said.extend(attempts(account.waits.attempts));
    if source.source.is_captured() {
        said.extend(assessed(&account));
    } else {
        said.extend(losses(&account));
    }
    said.extend(held(&account.verdicts.held));
    said.extend(refuted(&account.verdicts));
    said.extend(timeouts(&account));
    said.extend(probes(&account));
    said.extend(round_trips(&account.round_trips));
    said.extend(acks(&account));
    said.extend(account.allowed.as_ref().map(theory));
    said.extend(late(account.waits.late));
    said
}

fn life(source: &TracedSource, account: &Account) -> String {
    let Source::Connection { profile, congestion, .. } = &source.source else {
        return format!("{} is not a connection.", source.source);
    };
    let again = match account.again.bytes {
        0 => "none of them twice".to_owned(),
        bytes => format!("and {} again", size(bytes)),
    };
    if source.source.is_captured() {
        return format!(
            "{} was captured for {}; it sent {}, {again}, and received {}. Why it sent what it sent is \
             inferred.",
            source.source,
            span(account.duration),
            size(account.bytes_sent),
            size(account.bytes_received),
        );
    }
    let failed = account.failed.map_or(String::new(), |failure| format!(" It failed: {failure}."));
    format!(
        "{} (profile {profile}, controller {congestion}) is traced for {}; it sent {}, {again}, and received \
         {}.{failed}",
        source.source,
        span(account.duration),
        size(account.bytes_sent),
        size(account.bytes_received),
    )
}

/// The waits, longest first. Those that would show as 0.0 % share one line, if any.
fn waits(account: &Account) -> Vec<String> {
    let whole = account.duration.as_secs_f64();
    let mut waits: Vec<(Waiting, Duration)> =
        account.waits.time.iter().map(|(&what, &time)| (what, time)).collect();
    waits.sort_by_key(|&(_, time)| std::cmp::Reverse(time));
    let (mut said, mut short) = (Vec::new(), Vec::new());
    for (what, time) in waits {
        match percent(time.as_secs_f64(), whole) {
            Some(share) => said.push(format!("{share} of the time ({}) {}.", span(time), wait_words(what))),
            None => short.push((what, time)),
        }
    }
    let rest: Duration = short.iter().map(|&(_, time)| time).sum();
    if let Some(share) = percent(rest.as_secs_f64(), whole) {
        let names: Vec<&str> = short.iter().map(|(what, _)| what.name()).collect();
        said.push(format!("{share} of the time ({}) went to other waits: {}.", span(rest), names.join(", ")));
    }
    said
}

fn wait_words(what: Waiting) -> &'static str {
    match what {
        Waiting::Handshake => "it waited for the handshake",
        Waiting::Application => "it had nothing to send: it waited for the application",
        Waiting::SendBuffer => "the send buffer was full: its application had more to write",
        Waiting::Host => "this host kept it waiting, its processor or its device: nothing else did",
        Waiting::PeerWindow => "the peer's window kept it from sending more",
        Waiting::Reader => "the peer's application was slow to read, and its window had closed or nearly",
        Waiting::Cwnd => "the congestion window was full: it waited for acknowledgements",
        Waiting::SlowStart => {
            "the congestion window was full and still in slow start: it waited for acknowledgements"
        }
        Waiting::Path => {
            "the path was busy: what had been sent waited in a queue, before its slowest link or in a host"
        }
        Waiting::DelayedAck => "it waited for the peer to acknowledge a lone segment, which the peer delays",
        Waiting::Recovery => "it recovered from losses, and was allowed no more than it sent",
        Waiting::Timeout => "it waited in silence for a retransmission timer to run out",
        Waiting::TailProbe => "it waited in silence until a tail probe was due (RFC 8985 §7)",
        Waiting::Pacing => "it waited for its turn at the rate that its controller sets",
        Waiting::RateCap => "it waited for its turn at the largest rate that its application allows",
        Waiting::Nagle => "it held a small segment back until an acknowledgement came (Nagle's algorithm)",
        Waiting::Cork => "it held a small segment back because its application had corked the stream",
        Waiting::Unseen => {
            "it waited for what no packet shows: the congestion window, pacing, or the application"
        }
        Waiting::Closing => {
            "all had been sent, and it waited for the last acknowledgements or the peer's close"
        }
    }
}

fn attempts((attempts, time): (u32, Duration)) -> Option<String> {
    (attempts > 1).then(|| {
        let span = span(time);
        format!("The handshake took {attempts} attempts: the last left {span} after the first, which was lost or not answered.")
    })
}

/// How the retransmissions of a captured connection are classified.
fn assessed(account: &Account) -> Option<String> {
    if account.verdicts.declared.is_empty() {
        return None;
    }
    Some(format!("What was sent again is taken for an answer to {}.", counted(&account.verdicts.declared)))
}

fn losses(account: &Account) -> Vec<String> {
    let mut said = Vec::new();
    if !account.verdicts.declared.is_empty() {
        said.push(format!(
            "Losses were declared by {}; {}, each of which reduced the congestion window.",
            counted(&account.verdicts.declared),
            plural(account.episodes, "loss episode", "loss episodes"),
        ));
    }
    if !account.again.segments.is_empty() {
        said.push(format!("What was sent again left as {}.", counted(&account.again.segments)));
    }
    if account.marks > 0 {
        let marks =
            plural(account.marks, "Congestion Experienced mark was", "Congestion Experienced marks were");
        said.push(format!("{marks} answered as losses are, without one."));
    }
    if !account.verdicts.undone.is_empty() {
        let undone = counted(&account.verdicts.undone);
        said.push(format!("Reductions that had been wrong were taken back: {undone}."));
    }
    said
}

fn held(held: &Held) -> Option<String> {
    let found = plural(
        held.losses(),
        "loss that a timer found could not be repaired at once",
        "losses that timers found could not be repaired at once",
    );
    let by = counted(&held.by);
    let waited = held.longest.map_or(String::new(), |(at, longest)| match held.losses() - held.never {
        1 => format!("; its first retransmission left {} later (found at {})", span(longest), clock(at)),
        _ => format!(
            "; until the first retransmission of each {} passed altogether, {} at most (found at {})",
            span(held.time),
            span(longest),
            clock(at)
        ),
    });
    let never = match held.never {
        0 => String::new(),
        never => format!(
            "; {never} never went, because the data was acknowledged or the verdict taken back before"
        ),
    };
    (held.losses() > 0).then(|| format!("{found}, held back by {by}{waited}{never}."))
}

fn refuted(verdicts: &Verdicts) -> Option<String> {
    let all = &verdicts.refuted;
    let count: u64 = all.values().map(|refuted| refuted.verdicts).sum();
    let rules: Vec<String> = all
        .iter()
        .map(|(rule, refuted)| format!("{rule} ({}, {})", times(refuted.verdicts), size(refuted.bytes)))
        .collect();
    let verdicts = plural(
        count,
        "verdict was wrong, as the peer's D-SACK",
        "verdicts were wrong, as the peer's D-SACKs",
    );
    let told = if count == 1 { "tells" } else { "tell" };
    (count > 0).then(|| format!("{verdicts} {told}: {}.", rules.join(", ")))
}

fn timeouts(account: &Account) -> Option<String> {
    let (number, total, longest) = silences(&account.waits.timeouts)?;
    Some(format!(
        "{} after {} of silence altogether; the longest at {} after {}, number {} in a row.",
        plural(number, "retransmission timer ran out", "retransmission timers ran out"),
        span(total),
        clock(longest.at),
        span(longest.lasted),
        longest.count,
    ))
}

fn probes(account: &Account) -> Option<String> {
    let (number, total, longest) = silences(&account.waits.probes)?;
    let needless = match account.verdicts.needless_probes {
        0 => String::new(),
        needless => format!("; {needless} repeated what had arrived, as the peer reported"),
    };
    Some(format!(
        "{} after {} of silence altogether; the longest silence ended at {} after {}{needless}.",
        plural(number, "tail probe was sent", "tail probes were sent"),
        span(total),
        clock(longest.at),
        span(longest.lasted),
    ))
}

/// Their number, their total time, and the longest.
fn silences(silences: &[Silence]) -> Option<(u64, Duration, Silence)> {
    let longest = silences.iter().max_by_key(|silence| silence.lasted)?;
    Some((silences.len() as u64, silences.iter().map(|silence| silence.lasted).sum(), *longest))
}

fn round_trips(round_trips: &RoundTrips) -> Vec<String> {
    let Some((least, mean, most)) = round_trips.range else { return Vec::new() };
    let (least, mean, most) = (span(least), span(mean), span(most));
    let mut said = vec![format!("Round trips took {least} at least, {mean} on average, {most} at most.")];
    let times_off = |far: &&FarSample| {
        let ratio = far.sample.as_secs_f64() / far.usual.as_secs_f64().max(1e-9);
        if ratio < 1.0 { 1.0 / ratio.max(1e-9) } else { ratio }
    };
    let far = &round_trips.far;
    if let Some(farthest) = far.iter().max_by(|one, other| times_off(one).total_cmp(&times_off(other))) {
        let (far, count) = (far.len(), round_trips.count);
        let lie = match far {
            1 => format!("1 of {count} round-trip samples lies far from those around it"),
            _ => format!("{far} of {count} round-trip samples lie far from those around them; the farthest"),
        };
        said.push(format!("{lie}: {}.", far_words(farthest)));
    }
    said
}

fn far_words(far: &FarSample) -> String {
    let srtt = far.srtt.map(|srtt| format!("a smoothed round trip of {}", span(srtt)));
    let rto = format!("a timeout of {}", span(far.rto));
    let speed = far.rate.map(|speed| match speed {
        SetRate::Pacing(speed) => format!("a pacing rate of {}", rate(speed as f64)),
        SetRate::Bandwidth(speed) => format!("a bandwidth estimate of {}", rate(speed as f64)),
    });
    let left: Vec<String> = [srtt, Some(rto), speed].into_iter().flatten().collect();
    format!(
        "{} at {}, from the acknowledgement of all before byte {}, where {} was usual; it left {}",
        span(far.sample),
        clock(far.at),
        far.ack,
        span(far.usual),
        listed(&left),
    )
}

fn acks(account: &Account) -> Vec<String> {
    let mut said = Vec::new();
    let (acks, peer) = (&account.acks, &account.acks.peer);
    if let Some(mean) = acks.covered() {
        let stretched = match (peer.stretched, percent(peer.stretched as f64, peer.acks as f64)) {
            (0, _) => format!("none covered more than {STRETCHED}"),
            (_, Some(share)) => format!("{share} covered more than {STRETCHED}"),
            (few, None) => format!("{few} of {} covered more than {STRETCHED}", peer.acks),
        };
        said.push(format!(
            "An acknowledgement of the peer covered {mean:.1} segments on average, {} at most; {stretched}.",
            peer.most
        ));
    }
    if let Some(mean) = acks.answered() {
        said.push(format!(
            "This end acknowledged {mean:.1} segments at a time on average, counted as the device gave them."
        ));
    }
    said
}

fn theory(allowed: &Allowed) -> String {
    let reno = rate(allowed.reno);
    let allows = match (allowed.cubic, allowed.reno_by_acks) {
        (Some(cubic), _) => {
            format!("CUBIC {} (RFC 9438 §5), and Reno {reno} (Mathis et al. 1997)", rate(cubic))
        }
        (None, Some((by_acks, per_ack))) => format!(
            "Reno {reno} if it counts bytes, {} if it counts acknowledgements of {per_ack:.1} segments \
             (Mathis et al. 1997)",
            rate(by_acks)
        ),
        (None, None) => format!("Reno {reno} (Mathis et al. 1997)"),
    };
    let timeouts = match allowed.timeouts {
        0 => String::new(),
        timeouts => format!(
            " {} among the reductions; their silence is in no formula.",
            plural(timeouts, "timeout is", "timeouts are")
        ),
    };
    format!(
        "In theory {} in {} segments and a round trip of {} allow {allows}; {} was reached, {:.2} times the \
         first.{timeouts}",
        plural(allowed.reductions, "reduction", "reductions"),
        allowed.segments,
        span(allowed.round_trip),
        rate(allowed.reached),
        allowed.reached / allowed.own(),
    )
}

fn late((count, most): (u64, Duration)) -> Option<String> {
    let late = plural(count, "timer ran out", "timers ran out");
    (count > 0).then(|| format!("{late} more than a millisecond late, by up to {}.", span(most)))
}
