//! Inputs without a fuzzer: drawn at random, or mutated from existing ones.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ackclock_tests::rng::Rng;

use crate::Target;

/// The inputs that are kept for a target, with their names, in the order of these.
///
/// # Errors
/// The corpus cannot be read.
pub fn corpus(target: &Target) -> io::Result<Vec<(String, Vec<u8>)>> {
    let folder = corpus_folder(target);
    let mut inputs = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        inputs.push((name, fs::read(&path)?));
    }
    inputs.sort();
    Ok(inputs)
}

/// Where the inputs of a target are kept.
#[must_use]
pub fn corpus_folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target.name)
}

/// Draws the input of this seed.
#[must_use]
pub fn draw(target: &Target, corpus: &[(String, Vec<u8>)], seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    if corpus.is_empty() || (target.any_bytes && rng.below(4) > 0) {
        return bytes(&mut rng, target.len_max);
    }
    let mut input = one_of(&mut rng, corpus).to_vec();
    for _ in 0..=rng.below(6) {
        change(&mut rng, &mut input, corpus);
    }
    input.truncate(target.len_max);
    input
}

/// Random bytes, short inputs as often as long ones.
fn bytes(rng: &mut Rng, len_max: usize) -> Vec<u8> {
    let most = (len_max as u64) >> rng.below(6);
    (0..rng.between(1, most.max(1))).map(|_| rng.next_u64() as u8).collect()
}

fn one_of<'a>(rng: &mut Rng, corpus: &'a [(String, Vec<u8>)]) -> &'a [u8] {
    &corpus[rng.below(corpus.len() as u64) as usize].1
}

/// One change of the kinds that fuzzers make.
fn change(rng: &mut Rng, input: &mut Vec<u8>, corpus: &[(String, Vec<u8>)]) {
    let len = input.len() as u64;
    let at = rng.below(len) as usize;
    let end = at + rng.below(len + 1 - at as u64).min(32) as usize;
    match rng.below(9) {
        0 if len > 0 => input[at] ^= 1 << rng.below(8),
        1 if len > 0 => input[at] = rng.next_u64() as u8,
        2 if len > 0 => input[at] = rng.pick(&[0, 1, 0x7f, 0x80, 0xff, b'0', b'9', b'-', b'\n', b'"']),
        3 if len > 0 => input[at] = input[at].wrapping_add(rng.pick(&[1, 0xff, 4, 0xfc])),
        4 => input.insert(at, rng.next_u64() as u8),
        5 => {
            input.drain(at..end);
        }
        6 => {
            let part = input[at..end].to_vec();
            input.splice(at..at, part);
        }
        7 => {
            let other = one_of(rng, corpus);
            let from = rng.below(other.len() as u64) as usize;
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => {
            let number = rng.pick(&[0u32, 1, u32::MAX, 1 << 31, 0x7fff_ffff, 0xffff, 1 << 26]);
            for (to, from) in input.iter_mut().skip(at).zip(number.to_le_bytes()) {
                *to = from;
            }
        }
    }
}

/// Makes an input shorter, and its bytes zero, as long as `still` holds of it.
#[must_use]
pub fn shrink(input: &[u8], still: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut least = input.to_vec();
    let mut part = least.len().div_ceil(2);
    while part > 0 {
        let mut at = 0;
        while at < least.len() {
            let end = (at + part).min(least.len());
            let shorter = [&least[..at], &least[end..]].concat();
            if still(&shorter) {
                least = shorter;
            } else {
                at = end;
            }
        }
        part /= 2;
    }
    for at in 0..least.len() {
        let byte = std::mem::take(&mut least[at]);
        if byte != 0 && !still(&least) {
            least[at] = byte;
        }
    }
    least
}
