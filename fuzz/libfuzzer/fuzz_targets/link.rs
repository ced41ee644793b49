//! libFuzzer on the target `link`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("link").expect("it is a target").run)(bytes);
});
