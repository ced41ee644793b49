//! libFuzzer on the target `form`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("form").expect("it is a target").run)(bytes);
});
