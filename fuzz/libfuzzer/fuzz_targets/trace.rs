//! libFuzzer on the target `trace`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("trace").expect("it is a target").run)(bytes);
});
