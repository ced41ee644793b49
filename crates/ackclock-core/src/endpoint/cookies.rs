//! SYN cookies: a half-open connection kept by the peer instead of here (RFC 4987 §3.6; D. J. Bernstein,
//! 1996).
//!
//! The initial sequence number is the record:
//!
//! ```text
//!   31 30 29 | 28 27 | 26 ........ 0
//!   MSS code | tick  | MAC of name, IRS, tick, options
//! ```
//!
//! plus a keyed hash of name and IRS, so that the fields do not show. The tick lasts 64 s; a cookie is valid
//! during its tick and the next one. What does not fit goes into the low six bits of the timestamp, if the
//! peer offers timestamps: window scale, SACK and whether ECN was agreed on; the MAC covers them too. Without
//! timestamps a cookie cannot carry them. The ACK's ECN flags show which form of ECN it was
//! (RFC 9768 §3.2.2.1).
//!
//! A guess succeeds with probability 2 ticks × 8 codes / 2^32 = 2^-28, and is checked only if a listener's
//! queue has recently overflowed. Several endpoints that form one host share the secret, and an ACK that
//! arrives at another endpoint than its SYN is checked there
//! ([`CookieWatch`](super::directory::CookieWatch)).

use std::time::Duration;

use ackclock_wire::SeqNum;

use super::keys::{Key, Purpose};
use crate::{FourTuple, Instant};

/// Issues and checks cookies.
#[derive(Debug)]
pub(super) struct Cookies {
    mac: Key,
    mask: Key,
}

/// What a cookie carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CookieOptions {
    /// The peer's MSS, rounded down to one of [`MSS_CODES`].
    pub(super) mss: u16,
    /// The rest, only with timestamps.
    pub(super) with_timestamps: Option<CookieExtras>,
}

/// What a cookie carries in the timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CookieExtras {
    /// The peer's shift count, if it offered one.
    pub(super) window_scale: Option<u8>,
    /// Whether the peer permits SACK.
    pub(super) sack: bool,
    /// Whether ECN was agreed on.
    pub(super) ecn: bool,
}

impl Cookies {
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        Self { mac: Key::derive(secret, Purpose::Cookies), mask: Key::derive(secret, Purpose::CookieMask) }
    }

    /// The initial sequence number that encodes a SYN with these options.
    pub(super) fn issue(
        &self,
        now: Instant,
        tuple: &FourTuple,
        irs: SeqNum,
        options: CookieOptions,
    ) -> SeqNum {
        let code = mss_code(options.mss);
        let tick = tick(now);
        let mac = self.mac(tuple, irs, tick, code, extras_bits(options.with_timestamps));
        let fields = code << CODE_SHIFT | (tick & TICK_MASK) << TICK_SHIFT | mac;
        SeqNum::new(fields.wrapping_add(self.mask(tuple, irs)))
    }

    /// Decodes the cookie in an ACK; `None` if it is not ours or too old. `timestamp_echo` is the ACK's
    /// TSecr.
    pub(super) fn check(
        &self,
        now: Instant,
        tuple: &FourTuple,
        irs: SeqNum,
        cookie: SeqNum,
        timestamp_echo: Option<u32>,
    ) -> Option<CookieOptions> {
        let fields = cookie.raw().wrapping_sub(self.mask(tuple, irs));
        let age = tick(now).wrapping_sub(fields >> TICK_SHIFT) & TICK_MASK;
        if age >= TICKS_LIVE {
            return None;
        }
        let code = fields >> CODE_SHIFT;
        let with_timestamps = timestamp_echo.map(extras_from);
        let mac = self.mac(tuple, irs, tick(now).wrapping_sub(age), code, extras_bits(with_timestamps));
        if mac != fields & MAC_MASK {
            return None;
        }
        let mss = *MSS_CODES.get(code as usize)?;
        Some(CookieOptions { mss, with_timestamps })
    }

    fn mac(&self, tuple: &FourTuple, irs: SeqNum, tick: u32, code: u32, extras: u32) -> u32 {
        // The tick takes 64 s × 2^22 = 8 years to repeat the same MAC.
        let hash = self.mac.hash24_tuple(tuple, [irs.raw(), tick << 10 | code << 7 | extras]);
        (hash >> 32) as u32 & MAC_MASK
    }

    fn mask(&self, tuple: &FourTuple, irs: SeqNum) -> u32 {
        (self.mask.hash24_tuple(tuple, [irs.raw(), 0]) >> 32) as u32
    }
}

/// The timestamp of a SYN-ACK with a cookie: `clock`, set back by less than 64 ticks so that its low bits
/// carry the extras. Later timestamps of the connection are therefore never before it.
pub(super) fn cookie_timestamp(clock: u32, extras: CookieExtras) -> u32 {
    let bits = extras_bits(Some(extras)) & EXTRAS_MASK;
    let timestamp = clock & !EXTRAS_MASK | bits;
    if bits > clock & EXTRAS_MASK { timestamp.wrapping_sub(EXTRAS_MASK + 1) } else { timestamp }
}

/// The longest time after its issue that a cookie is valid.
pub(super) const COOKIE_LIFETIME: Duration = Duration::from_secs(TICK_SECONDS * TICKS_LIVE as u64);

/// Six bits of extras, and a seventh that says whether there are any.
fn extras_bits(extras: Option<CookieExtras>) -> u32 {
    let Some(extras) = extras else { return 0 };
    let scale = extras.window_scale.map_or(SCALE_NONE, |scale| u32::from(scale.min(SCALE_MAX)));
    1 << 6 | u32::from(extras.ecn) << 5 | u32::from(extras.sack) << 4 | scale
}

fn extras_from(timestamp: u32) -> CookieExtras {
    let scale = timestamp & SCALE_NONE;
    let window_scale = (scale != SCALE_NONE).then_some(scale as u8);
    CookieExtras { window_scale, sack: timestamp & 1 << 4 != 0, ecn: timestamp & 1 << 5 != 0 }
}

/// The code of the largest MSS that is not above the peer's.
fn mss_code(mss: u16) -> u32 {
    let above = MSS_CODES.iter().position(|&coded| coded > mss).unwrap_or(MSS_CODES.len());
    u32::try_from(above.saturating_sub(1)).unwrap_or(0)
}

fn tick(now: Instant) -> u32 {
    (now.as_nanos() / (TICK_SECONDS * 1_000_000_000)) as u32
}

/// The MSS values that a cookie can encode: those common on Ethernet, tunnels, PPPoE and jumbo frames, and
/// the defaults of IPv4 and IPv6. The first also represents all smaller ones.
const MSS_CODES: [u16; 8] = [216, 536, 1220, 1300, 1400, 1440, 1460, 8960];

const TICK_SECONDS: u64 = 64;
const TICKS_LIVE: u32 = 2;
const CODE_SHIFT: u32 = 29;
const TICK_SHIFT: u32 = 27;
const TICK_MASK: u32 = 0b11;
const MAC_MASK: u32 = (1 << TICK_SHIFT) - 1;
const EXTRAS_MASK: u32 = (1 << 6) - 1;
const SCALE_NONE: u32 = 15;
const SCALE_MAX: u8 = 14;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tuple() -> FourTuple {
        FourTuple::new("10.0.0.1:80".parse().unwrap(), "192.0.2.9:40000".parse().unwrap())
    }

    fn seconds(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    const PLAIN: CookieOptions = CookieOptions { mss: 1460, with_timestamps: None };

    #[test]
    fn a_cookie_tells_the_mss_rounded_down() {
        let cookies = Cookies::new(&[1; 32]);
        let told = |mss| {
            let options = CookieOptions { mss, with_timestamps: None };
            let cookie = cookies.issue(seconds(5), &tuple(), SeqNum::new(7), options);
            cookies.check(seconds(6), &tuple(), SeqNum::new(7), cookie, None).map(|options| options.mss)
        };
        assert_eq!(told(1460), Some(1460));
        assert_eq!(told(1459), Some(1440));
        assert_eq!(told(9000), Some(8960));
        assert_eq!(told(100), Some(216));
    }

    #[test]
    fn a_cookie_lives_at_most_128_seconds() {
        let cookies = Cookies::new(&[1; 32]);
        for issued in [0, 1, 63, 64, 100, 191, 64 * 1_000_003 + 9] {
            let cookie = cookies.issue(seconds(issued), &tuple(), SeqNum::new(7), PLAIN);
            let taken =
                |at| cookies.check(seconds(at), &tuple(), SeqNum::new(7), cookie, None) == Some(PLAIN);
            assert!((0..=64).all(|age| taken(issued + age)), "issued at {issued}");
            assert!((128..600).all(|age| !taken(issued + age)), "issued at {issued}");
        }
    }

    #[test]
    fn a_cookie_is_bound_to_name_sequence_number_and_secret() {
        let cookies = Cookies::new(&[1; 32]);
        let now = seconds(1000);
        let cookie = cookies.issue(now, &tuple(), SeqNum::new(7), PLAIN);
        let other = FourTuple { remote_port: 40_001, ..tuple() };
        assert_eq!(cookies.check(now, &other, SeqNum::new(7), cookie, None), None);
        assert_eq!(cookies.check(now, &tuple(), SeqNum::new(8), cookie, None), None);
        assert_eq!(cookies.check(now, &tuple(), SeqNum::new(7), cookie + 1, None), None);
        assert_eq!(Cookies::new(&[2; 32]).check(now, &tuple(), SeqNum::new(7), cookie, None), None);
    }

    #[test]
    fn extras_cannot_be_changed_on_the_way() {
        let cookies = Cookies::new(&[1; 32]);
        let extras = CookieExtras { window_scale: Some(7), sack: true, ecn: true };
        let options = CookieOptions { mss: 1460, with_timestamps: Some(extras) };
        let cookie = cookies.issue(seconds(9), &tuple(), SeqNum::new(7), options);
        let timestamp = cookie_timestamp(123_456, extras);
        let check = |echo| cookies.check(seconds(9), &tuple(), SeqNum::new(7), cookie, echo);
        assert_eq!(check(Some(timestamp)), Some(options));
        assert_eq!(check(None), None, "the timestamps were left out");
        assert_eq!(check(Some(timestamp ^ 1)), None, "another window scale");
        assert_eq!(check(Some(timestamp ^ 1 << 4)), None, "no SACK");
        assert_eq!(check(Some(timestamp ^ 1 << 5)), None, "no ECN");
    }

    #[test]
    fn sec_a13_guessed_cookies_are_refused() {
        const GUESSES: u32 = 300_000;
        let cookies = Cookies::new(&[1; 32]);
        let mut guess = 0x9e37_79b9_u32;
        let mut taken = 0;
        for _ in 0..GUESSES {
            guess ^= guess << 13;
            guess ^= guess >> 17;
            guess ^= guess << 5;
            let cookie = SeqNum::new(guess);
            taken += u32::from(
                cookies.check(seconds(77), &tuple(), SeqNum::new(guess >> 3), cookie, None).is_some(),
            );
        }
        // 2^-28 each: one in a thousand runs of this size would have one, and this run is always the same.
        assert_eq!(taken, 0);
    }

    proptest! {
        #[test]
        fn the_timestamp_carries_the_extras_and_is_never_ahead_of_the_clock(
            clock in any::<u32>(), scale in prop::option::of(0_u8..=14), sack in any::<bool>(), ecn in any::<bool>(),
        ) {
            let extras = CookieExtras { window_scale: scale, sack, ecn };
            let timestamp = cookie_timestamp(clock, extras);
            prop_assert_eq!(extras_from(timestamp), extras);
            prop_assert!(clock.wrapping_sub(timestamp) < 64);
        }
    }
}
