//! libFuzzer on the target `frozen`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("frozen").expect("it is a target").run)(bytes);
});
