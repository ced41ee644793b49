//! Pictures as files.

use std::path::Path;

use ackclock_trace::chart::{self, Figure};

use crate::output;

/// The extension of picture files in pages.
pub(crate) const ENDING: &str = "svg";

/// Writes a picture into `folder`, under `stem` with [`ENDING`].
pub(crate) fn write(folder: &Path, stem: &str, figure: &Figure) -> anyhow::Result<()> {
    output::write_file(&folder.join(format!("{stem}.{ENDING}")), chart::svg(figure).as_bytes())
}
