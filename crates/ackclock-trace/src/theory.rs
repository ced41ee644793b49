//! Windows that loss and round trip allow a controller to reach: the response functions of Reno and CUBIC.
//!
//! Both give the mean window, in segments, of a sender that always has data and that loses one segment in 1/p
//! at equal intervals. They assume no timeouts, no first slow start and no limit other than the window.

/// RFC 9438 §5.1: C, in segments a second cubed.
pub const CUBIC_C: f64 = 0.4;
/// RFC 9438 §4.6: the factor by which a reduction multiplies CUBIC's window.
pub const CUBIC_BETA: f64 = 0.7;

/// Reno's window if one segment in 1/p is lost and a counted acknowledgement covers `per_ack` segments:
/// sqrt(3/2) / sqrt(p * `per_ack`).
///
/// M. Mathis, J. Semke, J. Mahdavi and T. Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance
/// Algorithm", ACM CCR 27(3), 1997. A controller that counts bytes grows by a segment each round trip,
/// however many the receiver acknowledges at once: `per_ack` is 1. One that counts acknowledgements grows
/// half as fast if the receiver answers every second segment: `per_ack` is 2.
#[must_use]
pub fn reno_window(p: f64, per_ack: f64) -> f64 {
    (1.5 / (p * per_ack)).sqrt()
}

/// CUBIC's window if one segment in 1/p is lost and a round trip takes `rtt` seconds: the larger of its own
/// curve's mean (RFC 9438 §5) and Reno's (§4.3). It counts bytes.
#[must_use]
pub fn cubic_window(p: f64, rtt: f64) -> f64 {
    let factor = (CUBIC_C * (3.0 + CUBIC_BETA) / (4.0 * (1.0 - CUBIC_BETA))).powf(0.25);
    (factor * (rtt / p).powf(0.75)).max(reno_window(p, 1.0))
}

#[cfg(test)]
mod tests {
    use super::{cubic_window, reno_window};

    #[test]
    fn windows_are_those_of_the_tables_of_rfc_9438() {
        // §5.1, tables 1 and 2: loss, Reno, CUBIC at 100 ms, CUBIC at 10 ms. The tables round Reno's constant
        // to 1.2.
        let rows = [
            (1e-2, 12.0, 12.0, 12.0),
            (1e-3, 38.0, 38.0, 38.0),
            (1e-4, 120.0, 187.0, 120.0),
            (1e-5, 379.0, 1054.0, 379.0),
            (1e-6, 1200.0, 5926.0, 1200.0),
            (1e-7, 3795.0, 33_325.0, 5926.0),
            (1e-8, 12_000.0, 187_400.0, 33_325.0),
        ];
        let close = |found: f64, expected: f64| {
            assert!((0.98..=1.03).contains(&(found / expected)), "{found}, not {expected}");
        };
        for (p, reno, slow, fast) in rows {
            close(reno_window(p, 1.0), reno);
            close(cubic_window(p, 0.1), slow);
            close(cubic_window(p, 0.01), fast);
        }
    }

    #[test]
    fn delayed_acknowledgements_cost_a_controller_that_counts_them() {
        // The constants of Mathis et al.: 1.22, and 0.87 with delayed acknowledgements.
        assert!((1.22..1.23).contains(&(reno_window(1e-4, 1.0) / 100.0)));
        assert!((0.86..0.87).contains(&(reno_window(1e-4, 2.0) / 100.0)));
    }
}
