//! Random numbers that are the same on every machine, with a separate generator for each link and
//! application.
//!
//! A generator's seed comes from the scenario's seed and the user's name, so an added link or application
//! does not change what the others draw. The variates are computed in integers: a platform's `ln` and `exp`
//! may differ in their last bit, and one bit makes another simulation.

pub use ackclock_wire::random::Rng;

use crate::units::{Share, Span};

/// Draws from the distributions that traffic and links follow.
pub trait Variates {
    /// Whether an event of this probability happens.
    fn happens(&mut self, share: Share) -> bool;

    /// An exponentially distributed time.
    fn exponential(&mut self, mean: Span) -> Span;

    /// A Pareto-distributed number of at least `least`, with the shape in thousandths (1500: α = 1.5). It
    /// saturates.
    fn pareto(&mut self, least: u64, shape_thousandths: u32) -> u64;

    /// A log-normally distributed number with this median. The standard deviation of its logarithm to base 2
    /// is given in thousandths.
    ///
    /// The normal variate is a sum of twelve uniform ones (Irwin and Hall), right to about 0.01 within three
    /// standard deviations and never beyond six.
    fn log_normal(&mut self, median: u64, deviation_thousandths: u32) -> u64;
}

impl Variates for Rng {
    #[inline]
    fn happens(&mut self, share: Share) -> bool {
        share.holds(self.next_u64())
    }

    fn exponential(&mut self, mean: Span) -> Span {
        // -ln(U) = -log2(U) * ln 2.
        let nats = (u128::from(neg_log2(self)) * LN_2_Q32) >> 32;
        Span(narrow((nats * u128::from(mean.0)) >> 32))
    }

    fn pareto(&mut self, least: u64, shape_thousandths: u32) -> u64 {
        // U^(-1/α) = 2^(-log2(U)/α).
        let exponent = u128::from(neg_log2(self)) * 1000 / u128::from(shape_thousandths.max(1));
        narrow(exp2_q32(narrow(exponent)).saturating_mul(u128::from(least)) >> 32)
    }

    fn log_normal(&mut self, median: u64, deviation_thousandths: u32) -> u64 {
        let sum: u64 = (0..12).map(|_| self.next_u64() >> 32).sum();
        let below = sum < 6 << 32;
        let distance = sum.abs_diff(6 << 32) * u64::from(deviation_thousandths) / 1000;
        let factor = exp2_q32(distance);
        let median = u128::from(median);
        narrow(if below { (median << 32) / factor } else { median.saturating_mul(factor) >> 32 })
    }
}

/// The secret of a host.
pub(crate) fn secret(rng: &mut Rng) -> [u8; 32] {
    let mut secret = [0; 32];
    secret.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next_u64().to_le_bytes()));
    secret
}

/// -log2 of a uniform number in (0, 1], in parts of 2³².
fn neg_log2(rng: &mut Rng) -> u64 {
    (64 << 32) - log2_q32(u128::from(rng.next_u64()) + 1)
}

/// log2 of `x` from 1 to 2⁶⁴, in parts of 2³², rounded down: the mantissa is squared for each bit.
fn log2_q32(x: u128) -> u64 {
    let whole = x.ilog2();
    let mut mantissa = if whole <= 63 { x << (63 - whole) } else { x >> (whole - 63) };
    let mut log = u64::from(whole);
    for _ in 0..32 {
        mantissa = (mantissa * mantissa) >> 63;
        let bit = mantissa >> 64;
        mantissa >>= bit;
        log = log << 1 | bit as u64;
    }
    log
}

/// 2 to the power of `x` parts of 2³², itself in parts of 2³²; saturates.
fn exp2_q32(x: u64) -> u128 {
    let mut product: u128 = 1 << 63;
    for (bit, root) in ROOTS_OF_2.iter().enumerate() {
        if x >> (31 - bit) & 1 == 1 {
            product = (product * root) >> 63;
        }
    }
    match (x >> 32) as u32 {
        whole @ ..=63 => product >> 31 << whole,
        _ => u128::MAX,
    }
}

fn narrow(x: u128) -> u64 {
    u64::try_from(x).unwrap_or(u64::MAX)
}

/// 2^(1/2), 2^(1/4), 2^(1/8) and so on, in parts of 2⁶³.
const ROOTS_OF_2: [u128; 32] = {
    let mut roots = [0; 32];
    let mut root: u128 = 1 << 64;
    let mut n = 0;
    while n < roots.len() {
        root = (root << 63).isqrt();
        roots[n] = root;
        n += 1;
    }
    roots
};

const LN_2_Q32: u128 = 2_977_044_472;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_and_powers_agree_with_floating_point() {
        for x in [1u64, 2, 3, 10, 1 << 33, 12_345_678_901, u64::MAX] {
            let log = log2_q32(u128::from(x)) as f64 / 2f64.powi(32);
            assert!((log - (x as f64).log2()).abs() < 1e-8, "log2({x}) = {log}");
        }
        assert_eq!(log2_q32(1 << 64), 64 << 32);
        for x in [0.0, 0.5, 1.0, 3.25, 20.7, 40.001] {
            let power = exp2_q32((x * 2f64.powi(32)) as u64) as f64 / 2f64.powi(32);
            assert!((power / x.exp2() - 1.0).abs() < 1e-8, "2^{x} = {power}");
        }
    }

    #[test]
    fn variates_have_the_moments_of_their_distributions() {
        const N: u64 = 100_000;
        let mut rng = Rng::derive(7, "variates");
        // The mean of N exponential variates has a standard deviation of mean/sqrt(N): 5 of them are 1.6 %.
        let sum: u64 = (0..N).map(|_| rng.exponential(Span(1_000_000)).0).sum();
        assert!((984_000..1_016_000).contains(&(sum / N)), "mean {}", sum / N);
        // Pareto's median is least * 2^(1/α); a sample median's error is below 5/(2 f sqrt(N)).
        let mut draws: Vec<u64> = (0..N).map(|_| rng.pareto(1000, 1500)).collect();
        draws.sort_unstable();
        assert!(draws[0] >= 1000);
        let median = draws[draws.len() / 2];
        assert!((1570..1605).contains(&median), "median {median}, wanted 1587");
        let mut draws: Vec<u64> = (0..N).map(|_| rng.log_normal(4500, 2000)).collect();
        draws.sort_unstable();
        let (median, upper) = (draws[draws.len() / 2], draws[draws.len() * 84134 / 100_000]);
        assert!((4370..4640).contains(&median), "median {median}");
        // One standard deviation above the median: 2^2 times it, to 3 %.
        assert!((17_400..18_600).contains(&upper), "84 % are below {upper}");
    }
}
