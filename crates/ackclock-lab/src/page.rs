//! The page, assembled from its parts.

use ackclock_chart::{viewer_script, viewer_style};

/// The engine behind the page.
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

/// The page as one HTML file. It loads nothing, and sends nothing but to its own server, if it has one.
///
/// ```
/// use ackclock_lab::{Engine, page};
///
/// assert!(page(Engine::Server).contains("connect-src 'self'"));
/// assert!(!page(Engine::Wasm { glue: "", module: b"" }).contains("connect-src"));
/// ```
#[must_use]
pub fn page(engine: Engine<'_>) -> String {
    let (policy, promise, parts) = match engine {
        Engine::Wasm { glue, module } => {
            let text =
                |id: &str, text: &str| format!("<script type=\"text/plain\" id=\"{id}\">{text}</script>\n");
            let module = text("module", &base64(module));
            let parts = text("glue", glue) + &text("worker", include_str!("../page/worker.js")) + &module;
            (format!("{POLICY} 'wasm-unsafe-eval'; worker-src blob:"), IN_PAGE, parts)
        }
        Engine::Server => {
            (format!("{POLICY}; worker-src blob:; connect-src 'self'"), ON_SERVER, String::new())
        }
    };
    // The last replacement may contain anything, also words in braces.
    include_str!("../page/index.html")
        .replace("{{policy}}", &policy)
        .replace("{{promise}}", promise)
        .replace("{{style}}", &(viewer_style() + include_str!("../page/lab.css")))
        .replace("{{scripts}}", &scripts())
        .replace("{{parts}}", &parts)
}

fn scripts() -> String {
    [
        viewer_script(),
        include_str!("../page/engine.js"),
        include_str!("../page/capture.js"),
        include_str!("../page/lab.js"),
        include_str!("../page/editor.js"),
        include_str!("../page/shell.js"),
    ]
    .concat()
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = char::from(DIGITS[(bits >> (18 - 6 * place) & 63) as usize]);
            text.push(if place > three.len() { '=' } else { digit });
        }
    }
    text
}

/// Nothing may be loaded, and nothing sent.
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; \
                      script-src 'unsafe-inline'";
const IN_PAGE: &str = "Nothing leaves this page: the file is read here, and the page's own policy forbids it \
                       every connection.";
const ON_SERVER: &str = "Nothing leaves this machine: the file goes to <code>tcplab serve</code>, which runs \
                         here and answers no other machine.";

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_rfc() {
        let vectors = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (bytes, text) in vectors {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn every_place_of_the_page_is_filled_and_no_part_ends_its_script() {
        for engine in [Engine::Server, Engine::Wasm { glue: "let glue;", module: b"\0asm" }] {
            let page = page(engine);
            assert!(!page.contains("{{"), "a place is left");
            assert!(page.contains("<main>") && page.contains("Content-Security-Policy"));
        }
        assert!(!scripts().contains("</script"));
    }
}
