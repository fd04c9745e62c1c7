//! Maps of sparse members: the old form of GNU tar, and the versions 0.0, 0.1 and 1.0 in PAX
//! records.

use std::io::{self, Read};

use tar::{GnuExtSparseHeader, GnuSparseHeader, Header};

use super::blocks::{BLOCK_SIZE, Blocks};
use super::pax_records::{PaxRecords, decimal};

/// The maximum number of extents of a member.
const EXTENTS_MAX: usize = 1 << 22;
/// The maximum number of digits of a number in a map.
const DIGITS_MAX: usize = 20;

/// A range of a file that has data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataExtent {
    /// The offset in the file.
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// The extents of a sparse member.
#[derive(Debug)]
pub(super) struct SparseMap {
    pub(super) extents: Vec<DataExtent>,
    /// The size of the file, with its holes.
    pub(super) size: u64,
    /// The number of bytes of the member that the map itself takes.
    pub(super) map_len: u64,
}

fn invalid(message: &str) -> io::Error {
    let message = format!("sparse file in the tar archive: {message}");
    io::Error::new(io::ErrorKind::InvalidData, message)
}

impl SparseMap {
    /// Adds an extent, behind all others.
    fn push(&mut self, offset: u64, len: u64) -> io::Result<()> {
        if self.extents.len() == EXTENTS_MAX {
            return Err(invalid("too many extents"));
        }
        let covered = self.extents.last().map_or(0, |last| last.offset + last.len);
        let end = offset.checked_add(len).ok_or_else(|| invalid("an extent ends nowhere"))?;
        if offset < covered || end > self.size {
            return Err(invalid("its extents overlap, or lie behind its end"));
        }
        self.extents.push(DataExtent { offset, len });
        Ok(())
    }

    /// Reads the map in the GNU header `header`, and in the blocks that follow it.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` for a malformed map.
    pub(super) fn of_gnu<R: Read>(
        header: &Header,
        blocks: &mut Blocks<R>,
    ) -> io::Result<SparseMap> {
        let gnu = header.as_gnu().ok_or_else(|| invalid("no header of GNU tar"))?;
        let mut map = SparseMap { extents: Vec::new(), size: gnu.real_size()?, map_len: 0 };
        map.push_all(&gnu.sparse)?;
        let mut is_extended = gnu.is_extended();
        while is_extended {
            let mut more = GnuExtSparseHeader::new();
            blocks.read_exact(more.as_mut_bytes())?;
            map.push_all(more.sparse())?;
            is_extended = more.is_extended();
        }
        Ok(map)
    }

    fn push_all(&mut self, parts: &[GnuSparseHeader]) -> io::Result<()> {
        for part in parts.iter().filter(|part| !part.is_empty()) {
            self.push(part.offset()?, part.length()?)?;
        }
        Ok(())
    }

    /// Returns the map of the PAX records; `None` if the member is not sparse. The map of version
    /// 1.0 is read from the beginning of the data.
    ///
    /// # Errors
    ///
    /// Returns `InvalidData` for a malformed map.
    pub(super) fn of_pax<R: Read>(
        records: &PaxRecords,
        blocks: &mut Blocks<R>,
    ) -> io::Result<Option<SparseMap>> {
        let is_first = records.number("GNU.sparse.major")? == Some(1);
        let size = match is_first {
            true => records.number("GNU.sparse.realsize")?,
            false => records.number("GNU.sparse.size")?,
        };
        let Some(size) = size else { return Ok(None) };
        let mut map = SparseMap { extents: Vec::new(), size, map_len: 0 };
        if is_first {
            map.read(blocks)?;
        } else if let Some(list) = records.get("GNU.sparse.map") {
            let numbers = list.split(|&byte| byte == b',').map(decimal);
            let numbers: Vec<u64> =
                numbers.collect::<Option<_>>().ok_or_else(|| invalid("a malformed map"))?;
            for pair in numbers.chunks(2) {
                let [offset, len] = pair else { return Err(invalid("a malformed map")) };
                map.push(*offset, *len)?;
            }
        } else {
            let mut offset = None;
            for (keyword, value) in records.iter() {
                let number = || decimal(value).ok_or_else(|| invalid("a malformed map"));
                match keyword {
                    b"GNU.sparse.offset" => offset = Some(number()?),
                    b"GNU.sparse.numbytes" => {
                        let offset = offset.take().ok_or_else(|| invalid("a malformed map"))?;
                        map.push(offset, number()?)?;
                    }
                    _ => {}
                }
            }
        }
        Ok(Some(map))
    }

    /// Reads the map at the beginning of the data: decimal numbers, each on a line, in whole blocks.
    fn read<R: Read>(&mut self, blocks: &mut Blocks<R>) -> io::Result<()> {
        let mut lines = Lines { block: [0; BLOCK_SIZE], at: BLOCK_SIZE, len: 0 };
        let count = lines.number(blocks)?;
        for _ in 0..count {
            let (offset, len) = (lines.number(blocks)?, lines.number(blocks)?);
            self.push(offset, len)?;
        }
        self.map_len = lines.len;
        Ok(())
    }
}

/// The lines of a map, block by block.
struct Lines {
    block: [u8; BLOCK_SIZE],
    at: usize,
    /// The number of bytes read.
    len: u64,
}

impl Lines {
    fn number<R: Read>(&mut self, blocks: &mut Blocks<R>) -> io::Result<u64> {
        let mut digits = Vec::new();
        loop {
            if self.at == BLOCK_SIZE {
                blocks.read_exact(&mut self.block)?;
                self.len += BLOCK_SIZE as u64;
                self.at = 0;
            }
            let byte = self.block[self.at];
            self.at += 1;
            if byte == b'\n' {
                return decimal(&digits).ok_or_else(|| invalid("a malformed map"));
            }
            if digits.len() == DIGITS_MAX {
                return Err(invalid("a malformed map"));
            }
            digits.push(byte);
        }
    }
}
