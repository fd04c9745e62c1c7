#![no_main]

#[path = "../../crates/store/tests/common/decoding.rs"]
mod decoding;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    decoding::anything(input);
});
