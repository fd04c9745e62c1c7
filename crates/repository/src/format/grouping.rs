//! An extra of a container's table of contents that records how its regions were made.

use minicbor::{Decoder, Encoder};

use super::map::Extra;

/// The key in the table of contents's map. Readers that do not know the key ignore it.
const KEY: u32 = 128;

/// The size and the compression level of regions, for writers with time for strong compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// The number of bytes that a region gathers.
    pub region_size: u32,
    /// The zstd level.
    pub compression_level: i32,
}

impl Grouping {
    /// Returns `true` if this grouping may compress better than `other`: it is greater in one
    /// respect, and not less in the other.
    #[must_use]
    pub fn is_stronger_than(&self, other: &Grouping) -> bool {
        self != other
            && self.region_size >= other.region_size
            && self.compression_level >= other.compression_level
    }

    /// Encodes the grouping as an extra.
    pub(crate) fn encode(self) -> Extra {
        let mut e = Encoder::new(Vec::new());
        let numbers = [i64::from(self.region_size), i64::from(self.compression_level)];
        // Writing to a vector cannot fail.
        let written = e.array(2).and_then(|e| e.i64(numbers[0])).and_then(|e| e.i64(numbers[1]));
        match written {
            Ok(_) => vec![(KEY, e.into_writer())],
            Err(_) => Extra::new(),
        }
    }

    /// Decodes the grouping from `extra`; `None` if there is none that can be read.
    pub(crate) fn decode(extra: &Extra) -> Option<Grouping> {
        let (_, value) = extra.iter().find(|(key, _)| *key == KEY)?;
        let d = &mut Decoder::new(value);
        let length = d.array().ok()??;
        let (region_size, compression_level) = (d.u32().ok()?, d.i32().ok()?);
        (length == 2).then_some(Grouping { region_size, compression_level })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grouping_survives_round_trip_and_malformed_one_is_ignored() {
        for (region_size, compression_level) in [(1 << 22, 9), (0, -7), (u32::MAX, i32::MAX)] {
            let grouping = Grouping { region_size, compression_level };
            assert_eq!(Grouping::decode(&grouping.encode()), Some(grouping));
        }
        assert_eq!(Grouping::decode(&Extra::new()), None);
        for value in [&[0x01][..], &[0x81, 0x01], &[0x83, 1, 2, 3], &[0x82, 0x20, 1], &[0x9f]] {
            assert_eq!(Grouping::decode(&vec![(KEY, value.to_vec())]), None, "{value:?}");
        }
        assert_eq!(Grouping::decode(&vec![(KEY + 1, vec![0x82, 1, 1])]), None);
    }

    #[test]
    fn stronger_grouping_is_weaker_in_no_respect() {
        let of = |region_size, compression_level| Grouping { region_size, compression_level };
        assert!(of(2, 9).is_stronger_than(&of(1, 9)) && of(2, 9).is_stronger_than(&of(2, 8)));
        assert!(!of(2, 9).is_stronger_than(&of(2, 9)) && !of(4, 8).is_stronger_than(&of(2, 9)));
    }
}
