//! A connection in the words of `ss -ti`, readable at once to anyone who knows these.

use std::fmt::Write;
use std::time::Duration;

use ackclock::{ConnectionInfo, FourTuple};

use super::facts::{Facts, STATES};

/// One line about a connection.
pub(crate) fn line(tuple: &FourTuple, info: &ConnectionInfo) -> String {
    let facts = Facts::from(info);
    format!("{} {} {} {}", facts.state(), tuple.local(), tuple.remote(), words(&facts))
}

/// The words of `ss -i` about a connection.
pub(crate) fn words(info: &Facts) -> String {
    let mut line = info.congestion.clone();
    if info.timestamps {
        line.push_str(" ts");
    }
    if info.sack {
        line.push_str(" sack");
    }
    word(&mut line, "profile", &info.profile);
    word(&mut line, "recovery", &info.recovery);
    if let Some((peer, own)) = info.window_scale {
        word(&mut line, "wscale", format!("{peer},{own}"));
    }
    word(&mut line, "rto", millis(info.rto));
    if let Some(estimator) = &info.rto_estimator {
        word(&mut line, "rto_est", estimator);
    }
    if info.backoff > 0 {
        word(&mut line, "backoff", info.backoff);
    }
    word(&mut line, "rtt", format!("{}/{}", millis(info.srtt), millis(info.rttvar)));
    word(&mut line, "mss", info.snd_mss);
    word(&mut line, "pmtu", info.pmtu);
    word(&mut line, "rcvmss", info.rcv_mss);
    let mss = u64::from(info.snd_mss.max(1));
    word(&mut line, "cwnd", info.cwnd / mss);
    if let Some(ssthresh) = info.ssthresh {
        word(&mut line, "ssthresh", ssthresh / mss);
    }
    counts(&mut line, info);
    rates(&mut line, info);
    queues(&mut line, info, mss);
    word(&mut line, "minrtt", millis(info.rtt_min));
    line
}

/// The name of the timeout's estimator, or the parameters that distinguish it.
pub(super) fn rto_estimator(info: &ConnectionInfo) -> String {
    let config = &info.rto_config;
    let (min, tick) = (millis(config.rto_min), millis(config.granularity));
    config.preset_name().map_or_else(|| format!("custom,min={min}ms,g={tick}ms"), str::to_owned)
}

fn counts(line: &mut String, info: &Facts) {
    word(line, "bytes_sent", info.bytes_sent);
    nonzero(line, "bytes_retrans", info.bytes_retransmitted);
    word(line, "bytes_acked", info.bytes_acked);
    word(line, "bytes_received", info.bytes_received);
    word(line, "segs_out", info.segments_sent);
    word(line, "segs_in", info.segments_received);
}

fn rates(line: &mut String, info: &Facts) {
    // As ss computes it: one window each round trip.
    let srtt = info.srtt.as_secs_f64();
    if srtt > 0.0 {
        let _ = write!(line, " send {}", bps(info.cwnd as f64 * 8.0 / srtt));
    }
    if let Some(last) = info.last_sent {
        word(line, "lastsnd", last.as_millis());
    }
    if let Some(last) = info.last_received {
        word(line, "lastrcv", last.as_millis());
    }
    if let Some(left) = info.idle_left {
        word(line, "idle_left", left.as_millis());
    }
    if let Some(start_up) = info.start_up {
        let _ = write!(line, " start_up {}", bps(start_up.bandwidth as f64 * 8.0));
    }
    if let Some(rate) = info.pacing_rate {
        let _ = write!(line, " pacing_rate {}", bps(rate as f64 * 8.0));
    }
    if info.delivery_rate > 0 {
        let _ = write!(line, " delivery_rate {}", bps(info.delivery_rate as f64 * 8.0));
    }
}

fn queues(line: &mut String, info: &Facts, mss: u64) {
    nonzero(line, "unacked", info.unacked.div_ceil(mss));
    if info.retransmits > 0 {
        let now_lost = info.lost.div_ceil(mss);
        word(line, "retrans", format!("{now_lost}/{}", info.retransmits));
    }
    nonzero(line, "lost", info.lost.div_ceil(mss));
    nonzero(line, "sacked", info.sacked.div_ceil(mss));
    nonzero(line, "timeouts", info.timeouts);
    nonzero(line, "rcv_ooopack", info.out_of_order);
    word(line, "rcv_space", info.rcv_wnd);
    word(line, "snd_wnd", info.snd_wnd);
    let notsent = info.send_queue.saturating_sub(info.unacked);
    nonzero(line, "notsent", notsent);
}

fn word(line: &mut String, name: &str, value: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = write!(line, " {name}:{value}");
}

fn nonzero(line: &mut String, name: &str, value: u64) {
    if value > 0 {
        word(line, name, value);
    }
}

/// Milliseconds as ss prints them: up to three digits after the point, without trailing zeros.
fn millis(duration: Duration) -> String {
    let text = format!("{:.3}", duration.as_secs_f64() * 1e3);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn bps(bits: f64) -> String {
    format!("{bits:.0}bps")
}

/// The state's name as ss writes it.
pub(super) fn state(info: &ConnectionInfo) -> &'static str {
    STATES.into_iter().find(|(state, ..)| *state == info.state).map_or("UNKNOWN", |(.., name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_have_no_idle_digits() {
        assert_eq!(millis(Duration::from_millis(204)), "204");
        assert_eq!(millis(Duration::from_micros(1_250)), "1.25");
        assert_eq!(millis(Duration::ZERO), "0");
    }

    #[test]
    fn words_are_name_colon_value() {
        let mut line = String::new();
        word(&mut line, "mss", 1448);
        nonzero(&mut line, "lost", 0);
        nonzero(&mut line, "sacked", 3);
        assert_eq!(line, " mss:1448 sacked:3");
    }
}
