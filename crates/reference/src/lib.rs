//! Every chunking algorithm once more, as its source states it: no trick, no speed, no shared code
//! with the crate that is compared with it. Even the text of a spec is read anew here.
//!
//! For tests and measurements only: what is wrong panics.

#![forbid(unsafe_code)]

mod fastcdc;
mod fixed;
mod seqcdc;

use std::collections::HashMap;

/// The values of a spec's keys.
#[derive(Clone, Debug)]
pub struct Values(HashMap<String, String>);

impl Values {
    /// The number at `key`.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn number(&self, key: &str) -> usize {
        self.optional(key).unwrap_or_else(|| panic!("{key} is missing in {self:?}"))
    }

    /// The number at `key`, if it is there.
    ///
    /// # Panics
    ///
    /// If what is there is none.
    pub fn optional(&self, key: &str) -> Option<usize> {
        let value = self.0.get(key)?;
        Some(value.parse().unwrap_or_else(|_| panic!("{key}={value} is no number")))
    }

    /// The word at `key`; empty where there is none.
    pub fn word(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }
}

/// Returns the cut-points of `data`, a whole stream: the exclusive end of each chunk.
///
/// `spec` is written out in full, as `Spec` displays it. `key` is key material of 2048 bytes: gear
/// tables are made of it, other rules see bytes permuted by it.
///
/// # Panics
///
/// If `spec` names no algorithm, or not all that it needs.
pub fn cuts(spec: &str, key: Option<&[u8]>, data: &[u8]) -> Vec<usize> {
    let (name, list) = spec.split_once(':').unwrap_or_else(|| panic!("{spec} has no colon"));
    let pairs = list.split(',').map(|item| {
        let (key, value) = item.split_once('=').unwrap_or_else(|| panic!("{item} has no value"));
        (key.to_owned(), value.to_owned())
    });
    let values = Values(pairs.collect());
    let rule = match name {
        "fixed" => fixed::rule(&values),
        "seqcdc" => seqcdc::rule(&values),
        "fastcdc" => fastcdc::rule(&values, key),
        _ => panic!("{name} has no reference"),
    };
    let has_table = matches!(name, "fastcdc");
    let permuted: Vec<u8>;
    let data = match key {
        Some(key) if !has_table => {
            let permutation = permutation(key);
            permuted = data.iter().map(|byte| permutation[usize::from(*byte)]).collect();
            &permuted
        }
        _ => data,
    };
    let mut ends = Vec::new();
    let mut offset = 0;
    while offset < data.len() {
        let length = rule(&data[offset..]);
        assert!(
            length > 0 && length <= data.len() - offset,
            "{spec}: a chunk of {length} bytes at {offset} of {}",
            data.len()
        );
        offset += length;
        ends.push(offset);
    }
    ends
}

/// The permutation of `KeyMaterial`, once more from its words.
fn permutation(key: &[u8]) -> Vec<u8> {
    let mut permutation: Vec<u8> = (0..=255).collect();
    let mut pairs = key.chunks_exact(2).map(|pair| u32::from(pair[0]) + 256 * u32::from(pair[1]));
    for i in (1..256u32).rev() {
        let Some(r) = pairs.by_ref().find(|r| *r < 65536 - 65536 % (i + 1)) else { break };
        permutation.swap(i as usize, (r % (i + 1)) as usize);
    }
    permutation
}

/// A gear table of key material: 8 bytes an entry, little-endian.
fn gear_of(key: &[u8]) -> [u64; 256] {
    std::array::from_fn(|value| {
        u64::from_le_bytes(key[8 * value..8 * value + 8].try_into().expect("8 bytes"))
    })
}

/// A rule: the length of the first chunk of what it is given, to the end of the stream.
type Rule = Box<dyn Fn(&[u8]) -> usize>;
