//! Every chunking algorithm as its source states it: one file each, slow, and without cleverness.
//!
//! Tests, fuzzing and the lab hold the fast forms against these. Nothing here knows the fast forms:
//! an algorithm is named by the written-out text of its spec, such as `fixed:size=4096`, and read
//! from there once more. The texts are taken to be right; wrong ones may panic.
//!
//! [`oracle`] reads the lists of cut-points that other people's programs made.
#![forbid(unsafe_code)]

mod ae;
mod aes;
mod bfbc;
mod buzhash;
mod crc;
mod fastcdc;
mod fixed;
mod gear;
mod jc;
mod key;
mod keys;
mod maxp;
mod mii;
mod mincdc;
pub mod oracle;
mod pci;
mod rabin;
mod ram;
mod repmaxcdc;
mod ronomon;
mod samplebyte;
mod seqcdc;
mod table;
mod tttd;
mod ultracdc;

use crate::keys::Keys;

/// What becomes of key material.
#[derive(Clone, Copy)]
enum Keyed {
    /// Nothing.
    Not,
    /// The data is replaced, byte by byte.
    Data,
    /// The rule takes it as its table: [`Keys::table`].
    Table,
    /// The rule takes it as it is: [`Keys::material`].
    Whole,
}

/// Returns all cut-points of a stream: the exclusive end of each chunk.
type Rule = fn(&Keys<'_>, &[u8]) -> Vec<usize>;

/// The rules by name: a line for each algorithm.
const RULES: &[(&str, Keyed, Rule)] = &[
    ("ae", Keyed::Data, ae::cuts),
    ("aes", Keyed::Whole, aes::cuts),
    ("buzhash", Keyed::Table, buzhash::cuts),
    ("crc", Keyed::Data, crc::cuts),
    ("tttd", Keyed::Data, tttd::cuts),
    ("fastcdc", Keyed::Table, fastcdc::cuts),
    ("fixed", Keyed::Not, fixed::cuts),
    ("gear", Keyed::Table, gear::cuts),
    ("maxp", Keyed::Data, maxp::cuts),
    ("mii", Keyed::Data, mii::cuts),
    ("rabin", Keyed::Data, rabin::cuts),
    ("ram", Keyed::Data, ram::cuts),
    ("seqcdc", Keyed::Data, seqcdc::cuts),
    ("pci", Keyed::Data, pci::cuts),
    ("bfbc", Keyed::Not, bfbc::cuts),
    ("samplebyte", Keyed::Not, samplebyte::cuts),
    ("mincdc", Keyed::Data, mincdc::cuts),
    ("ronomon", Keyed::Table, ronomon::cuts),
    ("repmaxcdc", Keyed::Table, repmaxcdc::cuts),
    ("ultracdc", Keyed::Data, ultracdc::cuts),
    ("jc", Keyed::Table, jc::cuts),
];

/// Returns the cut-points of `data` by the written-out `spec`: the exclusive end of each chunk.
/// `None` where there is no reference for the algorithm.
///
/// # Panics
///
/// If the spec is not right.
pub fn cuts(spec: &str, data: &[u8]) -> Option<Vec<usize>> {
    cuts_by(spec, None, data)
}

/// Returns the cut-points of `data` by the written-out `spec` and 2048 bytes of key material.
///
/// # Panics
///
/// If the spec or the size of the material is not right.
pub fn keyed_cuts(spec: &str, material: &[u8], data: &[u8]) -> Option<Vec<usize>> {
    assert_eq!(material.len(), 2048, "the size of the key material");
    cuts_by(spec, Some(material), data)
}

fn cuts_by(spec: &str, material: Option<&[u8]>, data: &[u8]) -> Option<Vec<usize>> {
    let (name, list) = spec.split_once(':').expect("a spec has a colon");
    let &(_, keyed, rule) = RULES.iter().find(|(rule, ..)| *rule == name)?;
    Some(match (keyed, material) {
        (Keyed::Not, _) | (_, None) => rule(&Keys::new(list, None), data),
        (Keyed::Table | Keyed::Whole, Some(_)) => rule(&Keys::new(list, material), data),
        (Keyed::Data, Some(material)) => {
            let permutation = key::permutation(material);
            let data: Vec<u8> = data.iter().map(|&byte| permutation[usize::from(byte)]).collect();
            rule(&Keys::new(list, None), &data)
        }
    })
}

/// The remainder by `divisor`: a mask where that is a power of two, as in all programs.
fn modulo(divisor: u64) -> impl Fn(u64) -> u64 {
    let mask = divisor.is_power_of_two().then(|| divisor - 1);
    move |number| mask.map_or_else(|| number % divisor, |mask| number & mask)
}

/// Cuts `data` by `first_cut`, the length of the first chunk of what it is given, where a rule knows
/// nothing of former chunks.
fn chunk_by_chunk<'a>(data: &'a [u8], first_cut: impl Fn(&'a [u8]) -> usize) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut offset = 0;
    while offset < data.len() {
        offset += first_cut(&data[offset..]);
        ends.push(offset);
    }
    ends
}
