//! What BURST needs of old chunks: an extra of hints objects.
//!
//! HeadDT and TailDT of one writer: the ends of its wholes, as long as tau says, and how many bursts it has
//! put on which of them. As all hints, nothing needs it.

use cutpoint_matching::burst::{Side, Tau};
use minicbor::{Decoder, Encoder};

use super::directory::{ChunkRecord, Form};
use super::ends::{ENDS_LEN, Ends};
use super::map::Extra;
use super::packed::Reader;

/// The key in the map of a hints object. Who does not know it passes over it.
const KEY: u32 = 128;
/// What a count takes: an end, and twice the count, one more for a tail.
const COUNT_LEN: usize = 8;

/// What hints say for BURST.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BurstHints {
    /// How long heads and tails are: the text of a [`Tau`].
    pub tau: String,
    /// For each container of the hints object, in order: those of its chunks that [`has_sub_chunks`] speaks of.
    pub ends: Vec<Vec<Ends>>,
    /// How many bursts the writer has put on which chunks.
    pub counts: Vec<BurstCount>,
}

/// So many bursts were put on the chunk to which an end has led last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BurstCount {
    /// Which end.
    pub side: Side,
    /// Its hash.
    pub end: u32,
    /// How many, below 2^31.
    pub count: u32,
}

/// Whether a chunk can be found by BURST: a whole that has head and tail.
pub fn has_sub_chunks(tau: Tau, form: Form, chunk_len: u32) -> bool {
    form == Form::Whole && tau.len(chunk_len as usize).is_some()
}

/// The chunks of a directory that can be found.
pub fn with_sub_chunks(tau: Tau, chunks: &[ChunkRecord]) -> impl Iterator<Item = &ChunkRecord> {
    chunks.iter().filter(move |chunk| has_sub_chunks(tau, chunk.form, chunk.chunk_len))
}

impl BurstHints {
    /// The extra of a hints object that says so.
    pub fn encode(&self) -> Extra {
        let narrow = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes();
        let mut packed = narrow(self.ends.len()).to_vec();
        packed.extend(self.ends.iter().flat_map(|ends| narrow(ends.len())));
        packed.extend(self.ends.iter().flatten().flatten().flat_map(|end| end.to_le_bytes()));
        packed.extend_from_slice(&narrow(self.counts.len()));
        for BurstCount { side, end, count } in &self.counts {
            packed.extend_from_slice(&end.to_le_bytes());
            packed.extend_from_slice(&(count << 1 | *side as u32).to_le_bytes());
        }
        let mut e = Encoder::new(Vec::new());
        // Writing to a vector does not fail.
        let written =
            e.array(2).and_then(|e| e.str(&self.tau)).and_then(|e| e.bytes(&packed)).is_ok();
        if written { vec![(KEY, e.into_writer())] } else { Extra::new() }
    }

    /// What `extra` says; nothing where it says nothing that can be read.
    pub fn decode(extra: &Extra) -> Option<BurstHints> {
        let (_, value) = extra.iter().find(|(key, _)| *key == KEY)?;
        let d = &mut Decoder::new(value);
        if d.array().ok()?? != 2 {
            return None;
        }
        let tau = d.str().ok()?.to_owned();
        let mut reader = Reader::new(d.bytes().ok()?, "hints of bursts");
        let container_count = reader.u32().ok()? as usize;
        let mut lens = Vec::with_capacity(reader.capacity(container_count, 4));
        for _ in 0..container_count {
            lens.push(reader.u32().ok()? as usize);
        }
        let mut ends = Vec::with_capacity(lens.len());
        for len in lens {
            let mut of_container = Vec::with_capacity(reader.capacity(len, ENDS_LEN));
            for _ in 0..len {
                of_container.push([reader.u32().ok()?, reader.u32().ok()?]);
            }
            ends.push(of_container);
        }
        let count = reader.u32().ok()? as usize;
        let mut counts = Vec::with_capacity(reader.capacity(count, COUNT_LEN));
        for _ in 0..count {
            let (end, count) = (reader.u32().ok()?, reader.u32().ok()?);
            counts.push(BurstCount {
                side: Side::ALL[(count & 1) as usize],
                end,
                count: count >> 1,
            });
        }
        reader.rest().is_empty().then_some(BurstHints { tau, ends, counts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_and_nothing_else_does() {
        let hints = BurstHints {
            tau: "1/8".to_owned(),
            ends: vec![vec![[1, 2], [3, u32::MAX]], Vec::new(), vec![[5, 6]]],
            counts: vec![
                BurstCount { side: Side::Head, end: 7, count: 1 },
                BurstCount { side: Side::Tail, end: 8, count: u32::MAX >> 1 },
            ],
        };
        let extra = hints.encode();
        assert_eq!(BurstHints::decode(&extra), Some(hints));
        assert_eq!(BurstHints::decode(&Extra::new()), None);
        assert_eq!(BurstHints::decode(&vec![(KEY + 1, extra[0].1.clone())]), None);
        // The lengths that the bytes claim are not those that are there.
        let packed = |packed: &[u8]| {
            let mut e = Encoder::new(Vec::new());
            e.array(2).and_then(|e| e.str("1/8")).and_then(|e| e.bytes(packed)).expect("a vector");
            BurstHints::decode(&vec![(KEY, e.into_writer())])
        };
        assert_eq!(packed(&[0; 8]).map(|hints| hints.ends.len()), Some(0), "nothing");
        for bad in [&[0; 7][..], &[0; 9], &[1, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0], &[255; 16]]
        {
            assert_eq!(packed(bad), None, "{bad:?}");
        }
        for value in [&[0x01][..], &[0x81, 0x60], &[0x83, 0x60, 0x40, 0], &[0x9f]] {
            assert_eq!(BurstHints::decode(&vec![(KEY, value.to_vec())]), None, "{value:?}");
        }
    }
}
