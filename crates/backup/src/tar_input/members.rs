//! The members of a tar archive, in their order.

use std::io::{self, Read};

use tar::EntryType;

use super::blocks::{BLOCK_SIZE, Blocks};
use super::member::{Member, MemberHeaders};
use super::pax_records::PaxRecords;
use super::sparse::{DataExtent, SparseMap};
use crate::source::OwnerIds;

/// The maximum size of the records of a PAX header, in bytes. Linux limits each attribute to 64 KiB.
const RECORDS_LEN_MAX: u64 = 16 << 20;
/// The maximum size of a long name, in bytes.
const NAME_LEN_MAX: u64 = 1 << 20;

/// Reads the members of an archive.
#[derive(Debug)]
pub(crate) struct Members<R> {
    blocks: Blocks<R>,
    /// The records of the global headers so far.
    global: PaxRecords,
    /// The number of bytes of the current member that were not read.
    left: u64,
    /// The number of bytes behind them, up to the next header.
    padding: u64,
    owners: OwnerIds,
}

impl<R: Read> Members<R> {
    /// Reads an archive from its beginning.
    pub(crate) fn new(reader: R) -> Members<R> {
        Members {
            blocks: Blocks::new(reader),
            global: PaxRecords::default(),
            left: 0,
            padding: 0,
            owners: OwnerIds::default(),
        }
    }

    /// Returns the next member; `None` at the end of the archive. What was not read of the data of
    /// the member before is skipped.
    ///
    /// # Errors
    ///
    /// Returns any error of the reader, and an error for a malformed or truncated archive.
    pub(crate) fn next_member(&mut self) -> io::Result<Option<Member>> {
        self.blocks.skip(self.left)?;
        self.blocks.skip(self.padding)?;
        (self.left, self.padding) = (0, 0);
        let mut records = self.global.clone();
        let (mut long_name, mut long_link) = (None, None);
        let mut has_extension = false;
        loop {
            let Some(header) = self.blocks.header()? else {
                if has_extension {
                    let message = "the tar archive ends between the headers of a member";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, message));
                }
                return Ok(None);
            };
            let len = header.entry_size();
            let name = |blocks: &mut Blocks<R>, len| {
                let mut name = blocks.extended_header(len, NAME_LEN_MAX)?;
                name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(name.len()));
                Ok::<_, io::Error>(Some(name))
            };
            has_extension = true;
            match header.entry_type() {
                EntryType::GNULongName => long_name = name(&mut self.blocks, len?)?,
                EntryType::GNULongLink => long_link = name(&mut self.blocks, len?)?,
                EntryType::XHeader => {
                    records.append(&self.blocks.extended_header(len?, RECORDS_LEN_MAX)?)?;
                }
                EntryType::XGlobalHeader => {
                    let bytes = self.blocks.extended_header(len?, RECORDS_LEN_MAX)?;
                    self.global.append(&bytes)?;
                    records.append(&bytes)?;
                    has_extension = false;
                }
                // The name of the volume.
                other if other.as_byte() == b'V' => has_extension = false,
                _ => {
                    let headers = MemberHeaders { header, records, long_name, long_link };
                    return self.begin(&headers).map(Some);
                }
            }
        }
    }

    /// Begins the member with these headers.
    fn begin(&mut self, headers: &MemberHeaders) -> io::Result<Member> {
        let stored_len = headers.stored_len()?;
        self.left = stored_len;
        let is_sparse = headers.header.entry_type() == EntryType::GNUSparse;
        let map = match is_sparse {
            true => Some(SparseMap::of_gnu(&headers.header, &mut self.blocks)?),
            false => SparseMap::of_pax(&headers.records, &mut self.blocks)?,
        };
        self.padding = (BLOCK_SIZE as u64 - stored_len % BLOCK_SIZE as u64) % BLOCK_SIZE as u64;
        let Some(SparseMap { extents, size, map_len }) = map else {
            let all = DataExtent { offset: 0, len: stored_len };
            let extents = if stored_len > 0 { vec![all] } else { Vec::new() };
            return headers.member(extents, stored_len, &mut self.owners);
        };
        let data_len = extents.iter().map(|extent| extent.len).sum::<u64>();
        if data_len.checked_add(map_len) != Some(stored_len) {
            let message = "sparse file in the tar archive: its map does not agree with its size";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        self.left = data_len;
        headers.member(extents, size, &mut self.owners)
    }

    /// Reads the next bytes of the data of the current member. Fills `buffer`, unless the data ends
    /// before. Returns the number of bytes.
    ///
    /// # Errors
    ///
    /// Returns any error of the reader, and an error if the archive is truncated.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        self.blocks.read_exact(&mut buffer[..count])?;
        self.left -= count as u64;
        Ok(count)
    }

    /// Reads the stream to its end, behind the archive. Returns `true` if it has only zeros.
    ///
    /// # Errors
    ///
    /// Returns any error of the reader.
    pub(crate) fn drain(&mut self) -> io::Result<bool> {
        self.blocks.drain()
    }
}
