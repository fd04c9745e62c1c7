//! Reads the disk of a qcow2 image.

use super::compressed::decompress;
use super::entry::{L2Entry, Mapping, l2_table};
use super::header::Header;
use crate::bytes::ByteSource;
use crate::error::{Error, Kind, Result};
use crate::image::{Extent, Image};

/// A qcow2 image. Holds the L1 table, one L2 table and one cluster in memory.
#[derive(Debug)]
pub(crate) struct Qcow2Image {
    name: String,
    bytes: Box<dyn ByteSource>,
    header: Header,
    l1: Vec<u64>,
    /// The offset of the L2 table that was read last, and the table.
    l2: Option<(u64, Vec<u8>)>,
    /// The offset of the compressed cluster that was read last, and its bytes.
    cluster: Option<(u64, Vec<u8>)>,
    base: Option<Box<dyn Image>>,
}

impl Qcow2Image {
    /// Opens the image `name`, which is based on `base`.
    ///
    /// # Errors
    ///
    /// Fails if the L1 table cannot be read.
    pub(crate) fn new(
        name: String,
        bytes: Box<dyn ByteSource>,
        header: Header,
        base: Option<Box<dyn Image>>,
    ) -> Result<Qcow2Image> {
        let mut image =
            Qcow2Image { name, bytes, header, l1: Vec::new(), l2: None, cluster: None, base };
        let len = image.header.l1_count * 8;
        let table = image.part(image.header.l1_offset, len, "its L1 table")?;
        image.l1.extend(table.as_chunks().0.iter().map(|entry| u64::from_be_bytes(*entry)));
        Ok(image)
    }

    fn corrupt(&self, problem: impl Into<String>) -> Error {
        Error::new(Kind::Corrupt, &self.name, problem)
    }

    /// Returns an error unless the file has `len` bytes at `offset`, which hold `what`.
    fn check_place(&self, offset: u64, len: u64, what: &str) -> Result<()> {
        let size = self.bytes.size();
        if offset.checked_add(len).is_some_and(|end| end <= size) {
            return Ok(());
        }
        Err(self.corrupt(format!(
            "is truncated: {what} is at byte {offset} ({len} bytes), and the file has {size} bytes"
        )))
    }

    /// Reads bytes that hold `what`.
    fn fill(&self, offset: u64, buffer: &mut [u8], what: &str) -> Result<()> {
        self.check_place(offset, buffer.len() as u64, what)?;
        self.bytes
            .read_exact_at(buffer, offset)
            .map_err(|error| Error::new(Kind::Io, &self.name, format!("at byte {offset}: {error}")))
    }

    /// Reads `len` bytes that hold `what`. Allocates no more than the file has.
    fn part(&self, offset: u64, len: usize, what: &str) -> Result<Vec<u8>> {
        if len == 0 {
            return Ok(Vec::new());
        }
        self.check_place(offset, len as u64, what)?;
        let mut part = vec![0; len];
        self.fill(offset, &mut part, what)?;
        Ok(part)
    }

    /// Returns the length of a cluster as a buffer has it.
    fn cluster_len(&self) -> usize {
        usize::try_from(self.header.cluster_size()).unwrap_or(usize::MAX)
    }

    /// Returns the mapping of the byte at `offset` of the disk, and the number of bytes from there
    /// on that it holds for.
    fn map(&mut self, offset: u64) -> Result<(Mapping, u64)> {
        let left = self.header.size.checked_sub(offset).filter(|left| *left > 0);
        let left = left.ok_or_else(|| {
            let problem = format!("has no byte {offset}: its disk has {}", self.header.size);
            Error::new(Kind::Invalid, &self.name, problem)
        })?;
        let (size, count) = (self.header.cluster_size(), self.header.l2_count());
        let (number, within) = (offset / size, offset % size);
        let place = usize::try_from(number / count).ok();
        let entry = place.and_then(|place| self.l1.get(place)).copied().unwrap_or_default();
        let table = l2_table(&self.header, entry).map_err(|problem| self.corrupt(problem))?;
        let Some(table) = table else {
            let end = (number / count + 1) * count * size;
            return Ok((Mapping::Absent, (end - offset).min(left)));
        };
        let entry = self.l2_entry(table, number % count)?;
        let (mapping, len) = entry
            .mapping(&self.header, within)
            .map_err(|problem| self.corrupt(format!("{problem}, for byte {offset} of the disk")))?;
        Ok((mapping, len.min(left)))
    }

    /// Returns an entry of the L2 table at the offset `table` of the file.
    fn l2_entry(&mut self, table: u64, number: u64) -> Result<L2Entry> {
        if self.l2.as_ref().is_none_or(|(at, _)| *at != table) {
            let bytes = self.part(table, self.cluster_len(), "an L2 table")?;
            self.l2 = Some((table, bytes));
        }
        let words = self.l2.as_ref().map(|(_, bytes)| bytes.as_chunks().0).unwrap_or_default();
        let word = |at: u64| {
            let word = usize::try_from(at).ok().and_then(|at| words.get(at));
            word.map_or(0, |word| u64::from_be_bytes(*word))
        };
        Ok(match self.header.has_extended_l2 {
            false => L2Entry { entry: word(number), bitmap: 0 },
            true => L2Entry { entry: word(number * 2), bitmap: word(number * 2 + 1) },
        })
    }

    /// Copies bytes of the compressed cluster at the offset `host` of the file, from `within` on.
    fn read_compressed(
        &mut self,
        host: u64,
        len_max: u64,
        within: u64,
        buffer: &mut [u8],
    ) -> Result<()> {
        if self.cluster.as_ref().is_none_or(|(at, _)| *at != host) {
            // The last sector can be longer than the file.
            let len = self.bytes.size().saturating_sub(host).min(len_max);
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            let bytes = self.part(host, len, "a compressed cluster")?;
            let mut cluster = vec![0; self.cluster_len()];
            if !decompress(self.header.compression, &bytes, &mut cluster) {
                let problem = format!("has a damaged compressed cluster at byte {host}");
                return Err(self.corrupt(problem));
            }
            self.cluster = Some((host, cluster));
        }
        let cluster = self.cluster.as_ref().map(|(_, cluster)| &**cluster).unwrap_or_default();
        let start = usize::try_from(within).unwrap_or(usize::MAX);
        let bytes = cluster.get(start..).and_then(|rest| rest.get(..buffer.len()));
        let bytes = bytes.ok_or_else(|| self.corrupt("has a cluster that is too short"))?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    /// Returns the extent of the backing file at `offset`, of at most `len` bytes.
    fn base_extent(&mut self, offset: u64, len: u64) -> Result<Extent> {
        let Some(base) = self.base.as_mut().filter(|base| offset < base.size()) else {
            return Ok(Extent { len, is_zero: true });
        };
        let extent = base.extent(offset)?;
        Ok(Extent { len: extent.len.min(len), ..extent })
    }

    /// Reads bytes of the backing file, behind whose end zeros follow.
    fn read_base(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let base_size = self.base.as_ref().map_or(0, |base| base.size());
        let there = usize::try_from(base_size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let (bytes, zeros) = buffer.split_at_mut(there.min(buffer.len()));
        zeros.fill(0);
        match &mut self.base {
            Some(base) if !bytes.is_empty() => base.read(offset, bytes),
            _ => Ok(()),
        }
    }
}

impl Image for Qcow2Image {
    fn size(&self) -> u64 {
        self.header.size
    }

    fn extent(&mut self, offset: u64) -> Result<Extent> {
        match self.map(offset)? {
            (Mapping::Absent, len) => self.base_extent(offset, len),
            (Mapping::Zeros, len) => Ok(Extent { len, is_zero: true }),
            (Mapping::Plain(_) | Mapping::Compressed(..), len) => {
                Ok(Extent { len, is_zero: false })
            }
        }
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let (mapping, len) = self.map(at)?;
            let len = usize::try_from(len).unwrap_or(usize::MAX).min(rest.len());
            let (piece, behind) = rest.split_at_mut(len);
            match mapping {
                Mapping::Absent => self.read_base(at, piece)?,
                Mapping::Zeros => piece.fill(0),
                Mapping::Plain(host) => {
                    self.fill(host, piece, &format!("byte {at} of the disk"))?;
                }
                Mapping::Compressed(host, len_max) => {
                    let within = at % self.header.cluster_size();
                    self.read_compressed(host, len_max, within, piece)?;
                }
            }
            at += len as u64;
            rest = behind;
        }
        Ok(())
    }
}
