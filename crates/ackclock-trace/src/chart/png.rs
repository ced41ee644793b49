//! A figure as PNG, for places that do not show SVG.

use std::sync::{Arc, LazyLock};

use resvg::{tiny_skia, usvg};

use super::{Figure, svg};

/// Pixels of a PNG for each pixel of the SVG, so that text stays sharp on high-density screens.
pub const PNG_SCALE: u32 = 2;

/// Why a PNG could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PngError {
    /// The SVG could not be parsed: a bug in this crate.
    #[error("the picture's SVG cannot be read back: {0}; please report it with the figure's data")]
    Svg(String),
    /// There is not enough memory, or the picture is too high.
    #[error("a picture of {width} by {height} pixels does not fit into memory: leave panels out")]
    Size {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// The pixels could not be encoded.
    #[error("the picture cannot be packed as PNG: {0}")]
    Encoding(String),
}

/// Draws `figure` as [`svg()`] does, 1800 pixels wide, with DejaVu Sans for the text.
///
/// # Errors
///
/// Figures of very many panels that need more memory than is available.
pub fn png(figure: &Figure) -> Result<Vec<u8>, PngError> {
    static FONTS: LazyLock<Arc<usvg::fontdb::Database>> = LazyLock::new(|| {
        let mut fonts = usvg::fontdb::Database::new();
        fonts.load_font_data(dejavu::sans::regular().to_vec());
        Arc::new(fonts)
    });
    let options = usvg::Options {
        font_family: "DejaVu Sans".to_owned(),
        fontdb: Arc::clone(&FONTS),
        ..usvg::Options::default()
    };
    let tree =
        usvg::Tree::from_str(&svg(figure), &options).map_err(|error| PngError::Svg(error.to_string()))?;
    let size = tree.size().to_int_size();
    let (width, height) = (size.width() * PNG_SCALE, size.height() * PNG_SCALE);
    let mut pixels = tiny_skia::Pixmap::new(width, height).ok_or(PngError::Size { width, height })?;
    let scale = PNG_SCALE as f32;
    resvg::render(&tree, tiny_skia::Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PngError::Encoding(error.to_string()))
}
