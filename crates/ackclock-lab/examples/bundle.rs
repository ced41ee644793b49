//! Assembles the static page from what wasm-bindgen wrote: `bundle FOLDER index.html`. scripts/lab.sh runs
//! it.

use std::path::Path;
use std::{env, fs};

use ackclock_lab::{Engine, page};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [parts, file] = &arguments[..] else {
        return Err("usage: bundle FOLDER index.html; the folder has lab.js and lab_bg.wasm".into());
    };
    let parts = Path::new(parts);
    let glue = fs::read_to_string(parts.join("lab.js"))?;
    let module = fs::read(parts.join("lab_bg.wasm"))?;
    fs::write(file, page(Engine::Wasm { glue: &glue, module: &module }))?;
    Ok(())
}
