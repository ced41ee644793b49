//! libFuzzer on the target `scenario`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (ackclock_fuzz::find("scenario").expect("it is a target").run)(bytes);
});
