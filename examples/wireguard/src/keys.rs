//! Keys as `wg genkey` and `wg pubkey` write them: 32 bytes in base64.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A key: private, public or shared.
pub type Key = [u8; 32];

/// Why something is not a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It has another length, or other characters.
    #[error("not a WireGuard key: 44 characters of base64 are, as `wg genkey` and `wg pubkey` write them")]
    Malformed,
    /// The file cannot be read.
    #[error("{0} cannot be read: {1}")]
    Unreadable(PathBuf, io::Error),
    /// The file holds something else.
    #[error("{0} holds no WireGuard key; write one with `wg genkey >{0}`")]
    NoKeyIn(PathBuf),
}

/// Parses a key.
///
/// # Errors
/// It is not a key.
pub fn parse(text: &str) -> Result<Key, KeyError> {
    let bytes = STANDARD.decode(text.trim()).map_err(|_| KeyError::Malformed)?;
    bytes.try_into().map_err(|_| KeyError::Malformed)
}

/// Reads the key in a file, and whether others than its owner may read the file.
///
/// # Errors
/// The file cannot be read, or holds no key.
pub fn read(path: &Path) -> Result<(Key, bool), KeyError> {
    let unreadable = |error| KeyError::Unreadable(path.to_owned(), error);
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let readable = others_may_read(path).map_err(unreadable)?;
    let key = parse(&text).map_err(|_| KeyError::NoKeyIn(path.to_owned()))?;
    Ok((key, readable))
}

/// Whether others than its owner may read or write a file.
pub(crate) fn others_may_read(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_32_bytes_in_base64_and_nothing_else_is() {
        let text = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=";
        assert_eq!(parse(&format!("{text}\n")).unwrap()[..3], [0xc8, 0x09, 0xf3]);
        for wrong in ["", "abc", &text[..40], &format!("{text}AAAA"), &text.replace('+', "-")] {
            assert!(matches!(parse(wrong), Err(KeyError::Malformed)), "{wrong:?}");
        }
    }
}
