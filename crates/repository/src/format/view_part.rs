//! Parts of the view checkpoint: the stored bytes of many commits and prune records.

use bytes::Bytes;
use cutpoint_storage::Result;
use minicbor::Decoder;

use super::HEADER_LEN;
use super::map::{Extra, MapWriter, at_end, read_map};
use super::packed::{Reader, push_count};

/// The length of the field before each object, in bytes.
pub const OBJECT_LEN_LEN: usize = 4;

/// The body of `views/<p>-<v>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewPart {
    /// Commits and prune records, exactly as they are stored.
    pub objects: Vec<Bytes>,
    /// Entries that a newer version wrote.
    pub extra: Extra,
}

impl ViewPart {
    /// Encodes the body of the object.
    pub fn encode(&self) -> Vec<u8> {
        let len: usize = self.objects.iter().map(|object| OBJECT_LEN_LEN + object.len()).sum();
        let mut body = Vec::with_capacity(OBJECT_LEN_LEN + len + 16);
        push_count(&mut body, self.objects.len());
        for object in &self.objects {
            push_count(&mut body, object.len());
            body.extend_from_slice(object);
        }
        let mut map = MapWriter::new();
        map.extra(&self.extra);
        map.finish_into(&mut body);
        body
    }

    /// Decodes the body of the object. The objects share its memory.
    ///
    /// # Errors
    ///
    /// Returns a `Corrupt` error if the body is shorter than its counts claim, or has bytes behind
    /// its end.
    pub fn decode(body: &Bytes) -> Result<ViewPart> {
        let mut reader = Reader::new(body, "part of the view checkpoint");
        let count = reader.u32()? as usize;
        let mut objects = Vec::with_capacity(reader.capacity(count, OBJECT_LEN_LEN + HEADER_LEN));
        for _ in 0..count {
            let len = reader.u32()? as usize;
            objects.push(body.slice_ref(reader.take(len)?));
        }
        let d = &mut Decoder::new(reader.rest());
        let extra = read_map(d, |_, _| Ok(false))?;
        at_end(d)?;
        Ok(ViewPart { objects, extra })
    }
}
