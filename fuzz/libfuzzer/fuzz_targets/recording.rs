//! libFuzzer on the target `recording`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("recording").expect("it is a target").run)(bytes);
});
