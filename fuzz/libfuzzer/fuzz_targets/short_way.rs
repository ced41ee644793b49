//! libFuzzer on the target `short_way`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("short_way").expect("it is a target").run)(bytes);
});
