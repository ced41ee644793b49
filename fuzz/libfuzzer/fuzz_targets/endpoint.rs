//! libFuzzer on the target `endpoint`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("endpoint").expect("it is a target").run)(bytes);
});
