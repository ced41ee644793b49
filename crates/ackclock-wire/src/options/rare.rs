//! Options that few connections use: the user timeout (RFC 5482) and Fast Open (RFC 7413). The experiment
//! (RFC 6994) is the third. Each is sent only where it fits after the others.

use std::time::Duration;

use super::{NOP, TcpOptions, Writer, left};

/// A user timeout in the option's form: whole seconds up to 32,767 of them, whole minutes beyond.
// RFC 5482 §3.3, §3.4: one bit for the unit, 1 for minutes, and 15 bits of value; 0 is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserTimeout(u16);

/// A Fast Open cookie, or the request for one: 0 or 4 to 16 bytes, an even number (RFC 7413 §4.1.1, erratum
/// 4238).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastOpenCookie {
    bytes: [u8; COOKIE_MAX],
    len: u8,
}

impl UserTimeout {
    const MINUTES: u16 = 1 << 15;

    /// The shortest timeout that the option can express and that is not below `timeout`; at most the longest,
    /// 22.7 days.
    #[must_use]
    pub fn at_least(timeout: Duration) -> Self {
        let seconds = timeout.as_secs().saturating_add(u64::from(timeout.subsec_nanos() > 0));
        let most = u64::from(Self::MINUTES - 1);
        let (unit, value) = if seconds <= most {
            (0, seconds.max(1))
        } else {
            (Self::MINUTES, seconds.div_ceil(60).min(most))
        };
        Self(unit | u16::try_from(value).unwrap_or(Self::MINUTES - 1))
    }

    /// The timeout in a received option; `None` for the reserved value 0.
    #[must_use]
    pub fn duration(self) -> Option<Duration> {
        let value = u64::from(self.0 & !Self::MINUTES);
        let unit = if self.0 & Self::MINUTES == 0 { 1 } else { 60 };
        (value > 0).then(|| Duration::from_secs(value.saturating_mul(unit)))
    }

    pub(super) fn parse(bytes: [u8; 2]) -> Self {
        Self(u16::from_be_bytes(bytes))
    }
}

impl FastOpenCookie {
    /// Asks the server for a cookie.
    pub const REQUEST: Self = Self { bytes: [0; COOKIE_MAX], len: 0 };

    /// A cookie of these bytes; `None` if their number is not valid.
    #[must_use]
    pub fn new(cookie: &[u8]) -> Option<Self> {
        let len = u8::try_from(cookie.len()).ok()?;
        let fits = len.is_multiple_of(2) && (len == 0 || (4..=16).contains(&len));
        let mut bytes = [0; COOKIE_MAX];
        bytes.get_mut(..cookie.len()).filter(|_| fits)?.copy_from_slice(cookie);
        Some(Self { bytes, len })
    }

    /// The cookie's bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// Whether it requests a cookie, instead of being one.
    #[must_use]
    pub fn is_request(&self) -> bool {
        self.len == 0
    }

    /// Bytes with kind, length and the NOPs in front.
    fn written_len(&self) -> usize {
        usize::from(self.len_field()).next_multiple_of(4)
    }

    /// The length as the option itself says it: kind, length and cookie.
    fn len_field(&self) -> u8 {
        self.len.saturating_add(2)
    }
}

impl TcpOptions {
    /// The length of all options so far: `used` bytes of others, and the rare ones that fit behind them.
    pub(super) fn with_rare(&self, used: usize) -> usize {
        let used = used.saturating_add(self.fast_open_len(used));
        let used = used.saturating_add(self.user_timeout_len(used));
        used.saturating_add(self.experiment_len(used))
    }

    /// Writes the rare options that fit.
    pub(super) fn write_rare(&self, out: &mut Writer<'_>) {
        let len = self.fast_open_len(out.used());
        if let Some(cookie) = self.fast_open.filter(|_| len > 0) {
            // NOPs in front keep what follows aligned.
            for _ in usize::from(cookie.len_field())..len {
                out.append([NOP]);
            }
            out.append([FAST_OPEN, cookie.len_field()]);
            for byte in cookie.as_slice() {
                out.append([*byte]);
            }
        }
        let len = self.user_timeout_len(out.used());
        if let Some(timeout) = self.user_timeout.filter(|_| len > 0) {
            let [high, low] = timeout.0.to_be_bytes();
            out.append([USER_TIMEOUT, 4, high, low]);
        }
        self.write_experiment(out);
    }

    fn fast_open_len(&self, used: usize) -> usize {
        self.fast_open.map(|cookie| cookie.written_len()).filter(|len| *len <= left(used)).unwrap_or(0)
    }

    fn user_timeout_len(&self, used: usize) -> usize {
        if self.user_timeout.is_some() && 4 <= left(used) { 4 } else { 0 }
    }
}

/// The longest cookie.
const COOKIE_MAX: usize = 16;
pub(super) const USER_TIMEOUT: u8 = 28;
pub(super) const FAST_OPEN: u8 = 34;

ackclock_form::form! {
    struct UserTimeout(field)
    struct FastOpenCookie { bytes, len } => |cookie| usize::from(cookie.len) <= COOKIE_MAX;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn user_timeout_is_told_in_seconds_and_beyond_nine_hours_in_minutes_never_as_less() {
        let told = |timeout| UserTimeout::at_least(timeout).duration();
        assert_eq!(told(Duration::ZERO), seconds(1));
        assert_eq!(told(Duration::from_millis(1001)), seconds(2));
        assert_eq!(told(Duration::from_secs(32_767)), seconds(32_767));
        assert_eq!(told(Duration::from_secs(32_768)), seconds(547 * 60));
        assert_eq!(told(Duration::MAX), seconds(32_767 * 60));
    }

    #[test]
    fn user_timeout_of_zero_says_nothing() {
        assert_eq!(UserTimeout::parse([0, 0]).duration(), None);
        assert_eq!(UserTimeout::parse([0x80, 0]).duration(), None);
        assert_eq!(UserTimeout::parse([0x80, 2]).duration(), seconds(120));
    }

    #[test]
    fn cookies_have_no_or_four_to_sixteen_bytes_an_even_number() {
        let lengths: Vec<_> = (0..20).filter(|&len| FastOpenCookie::new(&[7; 20][..len]).is_some()).collect();
        assert_eq!(lengths, [0, 4, 6, 8, 10, 12, 14, 16]);
        assert!(FastOpenCookie::REQUEST.is_request());
    }
}
