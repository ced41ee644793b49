//! libFuzzer on the target `transfer`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("transfer").expect("it is a target").run)(bytes);
});
