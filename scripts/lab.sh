#!/usr/bin/env bash
# Builds the page of docs/lab.md: one file, target/lab/index.html, which works from a disk and offline. Beside it, in
# target/lab/parts, lies what wasm-bindgen wrote, for the tests (`cargo test -p ackclock-lab --features bundle`).
set -euo pipefail
cd "$(dirname "$0")/.."

# What crosses the wire once, if a server compresses.
MODULE_BYTES_MAX=$((2 * 1024 * 1024))

triple=wasm32-unknown-unknown
if ! rustup target list --installed | grep -qx "$triple"; then
    rustup target add "$triple"
fi
target=$(cargo metadata --locked --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
parts=$target/lab/parts
mkdir -p "$parts"

cargo rustc --locked --quiet -p ackclock-lab --lib --crate-type cdylib --target "$triple" --profile page
cargo run --locked --quiet --manifest-path crates/ackclock-lab/bindgen/Cargo.toml --target-dir "$target/bindgen" -- \
    "$target/$triple/page/ackclock_lab.wasm" "$parts"
cargo run --locked --quiet --profile test -p ackclock-lab --example bundle -- "$parts" "$target/lab/index.html"

compressed=$(gzip -9 -c "$parts/lab_bg.wasm" | wc -c)
echo "the module has $(wc -c <"$parts/lab_bg.wasm") bytes, $compressed compressed; the page $(wc -c <"$target/lab/index.html")"
if ((compressed > MODULE_BYTES_MAX)); then
    echo "the compressed module is larger than $MODULE_BYTES_MAX bytes; find what grew with: cargo tree -p ackclock-lab --target $triple" >&2
    exit 1
fi
