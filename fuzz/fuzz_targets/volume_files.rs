#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cutpoint_fuzz::volume_files(input));
