#![no_main]

#[path = "../../crates/chunking/tests/common/mod.rs"]
mod common;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    common::fuzzing::feeding(input, |_| true);
});
