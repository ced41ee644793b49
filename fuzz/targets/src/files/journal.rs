//! Recordings of a stack's calls: whatever is in them, a replay comes to an end.
//!
//! The checksums of an input's blocks are set right before it is read, so that damage gets past them.

use std::hash::Hasher;

use ackclock_control::congestion::Registry;
use ackclock_core::trace::TraceConfig;
use ackclock_journal::{Changes, Replay};
use siphasher::sip::SipHasher13;

/// Replays a recording, and counts its calls.
pub(crate) fn journal(bytes: &[u8]) -> u64 {
    let file = sealed(bytes);
    let changes = Changes { profile: None, trace: Some(TraceConfig::FULL) };
    let Ok(mut replay) = Replay::open(&file[..], &Registry::with_experiments(), changes) else { return 1 };
    while let Ok(Some(_)) = replay.step(|_, _| {}) {
        while replay.endpoint_mut().poll_trace().is_some() {}
    }
    1 + replay.calls()
}

/// The file with the lengths, numbers and checksums that its blocks should have
/// (`ackclock-journal/src/format.md`).
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let (magic, mut rest) = bytes.split_at(bytes.len().min(MAGIC));
    let mut file = magic.to_vec();
    let mut number = 0_u32;
    while let Some((head, after)) = rest.split_first_chunk::<HEAD>() {
        let [l0, l1, l2, l3, ..] = *head;
        let len = (u32::from_le_bytes([l0, l1, l2, l3]) as usize).min(after.len());
        let (content, next) = after.split_at(len);
        let mut hasher = SipHasher13::new_with_keys(0, number.into());
        hasher.write(content);
        file.extend_from_slice(&(len as u32).to_le_bytes());
        file.extend_from_slice(&number.to_le_bytes());
        file.extend_from_slice(&hasher.finish().to_le_bytes());
        file.extend_from_slice(content);
        (number, rest) = (number + 1, next);
    }
    file
}

const MAGIC: usize = 16;
const HEAD: usize = 16;
