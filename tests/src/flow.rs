//! The segments that one end of a connection sent and received, and the invariants between the two: numbers,
//! acknowledgements and the window's right edge never go back, and no data lies beyond the window.

use crate::segment::{ACK, RST, SYN, Seg};

/// One end, seen from the wire.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    iss: Option<u32>,
    /// The highest sequence number sent, plus one.
    snd_nxt: u32,
    /// The largest acknowledgement and right window edge sent.
    ack: Option<u32>,
    edge: Option<u32>,
    /// The window on the peer's SYN, which counts from our first byte on.
    syn_window: u16,
    /// The right window edge that the peer allowed.
    allowed: Option<u32>,
    /// Shift counts of this end's SYN and of the peer's.
    scales: [Option<u8>; 2],
    /// How often this end's numbers passed 2^31 or 2^32.
    pub wraps: u32,
}

impl Flow {
    /// This end sent a segment.
    ///
    /// # Panics
    /// If RCV.NXT or the window's right edge goes back, or data lies beyond the peer's window.
    pub fn sent(&mut self, seg: &Seg) {
        if seg.has(SYN) {
            self.iss = Some(seg.seq);
            self.snd_nxt = seg.seq.wrapping_add(1);
            self.scales[0] = seg.window_scale();
            self.allowed = self.allowed.or(Some(self.snd_nxt.wrapping_add(u32::from(self.syn_window))));
        }
        if seg.has(RST) {
            return;
        }
        if seg.has(ACK) {
            let edge = seg.ack.wrapping_add(self.window(seg, 0));
            assert!(before_eq(self.ack, seg.ack), "RCV.NXT went back: {self:?} {seg:?}");
            // RFC 9293 SHLD-14. A repeated SYN,ACK cannot carry more than 65,535, whatever an acknowledgement
            // has advertised in between. RFC 7323 §2.4: within the unit of the window, the edge may seem to
            // go back.
            let rounded = self.unit(seg, 0) - 1;
            let holds = before_eq(self.edge, edge.wrapping_add(rounded));
            assert!(holds || seg.has(SYN), "the window's right edge went back: {self:?} {seg:?}");
            self.ack = Some(seg.ack);
            if before_eq(self.edge, edge) {
                self.edge = Some(edge);
            }
        }
        if seg.has(SYN) || seg.is_empty() {
            return;
        }
        // A probe may carry one byte beyond the window (RFC 9293 §3.8.6.1).
        let allowed = self.allowed.map(|edge| edge.wrapping_add(1));
        assert!(allowed.is_some(), "data before the handshake is complete: {seg:?}");
        assert!(
            !before_eq(allowed.map(|a| a.wrapping_add(1)), seg.end()),
            "beyond the window: {self:?} {seg:?}"
        );
        if before_eq(Some(self.snd_nxt), seg.end()) {
            let crossed = (self.snd_nxt ^ seg.end()) >> 31 != 0;
            self.wraps += u32::from(crossed);
            self.snd_nxt = seg.end();
        }
    }

    /// An intact segment of the peer arrived at this end.
    pub fn received(&mut self, seg: &Seg) {
        if seg.has(SYN) {
            self.scales[1] = seg.window_scale();
            self.syn_window = seg.window;
            if let Some(iss) = self.iss {
                self.allow(iss.wrapping_add(1).wrapping_add(u32::from(seg.window)));
            }
        } else if seg.has(ACK) && !seg.has(RST) {
            self.allow(seg.ack.wrapping_add(self.window(seg, 1)));
        }
    }

    /// The largest acknowledgement and the window's right edge that this end sent.
    #[must_use]
    pub fn window_sent(&self) -> Option<(u32, u32)> {
        self.ack.zip(self.edge)
    }

    /// The window's right edge as the peer sees it never goes back: an old segment gives no new information.
    fn allow(&mut self, edge: u32) {
        if before_eq(self.allowed, edge) {
            self.allowed = Some(edge);
        }
    }

    /// SEG.WND of a segment sent (0) or received (1) here, scaled.
    fn window(&self, seg: &Seg, direction: usize) -> u32 {
        u32::from(seg.window) * self.unit(seg, direction)
    }

    /// The bytes that one stands for in SEG.WND of such a segment.
    fn unit(&self, seg: &Seg, direction: usize) -> u32 {
        match (self.scales, seg.has(SYN)) {
            // RFC 7323 §1.3: both SYNs must carry the option.
            ([Some(_), Some(_)], false) => 1 << self.scales[direction].unwrap_or(0).min(14),
            _ => 1,
        }
    }
}

fn before_eq(a: Option<u32>, b: u32) -> bool {
    a.is_none_or(|a| b.wrapping_sub(a) < 1 << 31)
}
