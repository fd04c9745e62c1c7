//! Similarity objects: the edges of full chunks, by which similar chunks are found.

use cutpoint_storage::Result;
use minicbor::Decoder;

use super::map::{Extra, MapWriter, at_end, read_map};
use super::packed::{Reader, push_count};
use super::toc::{ChunkRecord, Form};
use crate::format::names::PartName;

/// The length of the head of a chunk, and of its tail, in bytes.
pub const EDGE_LEN: usize = 256;
/// The length of encoded edges: hashes of head and tail, 4 bytes each.
pub const EDGES_LEN: usize = 8;
/// The length of a container's name and the number of its chunks, in bytes.
const CONTAINER_LEN: usize = 20;

/// Hashes of the head and of the tail of a chunk.
pub type Edges = [u32; 2];

/// The edges of the chunks of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerEdges {
    /// The name of the container.
    pub container: PartName,
    /// The edges of the container's chunks that [`has_edges`] selects, in the order of its table of
    /// contents.
    pub edges: Vec<Edges>,
}

/// The body of a similarity object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimilarityObject {
    /// Containers of file chunks.
    pub containers: Vec<ContainerEdges>,
    /// Entries that a newer version wrote.
    pub extra: Extra,
}

/// Returns `true` if similarity objects include a chunk: it is a full chunk in which head and tail
/// do not overlap.
pub fn has_edges(form: Form, chunk_len: u32) -> bool {
    form == Form::Full && chunk_len as usize >= 2 * EDGE_LEN
}

/// Returns the numbers of the chunks of a table of contents that similarity objects include.
pub fn numbers_with_edges(chunks: &[ChunkRecord]) -> impl Iterator<Item = usize> {
    let chunks = chunks.iter().enumerate();
    chunks.filter(|(_, chunk)| has_edges(chunk.form, chunk.chunk_len)).map(|(number, _)| number)
}

impl SimilarityObject {
    /// Encodes the body of the object.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        push_count(&mut body, self.containers.len());
        for ContainerEdges { container, edges } in &self.containers {
            body.extend_from_slice(&container.to_bytes());
            push_count(&mut body, edges.len());
        }
        for edge in self.containers.iter().flat_map(|container| &container.edges).flatten() {
            body.extend_from_slice(&edge.to_le_bytes());
        }
        let mut map = MapWriter::new();
        map.extra(&self.extra);
        map.finish_into(&mut body);
        body
    }

    /// Decodes the body of the object.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if the body is shorter than its counts claim, or has bytes behind
    /// its end.
    pub fn decode(bytes: &[u8]) -> Result<SimilarityObject> {
        let mut reader = Reader::new(bytes, "similarity object");
        let count = reader.u32()? as usize;
        let mut counts = Vec::with_capacity(reader.capacity(count, CONTAINER_LEN));
        for _ in 0..count {
            counts.push((PartName::from_bytes(reader.array()?), reader.u32()? as usize));
        }
        let mut containers = Vec::with_capacity(counts.len());
        for (container, count) in counts {
            let mut edges = Vec::with_capacity(reader.capacity(count, EDGES_LEN));
            for _ in 0..count {
                edges.push([reader.u32()?, reader.u32()?]);
            }
            containers.push(ContainerEdges { container, edges });
        }
        let d = &mut Decoder::new(reader.rest());
        let extra = read_map(d, |_, _| Ok(false))?;
        at_end(d)?;
        Ok(SimilarityObject { containers, extra })
    }
}
