//! The page, assembled from its parts.

/// What answers the page's requests.
#[derive(Clone, Copy, Debug)]
pub enum Engine<'a> {
    /// This crate as WebAssembly, within the page: it works from a file, and offline.
    Wasm {
        /// The script that wasm-bindgen wrote (`--target no-modules`).
        glue: &'a str,
        /// The module.
        module: &'a [u8],
    },
    /// The server that the page came from.
    Server,
}

/// The page as one HTML file.
#[must_use]
pub fn page(_engine: Engine<'_>) -> String {
    include_str!("../page/index.html").to_owned()
}
