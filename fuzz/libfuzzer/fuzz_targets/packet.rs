//! libFuzzer on the target `packet`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("packet").expect("it is a target").run)(bytes);
});
