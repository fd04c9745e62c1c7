#![no_main]

#[path = "../../crates/store/tests/common/backup.rs"]
#[expect(dead_code, reason = "honest backups matter elsewhere")]
mod backup;
#[path = "../../crates/store/tests/common/planted.rs"]
#[expect(dead_code, reason = "one of its bodies a target")]
mod planted;
#[path = "../../crates/store/tests/common/whole.rs"]
mod whole;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    planted::parity(input);
});
