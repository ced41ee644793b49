//! libFuzzer on the target `course`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("course").expect("it is a target").run)(bytes);
});
