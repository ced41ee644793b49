//! libFuzzer on the target `capture`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("capture").expect("it is a target").run)(bytes);
});
