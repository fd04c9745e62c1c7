//! Reads of stored blocks: payloads are decrypted, decompressed, combined with reference blocks, and
//! verified.

use std::io::IoSliceMut;
use std::sync::Arc;

use crate::codec::{compress, delta};
use crate::core::{Core, damaged, shown};
use crate::error::{Error, Result};
use crate::format::names;
use crate::format::position::{Place, Seq};
use crate::format::record::{Encoding, Record};
use crate::rules;
use crate::tables::{Form, Stored};

/// A full block that is to be read, and the place for its bytes.
pub(crate) struct FullBlock<'a> {
    pub(crate) seq: Seq,
    pub(crate) stored: Stored,
    pub(crate) buffer: &'a mut [u8],
}

/// The maximum number of bytes that are read at once.
const READ_MAX: u64 = 1024 * 1024;

/// The reason why a stored block cannot be read: the places that are damaged.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) error: Error,
    /// The index of the reference block that is damaged, or `None` if it is the stored block itself.
    pub(crate) reference: Option<usize>,
}

impl Core {
    /// Reads a stored block into `block`: one read of the folder for a full block, two for a burst, and
    /// up to five for a delta. `references` are the blocks that it needs, in order.
    ///
    /// # Errors
    ///
    /// Fails if the bytes cannot be read or are not those that were written. The contents of `block`
    /// are then undefined.
    pub(crate) fn read(
        &self,
        stored: &Stored,
        references: &[Stored],
        block: &mut [u8],
    ) -> std::result::Result<(), Unreadable> {
        let own = |error| Unreadable { error, reference: None };
        let Form::Full { .. } = stored.form else {
            return self.read_dependent(stored, references, block);
        };
        self.read_content(stored, block).map_err(own)?;
        self.verify(stored, block).map_err(own)
    }

    /// Reads full blocks.
    ///
    /// # Errors
    ///
    /// Fails with the number of a block if its bytes cannot be read or are not those that were written.
    /// The contents of all buffers are then undefined.
    pub(crate) fn read_full_blocks(
        &self,
        blocks: &mut [FullBlock<'_>],
    ) -> std::result::Result<(), (Seq, Error)> {
        let mut rest = &mut *blocks;
        while let Some(first) = rest.first() {
            let start = first.stored.payload_offset();
            let segment = first.stored.place.segment;
            let ends = rest.iter().scan(u64::from(first.stored.place.offset), |next, block| {
                let place = block.stored.place;
                let is_next = place.segment == segment && u64::from(place.offset) == *next;
                *next += block.stored.log_len();
                (is_next && *next - start <= READ_MAX).then_some(*next)
            });
            let count = ends.count().max(1);
            let (group, behind) = rest.split_at_mut(count);
            rest = behind;
            self.read_neighbours(group)?;
        }
        blocks.iter().try_for_each(|FullBlock { seq, stored, buffer }| {
            self.verify(stored, buffer).map_err(|error| (*seq, error))
        })
    }

    /// Reads the contents of full blocks that lie behind each other in a segment.
    fn read_neighbours(
        &self,
        blocks: &mut [FullBlock<'_>],
    ) -> std::result::Result<(), (Seq, Error)> {
        if self.read_plain_neighbours(blocks) {
            return Ok(());
        }
        if let [first, .., last] = &*blocks {
            let start = first.stored.payload_offset();
            let end = last.stored.payload_offset() + u64::from(last.stored.payload_len);
            let mut bytes = vec![0; usize::try_from(end - start).expect("at most 1 MiB")];
            let name = names::segment(first.stored.place.segment);
            if self.folder.read_at(&name, start, &mut bytes).is_ok() {
                for FullBlock { seq, stored, buffer } in blocks {
                    let at = usize::try_from(stored.payload_offset() - start).expect("within");
                    let payload = &mut bytes[at..at + stored.payload_len as usize];
                    self.decode(stored, payload, buffer).map_err(|error| (*seq, error))?;
                }
                return Ok(());
            }
        }
        for FullBlock { seq, stored, buffer } in blocks {
            self.read_content(stored, buffer).map_err(|error| (*seq, error))?;
        }
        Ok(())
    }

    /// Reads full blocks that lie behind each other in a segment, each to its place, if they are stored as
    /// they are. Returns `false` if they are not, or cannot be read at once.
    fn read_plain_neighbours(&self, blocks: &mut [FullBlock<'_>]) -> bool {
        let is_plain = |block: &FullBlock<'_>| self.is_plain(&block.stored, block.buffer.len());
        let [first, _, ..] = &*blocks else { return false };
        if !blocks.iter().all(is_plain) {
            return false;
        }
        let (place, start) = (first.stored.place, first.stored.payload_offset());
        let header_len = |block: &FullBlock<'_>| block.stored.header_len();
        let mut headers = vec![0; blocks.iter().skip(1).map(header_len).sum()];
        let mut headers = headers.as_mut_slice();
        let mut parts = Vec::with_capacity(2 * blocks.len());
        for (index, block) in blocks.iter_mut().enumerate() {
            if index > 0 {
                let header = headers.split_off_mut(..header_len(block)).expect("counted above");
                parts.push(IoSliceMut::new(header));
            }
            parts.push(IoSliceMut::new(&mut *block.buffer));
        }
        self.folder.read_parts_at(&names::segment(place.segment), start, &mut parts).is_ok()
    }

    /// Returns `true` if a stored block of `len` bytes is in the log as it is.
    fn is_plain(&self, stored: &Stored, len: usize) -> bool {
        let is_clear = self.cipher.is_none() && stored.encoding == Encoding::Plain;
        is_clear && stored.payload_len as usize == len
    }

    /// Reads a burst or a delta.
    fn read_dependent(
        &self,
        stored: &Stored,
        references: &[Stored],
        block: &mut [u8],
    ) -> std::result::Result<(), Unreadable> {
        let own = |error| Unreadable { error, reference: None };
        let mut blocks = Vec::with_capacity(references.len());
        for (index, (reference, seq)) in references.iter().zip(stored.references()).enumerate() {
            if let Some(cached) = self.blocks.get(seq) {
                blocks.push(cached);
                continue;
            }
            let mut bytes = vec![0; block.len()];
            for _ in 0..rules::reference_read_count() {
                self.read_content(reference, &mut bytes)
                    .map_err(|error| Unreadable { error, reference: Some(index) })?;
            }
            blocks.push(bytes.into());
        }
        self.combine(stored, &blocks, block).map_err(own)?;
        // The reference blocks are verified only if the result is wrong, to tell which of them is.
        self.verify(stored, block).map_err(|error| {
            let wrong =
                references.iter().zip(&blocks).enumerate().find_map(|(index, it)| {
                    self.verify(it.0, it.1).err().map(|error| (index, error))
                });
            match wrong {
                Some((index, error)) => Unreadable { error, reference: Some(index) },
                None => own(error),
            }
        })
    }

    /// Makes a block of the payload of a burst or a delta and the blocks that it needs.
    fn combine(&self, stored: &Stored, references: &[Arc<[u8]>], block: &mut [u8]) -> Result<()> {
        match &stored.form {
            Form::Full { .. } => Ok(()),
            Form::Burst { patch, .. } => {
                let problem = "the reference block is not known";
                let reference = references.first().ok_or_else(|| damaged(stored.place, problem))?;
                if !patch.is_possible(block.len()) {
                    return Err(damaged(stored.place, "the burst keeps more than a block"));
                }
                block.copy_from_slice(reference);
                let mut content = vec![0; patch.padded_len(block.len())];
                self.read_content(stored, &mut content)?;
                let (start, len) = (patch.prefix as usize, patch.data_len(block.len()));
                block[start..start + len].copy_from_slice(&content[..len]);
                Ok(())
            }
            Form::Delta { .. } => {
                let decoded = delta::decode(&self.content(stored)?, references, block);
                decoded.ok_or_else(|| damaged(stored.place, "the delta is damaged"))
            }
        }
    }

    /// Reads the payload of a stored block and decodes it.
    fn read_content(&self, stored: &Stored, content: &mut [u8]) -> Result<()> {
        if self.is_plain(stored, content.len()) {
            return self.read_into(stored, content);
        }
        let mut payload = self.read_payload(stored)?;
        self.decode(stored, &mut payload, content)
    }

    /// Reads the payload of a stored block.
    fn read_payload(&self, stored: &Stored) -> Result<Vec<u8>> {
        let len = stored.payload_len as usize;
        if len > self.shape.block_size + self.shape.seal_len {
            return Err(damaged(stored.place, "the payload is longer than a block"));
        }
        let mut payload = vec![0; len];
        self.read_into(stored, &mut payload)?;
        Ok(payload)
    }

    /// Reads the payload of a stored block, which has the length of `payload`.
    fn read_into(&self, stored: &Stored, payload: &mut [u8]) -> Result<()> {
        let name = names::segment(stored.place.segment);
        let read = self.folder.read_at(&name, stored.payload_offset(), payload);
        read.map_err(|error| Error::io(shown(stored.place), "cannot be read", error))
    }

    /// Decodes the payload of a stored block.
    fn decode(&self, stored: &Stored, payload: &mut [u8], content: &mut [u8]) -> Result<()> {
        let payload = self.open(stored.place, payload)?;
        let wrong = || damaged(stored.place, "the payload has a wrong length or is damaged");
        if stored.encoding == Encoding::Plain && payload.len() == content.len() {
            content.copy_from_slice(payload);
            return Ok(());
        }
        let decoded = compress::decode(stored.encoding, payload, content.len());
        let decoded = decoded.filter(|it| it.len() == content.len()).ok_or_else(wrong)?;
        content.copy_from_slice(&decoded);
        Ok(())
    }

    /// Decodes the payload of a full block that is not in the log yet.
    ///
    /// # Errors
    ///
    /// Never fails for a payload that this program has encoded.
    pub(crate) fn decode_added(&self, stored: &Stored, payload: &[u8]) -> Result<Vec<u8>> {
        let mut block = vec![0; self.shape.block_size];
        self.decode(stored, &mut payload.to_vec(), &mut block)?;
        Ok(block)
    }

    /// Decrypts a payload, if the volume is encrypted.
    fn open<'a>(&self, place: Place, payload: &'a mut [u8]) -> Result<&'a [u8]> {
        match &self.cipher {
            None => Ok(payload),
            Some(cipher) => {
                let opened = cipher.open(place, payload);
                opened.ok_or_else(|| damaged(place, "the payload cannot be decrypted"))
            }
        }
    }

    /// Reads the content of a change of the catalog.
    ///
    /// # Errors
    ///
    /// Fails if the bytes cannot be read.
    pub(crate) fn read_change(&self, record: &Record, place: Place) -> Result<Vec<u8>> {
        let mut content = vec![0; record.payload_len as usize];
        let offset = u64::from(place.offset) + record.body.header_len() as u64;
        self.folder
            .read_at(&names::segment(place.segment), offset, &mut content)
            .map_err(|error| Error::io(shown(place), "cannot be read", error))?;
        Ok(self.open(place, &mut content)?.to_vec())
    }

    /// Returns the content of a stored block as it was before compression and encryption: the block, the
    /// padded new bytes of a burst, or a delta.
    ///
    /// # Errors
    ///
    /// Fails if the bytes cannot be read or decoded.
    pub(crate) fn content(&self, stored: &Stored) -> Result<Vec<u8>> {
        let mut payload = self.read_payload(stored)?;
        let payload = self.open(stored.place, &mut payload)?;
        let content = compress::decode(stored.encoding, payload, self.shape.block_size);
        content.ok_or_else(|| damaged(stored.place, "the payload is damaged"))
    }

    /// Verifies a block that was read by its checksum.
    fn verify(&self, stored: &Stored, block: &[u8]) -> Result<()> {
        if self.keys.has_checksum(&stored.fingerprint, block) || !rules::must_verify_block() {
            return Ok(());
        }
        Err(damaged(stored.place, "the checksum of the block does not match"))
    }

    /// Verifies a block that was read by its whole fingerprint.
    ///
    /// # Errors
    ///
    /// Fails with [`Kind::Corrupt`](crate::Kind::Corrupt) if the block has another one.
    pub(crate) fn verify_fingerprint(&self, stored: &Stored, block: &[u8]) -> Result<()> {
        if self.keys.fingerprint(block) == stored.fingerprint {
            return Ok(());
        }
        Err(damaged(stored.place, "the fingerprint of the block does not match"))
    }
}
