//! libFuzzer on the target `connection`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("connection").expect("it is a target").run)(bytes);
});
