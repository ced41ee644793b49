//! libFuzzer on the target `thawed`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("thawed").expect("it is a target").run)(bytes);
});
