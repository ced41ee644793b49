//! Limits a whole endpoint to one rate, by a token bucket over its packets. While the rate holds packets
//! back, connections take turns by bytes (`Fair` in `schedule.rs`).
//!
//! A token is a byte of an IP packet. The bucket is the schedule that paces a connection
//! ([`Pacer`], the generic cell rate algorithm): what leaves may be `burst` bytes ahead of the rate. Nothing
//! is queued here. A packet is made when it may leave, so it carries the newest acknowledgement, and no round
//! trip contains the time that it waits.

use crate::sending::Pacer;
use crate::{Instant, Limits};

/// The rate of everything that an endpoint sends, in bytes of IP packets, headers included.
///
/// In any span of time no more leaves than the rate makes of it and `burst` together. Only the headers of a
/// large packet that the device cuts, and datagrams that a program hands over in one call, may exceed it for
/// the moment; they are counted, and what follows waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shaping {
    /// Bytes a second; 0 counts as 1.
    pub rate: u64,
    /// Bytes that may leave at one time after a pause; at least a packet of the device's MTU. A driver whose
    /// timers are late by more than the rate needs for it sends less than the rate.
    pub burst: u64,
}

impl Shaping {
    /// This many bytes a second, and at one time what that is in 5 ms, or ten packets of 1,500 bytes if that
    /// is more.
    #[must_use]
    pub fn new(rate: u64) -> Self {
        Self { rate, burst: (rate / 200).max(15_000) }
    }

    /// Sets the burst, in bytes.
    #[must_use]
    pub fn burst(self, burst: u64) -> Self {
        Self { burst, ..self }
    }

    /// The share of one of this many endpoints.
    pub(crate) fn part(self, endpoints: usize) -> Self {
        let endpoints = endpoints.max(1) as u64;
        Self { rate: self.rate.div_ceil(endpoints), burst: self.burst.div_ceil(endpoints) }
    }
}

/// The bucket.
#[derive(Debug)]
pub(super) struct Shaper {
    schedule: Pacer,
    rate: u64,
    burst: u64,
    /// When the next packet may leave, if one had to wait.
    due: Option<Instant>,
}

impl Shaper {
    pub fn new(shaping: Shaping, now: Instant) -> Self {
        let Shaping { rate, burst } = shaping;
        let mut schedule = Pacer::new(now);
        schedule.set_rate(rate.max(1));
        Self { schedule, rate: rate.max(1), burst: burst.min(Pacer::BYTES_MAX), due: None }
    }

    /// The limits of a packet that may leave now; `None`: none may before [`due`](Self::due).
    pub fn limits(&mut self, now: Instant, limits: Limits, mtu: usize) -> Option<Limits> {
        let mtu = mtu as u64;
        let burst = self.burst.max(mtu);
        let allowance = self.schedule.allowance(now, burst);
        if allowance < mtu {
            let spare = u128::from(burst.saturating_sub(mtu)).saturating_mul(SECOND_NS);
            let ahead = spare.checked_div(self.rate.into()).unwrap_or(0);
            let ahead = u64::try_from(ahead).unwrap_or(u64::MAX);
            self.due = Some(Instant::from_nanos(self.schedule.even_at().as_nanos().saturating_sub(ahead)));
            return None;
        }
        self.due = None;
        let most = usize::try_from(allowance).unwrap_or(usize::MAX);
        let (gso_max_v4, gso_max_v6) = (limits.gso_max_v4.min(most), limits.gso_max_v6.min(most));
        Some(Limits { gso_max_v4, gso_max_v6, ..limits })
    }

    /// These bytes leave.
    pub fn charge(&mut self, now: Instant, bytes: u64) {
        self.schedule.charge(now, bytes);
    }

    /// When the next packet may leave, if one waits for that.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The timer expired.
    pub fn on_timeout(&mut self, now: Instant) {
        self.due = self.due.filter(|due| *due > now);
    }
}

const SECOND_NS: u128 = 1_000_000_000;

ackclock_form::form! {
    struct Shaping { rate, burst }
    struct Shaper { schedule, rate, burst, due }
}
