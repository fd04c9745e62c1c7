//! Tables that are data: files of `vectors/oracle/tables`, or derived from a digest.

use std::sync::LazyLock;

use cutpoint_testing::digest::md5;

/// Reads a file of lines `index,value`, the value hexadecimal after `0x`; lines without are passed
/// over.
pub(crate) fn read(text: &str) -> [u64; 256] {
    let mut table = [0; 256];
    let mut count = 0;
    for (index, value) in text.lines().filter_map(|line| line.trim().split_once(",0x")) {
        let index: usize = index.parse().expect("an index");
        table[index] = u64::from_str_radix(value, 16).expect("a value");
        count += 1;
    }
    assert_eq!(count, 256, "entries");
    table
}

/// FastCDC in dedup-bench.
pub(crate) fn dedup_bench_fastcdc() -> [u64; 256] {
    static GEAR: LazyLock<[u64; 256]> = LazyLock::new(|| {
        read(include_str!("../../../vectors/oracle/tables/dedup-bench_fastcdc.csv"))
    });
    *GEAR
}

/// Crate fastcdc: the first 8 bytes, big-endian, of the MD5 digest of 64 bytes of a value.
pub(crate) fn fastcdc() -> [u64; 256] {
    static GEAR: LazyLock<[u64; 256]> = LazyLock::new(|| {
        let mut gear = [0; 256];
        for (entry, value) in gear.iter_mut().zip(0..=255) {
            *entry = u64::from_be_bytes(md5(&[value; 64])[..8].try_into().expect("8 bytes"));
        }
        gear
    });
    *GEAR
}
