//! The part of the input that is in chunks of one repeated byte or of a repeated short pattern. A
//! good rule cuts such strings of low entropy into equal chunks.
//!
//! Source: Zhang et al., "A Fast Asymmetric Extremum Content Defined Chunking Algorithm", section
//! 3.3 and table 5.

use std::collections::HashMap;

use cutpoint_chunking::cuts;

use super::{Task, absent, ask};
use crate::algorithm::{ParameterChoice, choose};
use crate::{LabError, Row};

/// The maximum length of a detected pattern in bytes.
const PERIOD_MAX: usize = 64;

/// The bytes in chunks of low entropy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The number of bytes in chunks of one repeated byte, by the size of the chunk.
    pub constant: HashMap<usize, u64>,
    /// The number of bytes in chunks of a pattern of 2 to 64 bytes that is repeated at least once.
    pub periodic: u64,
}

impl Found {
    /// Counts a chunk.
    pub fn add(&mut self, chunk: &[u8]) {
        match period(chunk) {
            Some(1) => *self.constant.entry(chunk.len()).or_default() += chunk.len() as u64,
            Some(_) => self.periodic += chunk.len() as u64,
            None => {}
        }
    }

    /// Returns the size of chunks of one repeated byte with the most bytes, and the number of these
    /// bytes, or zeros if there is no such chunk.
    pub fn canonical(&self) -> (usize, u64) {
        let sizes = self.constant.iter().map(|(size, bytes)| (*size, *bytes));
        sizes.max_by_key(|(size, bytes)| (*bytes, *size)).unwrap_or_default()
    }
}

/// Returns the length of the shortest pattern of which the chunk consists, at least twice. A chunk
/// of one byte has none, because nothing is repeated.
fn period(chunk: &[u8]) -> Option<usize> {
    let longest = PERIOD_MAX.min(chunk.len() / 2);
    (1..=longest).find(|period| chunk[*period..] == chunk[..chunk.len() - period])
}

pub(super) fn rows(task: &Task<'_>, goes_on: &dyn Fn() -> bool) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    for part in &task.algorithms {
        let spec = match choose(part, task.selection, task.target, task.set, goes_on) {
            ParameterChoice::Spec(spec) => spec,
            ParameterChoice::None(reason) => {
                rows.push(absent(part, reason));
                continue;
            }
        };
        let chunker = spec.chunker();
        let mut found = Found::default();
        for stream in task.set.streams() {
            ask(goes_on)?;
            let mut start = 0;
            for end in cuts(&*chunker, stream) {
                found.add(&stream[start..end]);
                start = end;
            }
        }
        let share = |bytes: u64| 100.0 * bytes as f64 / task.set.size() as f64;
        let (size, bytes) = found.canonical();
        let rows_of_it = [
            Row::new("constant", share(found.constant.values().sum()), "%"),
            Row::new("constant_canonical", share(bytes), "%")
                .note(format!("chunks of {size} bytes")),
            Row::new("constant_canonical_size", size as f64, "bytes"),
            Row::new("periodic", share(found.periodic), "%"),
        ];
        rows.extend(rows_of_it.map(|row| Row {
            algorithm: part.name.get_ref().clone(),
            spec: spec.to_string(),
            ..row
        }));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_found() {
        assert_eq!(period(b"aaaa"), Some(1), "one byte");
        assert_eq!(period(b"abababa"), Some(2), "with a rest");
        assert_eq!(period(b"abcab"), None, "less than twice");
        assert_eq!((period(b"a"), period(b"")), (None, None), "nothing is repeated");
        assert_eq!(period(&[b"x".repeat(70), b"y".to_vec()].concat()), None, "nearly");
    }

    #[test]
    fn size_with_most_bytes_is_canonical() {
        let mut found = Found::default();
        for chunk in [&b"aaaa"[..], b"aaaa", b"bbbbbb", b"abab", b"abcd"] {
            found.add(chunk);
        }
        assert_eq!(found.canonical(), (4, 8), "of 4 bytes twice");
        assert_eq!(found.periodic, 4, "a pattern of two");
    }
}
