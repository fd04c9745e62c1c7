//! The extra of similarity objects by which BURST finds old chunks.
//!
//! The extra holds the HeadDT and TailDT of one writer: the heads and tails of its full chunks, of
//! the length that tau defines, and the number of bursts that the writer has put on each reference
//! chunk. Like all hints, it is optional.

use cutpoint_delta::burst::{Side, Tau};
use minicbor::{Decoder, Encoder};

use super::edges::{EDGES_LEN, Edges};
use super::map::Extra;
use super::packed::Reader;
use super::toc::{ChunkRecord, Form};

/// The key in the map of a similarity object. Readers that do not know the key ignore it.
const KEY: u32 = 128;
/// The length of a count: an edge, and twice the count, plus one for a tail.
const COUNT_LEN: usize = 8;

/// The hints for BURST.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BurstHints {
    /// The definition of the length of heads and tails: the text of a [`Tau`].
    pub tau: String,
    /// For each container of the similarity object, in order: the edges of the chunks that
    /// [`has_sub_chunks`] selects.
    pub edges: Vec<Vec<Edges>>,
    /// Number of bursts that the writer has put on chunks.
    pub counts: Vec<BurstCount>,
}

/// The number of bursts that were put on the chunk to which an edge has led last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BurstCount {
    /// The side of the edge.
    pub side: Side,
    /// The hash of the head or the tail.
    pub edge: u32,
    /// The number of bursts, below 2^31.
    pub count: u32,
}

/// Returns `true` if BURST can find a chunk: it is a full chunk with a head and a tail.
pub fn has_sub_chunks(tau: Tau, form: Form, chunk_len: u32) -> bool {
    form == Form::Full && tau.len(chunk_len as usize).is_some()
}

/// Returns the chunks of a table of contents that BURST can find.
pub fn with_sub_chunks(tau: Tau, chunks: &[ChunkRecord]) -> impl Iterator<Item = &ChunkRecord> {
    chunks.iter().filter(move |chunk| has_sub_chunks(tau, chunk.form, chunk.chunk_len))
}

impl BurstHints {
    /// Encodes the hints as an extra of a similarity object. Because hints are optional, the extra
    /// is empty if there are more hints than the format can count.
    pub fn encode(&self) -> Extra {
        let Some(packed) = self.packed() else { return Extra::new() };
        let mut e = Encoder::new(Vec::new());
        // Writing to a vector cannot fail.
        let written =
            e.array(2).and_then(|e| e.str(&self.tau)).and_then(|e| e.bytes(&packed)).is_ok();
        if written { vec![(KEY, e.into_writer())] } else { Extra::new() }
    }

    /// Returns the edges and the counts; `None` if there are more than can be counted.
    fn packed(&self) -> Option<Vec<u8>> {
        let narrow = |count: usize| u32::try_from(count).ok().map(u32::to_le_bytes);
        let mut packed = narrow(self.edges.len())?.to_vec();
        for edges in &self.edges {
            packed.extend_from_slice(&narrow(edges.len())?);
        }
        packed.extend(self.edges.iter().flatten().flatten().flat_map(|edge| edge.to_le_bytes()));
        packed.extend_from_slice(&narrow(self.counts.len())?);
        for BurstCount { side, edge, count } in &self.counts {
            packed.extend_from_slice(&edge.to_le_bytes());
            packed.extend_from_slice(&(count << 1 | *side as u32).to_le_bytes());
        }
        Some(packed)
    }

    /// Decodes the hints from `extra`; `None` if there are none that can be read.
    pub fn decode(extra: &Extra) -> Option<BurstHints> {
        let (_, value) = extra.iter().find(|(key, _)| *key == KEY)?;
        let d = &mut Decoder::new(value);
        if d.array().ok()?? != 2 {
            return None;
        }
        let tau = d.str().ok()?.to_owned();
        let mut reader = Reader::new(d.bytes().ok()?, "edges of bursts");
        let container_count = reader.u32().ok()? as usize;
        let mut lens = Vec::with_capacity(reader.capacity(container_count, 4));
        for _ in 0..container_count {
            lens.push(reader.u32().ok()? as usize);
        }
        let mut edges = Vec::with_capacity(lens.len());
        for len in lens {
            let mut of_container = Vec::with_capacity(reader.capacity(len, EDGES_LEN));
            for _ in 0..len {
                of_container.push([reader.u32().ok()?, reader.u32().ok()?]);
            }
            edges.push(of_container);
        }
        let count = reader.u32().ok()? as usize;
        let mut counts = Vec::with_capacity(reader.capacity(count, COUNT_LEN));
        for _ in 0..count {
            let (edge, count) = (reader.u32().ok()?, reader.u32().ok()?);
            counts.push(BurstCount {
                side: Side::ALL[(count & 1) as usize],
                edge,
                count: count >> 1,
            });
        }
        reader.rest().is_empty().then_some(BurstHints { tau, edges, counts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_hints_survive_round_trip_and_malformed_ones_are_ignored() {
        let hints = BurstHints {
            tau: "1/8".to_owned(),
            edges: vec![vec![[1, 2], [3, u32::MAX]], Vec::new(), vec![[5, 6]]],
            counts: vec![
                BurstCount { side: Side::Head, edge: 7, count: 1 },
                BurstCount { side: Side::Tail, edge: 8, count: u32::MAX >> 1 },
            ],
        };
        let extra = hints.encode();
        assert_eq!(BurstHints::decode(&extra), Some(hints));
        assert_eq!(BurstHints::decode(&Extra::new()), None);
        assert_eq!(BurstHints::decode(&vec![(KEY + 1, extra[0].1.clone())]), None);
        // The lengths that the bytes claim differ from the lengths that are there.
        let packed = |packed: &[u8]| {
            let mut e = Encoder::new(Vec::new());
            e.array(2).and_then(|e| e.str("1/8")).and_then(|e| e.bytes(packed)).expect("a vector");
            BurstHints::decode(&vec![(KEY, e.into_writer())])
        };
        assert_eq!(packed(&[0; 8]).map(|hints| hints.edges.len()), Some(0), "nothing");
        for bad in [&[0; 7][..], &[0; 9], &[1, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0], &[255; 16]]
        {
            assert_eq!(packed(bad), None, "{bad:?}");
        }
        for value in [&[0x01][..], &[0x81, 0x60], &[0x83, 0x60, 0x40, 0], &[0x9f]] {
            assert_eq!(BurstHints::decode(&vec![(KEY, value.to_vec())]), None, "{value:?}");
        }
    }
}
