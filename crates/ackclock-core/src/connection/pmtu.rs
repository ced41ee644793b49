//! Decides which path MTU to believe of an ICMP message (RFC 1191, RFC 8201, RFC 5927 §7).

/// The smallest path MTU that is believed (RFC 5927 §7): IPv4 routers that cannot carry this no longer exist.
pub(crate) const PMTU_MIN_V4: u32 = 552;
/// RFC 8200 §5.
const PMTU_MIN_V6: u32 = 1280;

/// The smallest path MTU.
pub(super) fn pmtu_min(is_ipv4: bool) -> u32 {
    if is_ipv4 { PMTU_MIN_V4 } else { PMTU_MIN_V6 }
}

/// The path MTU that a message with this MTU is believed to tell. It is about a packet larger than the
/// path's MTU, which was taken for `known`.
pub(crate) fn believed_mtu(told: u32, known: u32, is_ipv4: bool) -> Option<u32> {
    match told {
        // RFC 8201 §4: a message that tells less than each IPv6 link carries is discarded.
        _ if !is_ipv4 => (told >= PMTU_MIN_V6).then_some(told),
        // An old router does not report its MTU (RFC 1191 §5): step down the plateaus.
        0 => Some(plateau_below(known)),
        // The packet was too large, whatever the message says: the least that is believed is nearest.
        _ => Some(told.max(PMTU_MIN_V4)),
    }
}

/// The next lower plateau of RFC 1191 §7.1.
pub(crate) fn plateau_below(mtu: u32) -> u32 {
    const PLATEAUS: [u32; 7] = [17_914, 8166, 4352, 2002, 1492, 1006, 552];
    PLATEAUS.into_iter().find(|&plateau| plateau < mtu).unwrap_or(552)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1191 §7.1: the next lower plateau; none is below the smallest that is believed.
    #[test]
    fn plateau_is_the_next_below_and_never_the_same_but_the_last() {
        for (mtu, below) in [(65_535, 17_914), (17_915, 17_914), (17_914, 8166), (1500, 1492), (1492, 1006)] {
            assert_eq!(plateau_below(mtu), below);
        }
        assert_eq!([1007, 1006, 553, 552, 0].map(plateau_below), [1006, 552, 552, 552, 552]);
    }
}
