//! Pictures as files.

use std::path::Path;

use ackclock_chart::{Figure, svg};
use ackclock_cli::{Failure, output};

/// The extension of picture files in pages.
pub(crate) const ENDING: &str = "svg";

/// Writes a picture into `folder`, under `stem` with [`ENDING`].
pub(crate) fn write(folder: &Path, stem: &str, figure: &Figure) -> Result<(), Failure> {
    output::write_file(&folder.join(format!("{stem}.{ENDING}")), svg(figure).as_bytes())
}
