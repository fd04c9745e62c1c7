//! Gear and Buzhash tables, from files below `vectors/` or derived from a digest.

use std::sync::LazyLock;

use cutpoint_testing::digest::md5;

/// Reads a file of lines `index,value`, with the value hexadecimal after `0x`. Other lines are
/// skipped.
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

/// Returns the gear table of the crate fastcdc. An entry is the first 8 bytes, big-endian, of the
/// MD5 digest of 64 bytes of the index.
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

/// Defines a function that returns the table in a file below `vectors/`.
macro_rules! of_file {
    ($(#[$doc:meta])* $name:ident, $file:literal) => {
        $(#[$doc])*
        pub(crate) fn $name() -> [u64; 256] {
            static TABLE: LazyLock<[u64; 256]> =
                LazyLock::new(|| read(include_str!(concat!("../../../vectors/", $file))));
            *TABLE
        }
    };
}

of_file! {
    /// The gear table of Cutpoint.
    cutpoint_gear, "tables/gear.csv"
}
of_file! {
    /// The gear table of 32 bits of cdchunking-rs.
    cdchunking_gear, "oracle/tables/cdchunking_gear.csv"
}
of_file! {
    /// The gear table of the crate gearhash.
    gearhash, "oracle/tables/gearhash.csv"
}
of_file! {
    /// The gear table of go-cdc-chunkers.
    plakar_gear, "oracle/tables/plakar_gear.csv"
}
of_file! {
    /// The gear table of dedup-bench.
    dedup_bench_gear, "oracle/tables/dedup-bench_gear.csv"
}
of_file! {
    /// The FastCDC table of dedup-bench.
    dedup_bench_fastcdc, "oracle/tables/dedup-bench_fastcdc.csv"
}
of_file! {
    /// The Buzhash table of Cutpoint.
    cutpoint_buzhash, "tables/buzhash.csv"
}
of_file! {
    /// The Buzhash table of bita, without its seed.
    bita_buzhash, "oracle/tables/bita_buzhash.csv"
}
of_file! {
    /// The Buzhash table of casync and desync.
    casync_buzhash, "oracle/tables/casync_buzhash.csv"
}
