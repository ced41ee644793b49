//! `ackclock-lab-bindgen MODULE.wasm FOLDER`: writes `lab.js` and `lab_bg.wasm` into a folder.

use anyhow::Context;
use wasm_bindgen_cli_support::Bindgen;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (module, folder) = arguments.next().zip(arguments.next()).context("usage: MODULE.wasm FOLDER")?;
    let mut bindgen = Bindgen::new();
    bindgen.input_path(&module).out_name("lab").typescript(false).remove_name_section(true);
    bindgen.no_modules(true)?;
    bindgen.generate(&folder).with_context(|| format!("{module} cannot be bound"))
}
