//! Blocks: what a file is written and read in. A block that is not whole, or whose checksum is wrong, ends
//! the file.

use std::hash::Hasher;
use std::io::{self, Read};

use siphasher::sip::SipHasher13;

use crate::{Damage, DamageKind};

/// The first bytes of a file; the last but one is the version.
pub(super) const MAGIC: &[u8; 16] = b"ackclock calls\x01\n";
const VERSION_AT: usize = MAGIC.len() - 2;

/// Bytes of a block before its records: the length of those, the block's number, and the checksum of both.
pub(super) const HEAD: usize = 16;

/// The most bytes of records in a block.
pub(super) const CONTENT_MAX: usize = 4 << 20;

/// Writes the head into the first [`HEAD`] bytes of a block.
pub(super) fn seal(block: &mut [u8], number: u32) {
    let Some((head, content)) = block.split_first_chunk_mut::<HEAD>() else { return };
    let len = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let [l0, l1, l2, l3] = len.to_le_bytes();
    let [n0, n1, n2, n3] = number.to_le_bytes();
    let [c0, c1, c2, c3, c4, c5, c6, c7] = checksum(number, content).to_le_bytes();
    *head = [l0, l1, l2, l3, n0, n1, n2, n3, c0, c1, c2, c3, c4, c5, c6, c7];
}

/// The blocks of a file.
#[derive(Debug)]
pub(super) struct Blocks<R> {
    input: R,
    /// Where the next block begins.
    pub(super) offset: u64,
    number: u32,
}

impl<R: Read> Blocks<R> {
    /// Reads the file's first bytes.
    pub fn open(mut input: R) -> Result<Self, Damage> {
        let mut magic = [0; MAGIC.len()];
        let read = fill(&mut input, &mut magic).map_err(|error| DamageKind::Read(error).at(0))?;
        let same = MAGIC.iter().zip(&magic).take_while(|(known, found)| known == found).count();
        if read < magic.len() || same < MAGIC.len() {
            let kind = if same == VERSION_AT { DamageKind::Version } else { DamageKind::NoJournal };
            return Err(kind.at(0));
        }
        Ok(Self { input, offset: MAGIC.len() as u64, number: 0 })
    }

    /// The next block's records; `false` at the end of the file.
    pub fn next(&mut self, content: &mut Vec<u8>) -> Result<bool, Damage> {
        let at = self.offset;
        let failed = |error| DamageKind::Read(error).at(at);
        let mut head = [0; HEAD];
        match fill(&mut self.input, &mut head).map_err(failed)? {
            0 => return Ok(false),
            HEAD => {}
            _ => return Err(DamageKind::Torn.at(at)),
        }
        let [l0, l1, l2, l3, n0, n1, n2, n3, c0, c1, c2, c3, c4, c5, c6, c7] = head;
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        let number = u32::from_le_bytes([n0, n1, n2, n3]);
        let sum = u64::from_le_bytes([c0, c1, c2, c3, c4, c5, c6, c7]);
        if len as usize > CONTENT_MAX || number != self.number {
            return Err(DamageKind::Checksum.at(at));
        }
        content.clear();
        let read = (&mut self.input).take(len.into()).read_to_end(content).map_err(failed)?;
        if read < len as usize {
            return Err(DamageKind::Torn.at(at));
        }
        if checksum(number, content) != sum {
            return Err(DamageKind::Checksum.at(at));
        }
        self.offset = at.saturating_add(HEAD as u64).saturating_add(read as u64);
        self.number = self.number.wrapping_add(1);
        Ok(true)
    }
}

/// Against damage, not against forgery: the key is public.
fn checksum(number: u32, content: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, number.into());
    hasher.write(content);
    hasher.finish()
}

/// Reads until the buffer is full or the file is over.
fn fill(input: &mut impl Read, mut into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0_usize;
    while !into.is_empty() {
        match input.read(into) {
            Ok(0) => break,
            Ok(read) => {
                filled = filled.saturating_add(read);
                into = into.get_mut(read..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
