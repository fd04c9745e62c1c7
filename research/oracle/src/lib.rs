//! Every chunking algorithm as its source states it, in one file each, slow and without
//! optimizations.
//!
//! Tests, fuzzing and the lab compare the fast forms with these. Nothing here depends on the fast
//! forms: an algorithm is given by the full text of its spec, such as `fixed:size=4096`, which is
//! parsed here independently. The texts must be valid; invalid texts may panic.
//!
//! [`oracle`] reads the lists of cut-points that third-party programs made.
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

/// The use of key material by a rule.
#[derive(Clone, Copy)]
enum Keyed {
    /// The key material is not used.
    Not,
    /// The bytes of the data are replaced by a permutation from the key material.
    Data,
    /// The key material is the table of the rule: [`Keys::table`].
    Table,
    /// The rule uses the key material as it is: [`Keys::material`].
    Whole,
}

/// A rule, which returns all cut-points of a stream: the exclusive end of each chunk.
type Rule = fn(&Keys<'_>, &[u8]) -> Vec<usize>;

/// The rules by name, one line for each algorithm.
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

/// Returns the cut-points of `data` by the full text `spec`: the exclusive end of each chunk.
/// Returns `None` if there is no reference for the algorithm.
///
/// # Panics
///
/// Panics if the spec is invalid.
pub fn cuts(spec: &str, data: &[u8]) -> Option<Vec<usize>> {
    cuts_by(spec, None, data)
}

/// Returns the cut-points of `data` by the full text `spec` and 2048 bytes of key material. Returns
/// `None` if there is no reference for the algorithm.
///
/// # Panics
///
/// Panics if the spec or the size of the material is invalid.
pub fn keyed_cuts(spec: &str, material: &[u8], data: &[u8]) -> Option<Vec<usize>> {
    assert_eq!(material.len(), 2048, "the size of the key material");
    cuts_by(spec, Some(material), data)
}

/// Returns the cut-points of `data` by the full text `spec` of AE, found as AE-Opt1 finds them
/// (algorithm 2 of the AE paper): they are those of [`cuts`]. Returns `None` for any other rule.
///
/// # Panics
///
/// Panics if the spec is invalid.
pub fn ae_opt1_cuts(spec: &str, data: &[u8]) -> Option<Vec<usize>> {
    let list = spec.strip_prefix("ae:")?;
    ae::opt1_cuts(&Keys::new(list, None), data)
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

/// Returns the remainder by `divisor`, as a mask if `divisor` is a power of two, as in all
/// programs.
fn modulo(divisor: u64) -> impl Fn(u64) -> u64 {
    let mask = divisor.is_power_of_two().then(|| divisor - 1);
    move |number| mask.map_or_else(|| number % divisor, |mask| number & mask)
}

/// Cuts `data` by a rule that does not depend on earlier chunks. `first_cut` returns the length of
/// the first chunk of its argument.
fn chunk_by_chunk<'a>(data: &'a [u8], first_cut: impl Fn(&'a [u8]) -> usize) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut offset = 0;
    while offset < data.len() {
        offset += first_cut(&data[offset..]);
        ends.push(offset);
    }
    ends
}
