//! The test cases of each algorithm, with one file and one line for each.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod ae;
pub(crate) mod aes;
pub(crate) mod bfbc;
pub(crate) mod buzhash;
pub(crate) mod crc;
pub(crate) mod fastcdc;
pub(crate) mod fixed;
pub(crate) mod gear;
pub(crate) mod jc;
pub(crate) mod maxp;
pub(crate) mod mii;
pub(crate) mod mincdc;
pub(crate) mod pci;
pub(crate) mod rabin;
pub(crate) mod ram;
pub(crate) mod repmaxcdc;
pub(crate) mod ronomon;
pub(crate) mod samplebyte;
pub(crate) mod seqcdc;
pub(crate) mod tttd;
pub(crate) mod ultracdc;

/// The test cases of an algorithm.
#[derive(Clone, Copy)]
pub(crate) struct Cases {
    pub(crate) algorithm: &'static str,
    /// Specs for `tests/it/conformance.rs`: every dialect, and parameters at their limits. Their sizes
    /// are small, because each is cut many times and fed byte by byte.
    pub(crate) specs: &'static [&'static str],
    /// The files of `vectors/`, one for each dialect: the name without `.json`, and the specs of
    /// its cases.
    pub(crate) vectors: &'static [(&'static str, &'static [&'static str])],
    /// Averages in bytes that are measured in `tests/it/mean.rs`, after the spec in front of the
    /// number: `("seqcdc:avg=", &[2048, 4096])`.
    pub(crate) averages: &'static [(&'static str, &'static [usize])],
}

/// The list: one line for each algorithm.
pub(crate) const ALL: &[Cases] = &[
    seqcdc::CASES,
    fastcdc::CASES,
    fixed::CASES,
    ae::CASES,
    maxp::CASES,
    ram::CASES,
    mii::CASES,
    gear::CASES,
    rabin::CASES,
    crc::CASES,
    tttd::CASES,
    pci::CASES,
    bfbc::CASES,
    samplebyte::CASES,
    mincdc::CASES,
    buzhash::CASES,
    ronomon::CASES,
    repmaxcdc::CASES,
    ultracdc::CASES,
    jc::CASES,
    aes::CASES,
];

/// Returns the cases of [`ALL`] whose algorithms the environment variable `CUTPOINT_ALGORITHMS`
/// names, such as `rabin,crc`; all if it is not set. `cargo mutants` runs the tests once for each
/// mutant of a file.
pub(crate) fn chosen() -> impl Iterator<Item = &'static Cases> {
    let names = std::env::var("CUTPOINT_ALGORITHMS").ok();
    ALL.iter().filter(move |cases| {
        names.as_ref().is_none_or(|names| names.split(',').any(|name| name == cases.algorithm))
    })
}

/// The averages that every algorithm should be able to reach.
pub(crate) const AVERAGES: &[usize] =
    &[2048, 4096, 5000, 8192, 10_007, 16_384, 24_576, 32_768, 50_000, 65_536];
