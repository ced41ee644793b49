//! Fixed-size fields at an offset, read and written without indexing.

/// The `N` bytes at `at`; `None` if `bytes` ends before them.
#[inline]
pub(crate) fn read<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// The big-endian 16-bit field at `at`.
#[inline]
pub(crate) fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    read(bytes, at).map(u16::from_be_bytes)
}

/// Overwrites the `N` bytes at `at`. The callers' offsets are constants within their buffers, so the compiler
/// removes the check. A wrong offset would write nothing, and the tests against etherparse would fail.
#[inline]
pub(crate) fn put<const N: usize>(out: &mut [u8], at: usize, value: [u8; N]) {
    debug_assert!(at.saturating_add(N) <= out.len(), "{N} bytes at {at} of {}", out.len());
    if let Some(field) = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *field = value;
    }
}
