//! What a container says of how its regions were made: an extra of its directory.

use minicbor::{Decoder, Encoder};

use super::map::Extra;

/// The key in the directory's map. Who does not know it passes over it.
const KEY: u32 = 128;

/// How regions are filled and compressed where that may take its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// A region gathers so many bytes.
    pub region_size: u32,
    /// The level of zstd.
    pub compression_level: i32,
}

impl Grouping {
    /// Whether it may compress better than `other` does: more in one respect, and no less in the other.
    #[must_use]
    pub fn is_stronger_than(&self, other: &Grouping) -> bool {
        self != other
            && self.region_size >= other.region_size
            && self.compression_level >= other.compression_level
    }

    /// The extra that says so.
    pub(crate) fn encode(self) -> Extra {
        let mut e = Encoder::new(Vec::new());
        let numbers = [i64::from(self.region_size), i64::from(self.compression_level)];
        // Writing to a vector does not fail.
        let written = e.array(2).and_then(|e| e.i64(numbers[0])).and_then(|e| e.i64(numbers[1]));
        match written {
            Ok(_) => vec![(KEY, e.into_writer())],
            Err(_) => Extra::new(),
        }
    }

    /// What `extra` says of it; nothing where it says nothing that can be read.
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
    fn it_comes_back() {
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
    fn stronger_is_no_weaker_in_anything() {
        let of = |region_size, compression_level| Grouping { region_size, compression_level };
        assert!(of(2, 9).is_stronger_than(&of(1, 9)) && of(2, 9).is_stronger_than(&of(2, 8)));
        assert!(!of(2, 9).is_stronger_than(&of(2, 9)) && !of(4, 8).is_stronger_than(&of(2, 9)));
    }
}
