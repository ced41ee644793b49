//! Frames as descriptors carry them: plain, or behind a virtio-net header.

use std::io;

use ackclock_link::HEADER_LEN;
use ackclock_wire::{ChecksumState, RxMeta, TxPacket, gso};

use crate::batch::{BYTES_MIN, ReceiveBatch};
use crate::fd::{ReadStep, TunFd};
use crate::offload::GSO_MAX;
use crate::vnet::{self, VnetHeader};
use crate::{Capabilities, Counters, Medium};

/// The bytes before the Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Nothing.
    Plain,
    /// A virtio-net header.
    Vnet,
}

impl Framing {
    pub fn capabilities(self, mtu: usize) -> Capabilities {
        let medium = Medium::Link { header_len: HEADER_LEN };
        match self {
            Self::Plain => Capabilities { medium, ..Capabilities::ip(mtu) },
            Self::Vnet => Capabilities {
                medium,
                gso_max_v4: GSO_MAX,
                gso_max_v6: GSO_MAX,
                tx_checksum: true,
                ..Capabilities::ip(mtu)
            },
        }
    }

    /// Makes the `len` bytes just received into the last slot, of `room` bytes, a frame of the batch. A
    /// checksum state that is known already overrides the virtio-net header's.
    pub fn take(
        self,
        len: usize,
        room: usize,
        known: Option<ChecksumState>,
        batch: &mut ReceiveBatch,
        counters: &mut Counters,
    ) -> ReadStep {
        let skip = if self == Self::Vnet { vnet::LEN } else { 0 };
        // A completely filled slot may have truncated a longer frame.
        let Some(slot) = batch.slot(room).filter(|_| len > skip + HEADER_LEN && len < room) else {
            counters.receive_malformed += 1;
            return ReadStep::Dropped;
        };
        let meta = match slot.split_first_chunk::<{ vnet::LEN }>() {
            Some((header, _)) if self == Self::Vnet => {
                let packet = &slot[skip + HEADER_LEN..len];
                let header = VnetHeader::from_bytes(header).inside_frame(LINK_LEN);
                header.meta(packet).unwrap_or_else(|believed| {
                    counters.receive_malformed += 1;
                    believed
                })
            }
            _ => RxMeta::default(),
        };
        let meta = RxMeta { checksum: known.unwrap_or(meta.checksum), ..meta };
        batch.commit(skip, len, meta);
        counters.received += 1;
        ReadStep::Added
    }

    /// Sends `packet` behind the Ethernet header, cut in software if the descriptor does not do it.
    pub fn send(self, fd: &mut TunFd, header: &[u8; HEADER_LEN], packet: &TxPacket<'_>) -> io::Result<()> {
        if self == Self::Vnet
            && packet.len() <= GSO_MAX
            && let Some(described) = VnetHeader::describe(packet)
        {
            return fd.send(&prefix(described.behind_link_header(LINK_LEN), header), packet);
        }
        let mut result = Ok(());
        gso::cut(packet, |segment| {
            if result.is_ok() {
                result = match self {
                    Self::Plain => fd.send(header, segment),
                    Self::Vnet => fd.send(&prefix(VnetHeader::default(), header), segment),
                };
            }
        });
        result
    }
}

fn prefix(described: VnetHeader, header: &[u8; HEADER_LEN]) -> [u8; vnet::LEN + HEADER_LEN] {
    let mut prefix = [0; vnet::LEN + HEADER_LEN];
    prefix[..vnet::LEN].copy_from_slice(&described.to_bytes());
    prefix[vnet::LEN..].copy_from_slice(header);
    prefix
}

/// Both headers, the largest IPv6 packet without a jumbo option, and one byte that reveals anything larger.
pub(crate) const ROOM: usize = vnet::LEN + HEADER_LEN + 40 + 65_535 + 1;

const LINK_LEN: u16 = HEADER_LEN as u16; // 14

const _: () = assert!(ROOM <= BYTES_MIN);

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use ackclock_wire::ChecksumAt;

    use super::*;

    /// Takes `len` bytes that begin with `bytes` out of a slot of `room`. Returns the batch's content, and
    /// how many frames were malformed.
    fn taken(
        framing: Framing,
        bytes: &[u8],
        len: usize,
        known: Option<ChecksumState>,
    ) -> (Option<(usize, RxMeta)>, u64) {
        let (mut batch, mut counters) = (ReceiveBatch::new(1, 0), Counters::default());
        batch.slot(ROOM).unwrap()[..bytes.len()].copy_from_slice(bytes);
        framing.take(len, ROOM, known, &mut batch, &mut counters);
        let frame = batch.iter().next().map(|(frame, meta)| (frame.len(), meta));
        assert_eq!(counters.received, u64::from(frame.is_some()));
        (frame, counters.receive_malformed)
    }

    /// A frame with an IPv4 packet of 1,000 bytes, its checksum unfinished, behind its virtio-net header.
    fn unfinished() -> Vec<u8> {
        let mut header =
            VnetHeader { flags: 1, gso_type: 1, hdr_len: 54, gso_size: 400, csum_start: 34, csum_offset: 16 }
                .to_bytes()
                .to_vec();
        header.extend([0; HEADER_LEN]);
        header.push(0x45);
        header
    }

    #[test]
    fn a_frame_loses_its_virtio_net_header_and_keeps_what_that_says() {
        let meta = RxMeta {
            checksum: ChecksumState::Partial(ChecksumAt::tcp(20)),
            segment_size: NonZeroU16::new(400),
        };
        assert_eq!(taken(Framing::Vnet, &unfinished(), 1024, None), (Some((1014, meta)), 0));
    }

    #[test]
    fn frames_that_are_too_short_or_fill_their_slot_are_malformed() {
        for (framing, shortest) in
            [(Framing::Plain, HEADER_LEN + 1), (Framing::Vnet, vnet::LEN + HEADER_LEN + 1)]
        {
            for len in (0..shortest).chain([ROOM, ROOM + 1]) {
                assert_eq!(taken(framing, &[], len, None), (None, 1), "{framing:?} {len}");
            }
            assert!(taken(framing, &[], shortest, None).0.is_some());
        }
    }

    #[test]
    fn a_header_that_contradicts_its_frame_is_counted_and_not_believed() {
        let mut bytes = unfinished();
        bytes[6..8].copy_from_slice(&13u16.to_ne_bytes());
        assert_eq!(taken(Framing::Vnet, &bytes, 1024, None), (Some((1014, RxMeta::default())), 1));
    }

    #[test]
    fn what_is_known_of_a_checksum_without_a_header_is_kept() {
        let meta = |known| taken(Framing::Plain, &[], 100, known).0.unwrap().1.checksum;
        let unfinished = ChecksumState::Partial(ChecksumAt::tcp(20));
        assert_eq!(meta(Some(unfinished)), unfinished);
        assert_eq!(meta(None), ChecksumState::Complete);
    }
}
