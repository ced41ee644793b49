//! libFuzzer on the target `journal`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("journal").expect("it is a target").run)(bytes);
});
