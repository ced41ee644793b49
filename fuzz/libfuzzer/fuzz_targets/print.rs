//! libFuzzer on the target `print`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("print").expect("it is a target").run)(bytes);
});
