//! Traces of `fs-hasher`, versions 1 to 7, as published by the File systems and Storage Lab at
//! Stony Brook (`hf-stat` prints them).
//!
//! Numbers are little-endian, and fields follow each other without gaps:
//!
//! ```text
//! header   magic 4, version 4, number of files 8, root path 4096, number of chunks 8,
//!          method of chunking 4 (1 fixed, 2 variable), its parameters 44 (fixed: the size 4),
//!          method of hashing 4, length of a hash in bits 4;
//!          from version 3: system 4096, begin 8, end 8;  from version 5: number of bytes 8
//! file     version 1:   path 4096, size 8, number of chunks 8
//!          2 and 3:     size 8, number of chunks 8, length of the path 4, path
//!          4:           size 8, owner 4, group 4, mode 8, 3 timestamps 24, links 8, device 8, inode 8,
//!                       number of chunks 8, lengths of path and of link target 4 each, path, target
//!          from 5:      as 4, with the number of blocks, 8, after the size
//! chunk    size, if sizes vary: 8 in versions 3 to 6, 4 in version 7;
//!          hash;  from version 6: compression ratio 1
//! ```
//!
//! Source: the description in `libhashfile.h` of fs-hasher 0.9.5 (GPL), from which nothing was
//! copied. With a fixed chunk size, only the last chunk of a file may be smaller, and its size is
//! the rest of the file.

use std::io::{self, Read};

use cutpoint_estimate::FINGERPRINT_LEN;

use super::{Row, malformed};

/// The magic number of `fs-hasher`, `0xDEADDEAD`.
pub(super) const MAGIC: [u8; 4] = 0xdead_dead_u32.to_le_bytes();

const PATH_LEN: u64 = 4096;
/// The length of the parameters of the chunking method in bytes: that of the longest set.
const PARAMETERS_LEN: u64 = 44;
const FIXED: u32 = 1;
const VARIABLE: u32 = 2;
/// The maximum length of a hash in bytes: that of SHA-256.
const HASH_LEN_MAX: u32 = 32;
/// The maximum length of a path in bytes.
const PATH_LEN_MAX: u32 = 1 << 16;

pub(super) fn read(
    input: &mut dyn Read,
    on_row: &mut dyn FnMut(Row) -> io::Result<()>,
) -> io::Result<()> {
    let mut input = Fields { input, offset: 0 };
    let header = Header::read(&mut input)?;
    for path_id in 0..header.file_count {
        header.read_file(path_id, &mut input, on_row)?;
    }
    Ok(())
}

/// A reader of consecutive fields.
struct Fields<'a> {
    input: &'a mut dyn Read,
    offset: u64,
}

impl Fields<'_> {
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.input.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                malformed(format!("truncated trace of fs-hasher (ends after byte {})", self.offset))
            }
            _ => error,
        })?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn u32(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn skip(&mut self, mut count: u64) -> io::Result<()> {
        let mut bytes = [0; 4096];
        while count > 0 {
            let some = usize::try_from(count).unwrap_or(usize::MAX).min(bytes.len());
            self.fill(&mut bytes[..some])?;
            count -= some as u64;
        }
        Ok(())
    }

    fn path_len(&mut self) -> io::Result<u64> {
        match self.u32()? {
            len if len <= PATH_LEN_MAX => Ok(len.into()),
            len => Err(malformed(format!("a path of {len} bytes at byte {}", self.offset))),
        }
    }
}

struct Header {
    version: u32,
    file_count: u64,
    /// The size of all chunks of a file except the last, or `None` if sizes vary.
    fixed_size: Option<u64>,
    hash_len: usize,
}

impl Header {
    fn read(input: &mut Fields<'_>) -> io::Result<Header> {
        input.skip(MAGIC.len() as u64)?;
        let version = input.u32()?;
        if !(1..=7).contains(&version) {
            return Err(malformed(format!(
                "trace of fs-hasher: unknown version (expected 1 to 7, found {version})"
            )));
        }
        let file_count = input.u64()?;
        input.skip(PATH_LEN + 8)?;
        let method = input.u32()?;
        let parameter = input.u32()?;
        input.skip(PARAMETERS_LEN - 4)?;
        let fixed_size = match method {
            FIXED if parameter > 0 => Some(parameter.into()),
            VARIABLE if version >= 3 => None,
            VARIABLE => {
                return Err(malformed(format!(
                    "trace of fs-hasher, version {version}: no sizes of chunks"
                )));
            }
            _ => return Err(malformed(format!("method of chunking {method}, size {parameter}"))),
        };
        input.skip(4)?;
        let hash_bits = input.u32()?;
        if hash_bits == 0 || hash_bits % 8 > 0 || hash_bits / 8 > HASH_LEN_MAX {
            return Err(malformed(format!("hashes of {hash_bits} bits")));
        }
        if version >= 3 {
            input.skip(PATH_LEN + 16)?;
        }
        if version >= 5 {
            input.skip(8)?;
        }
        let hash_len = (hash_bits / 8) as usize;
        Ok(Header { version, file_count, fixed_size, hash_len })
    }

    fn read_file(
        &self,
        path_id: u64,
        input: &mut Fields<'_>,
        on_row: &mut dyn FnMut(Row) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.version == 1 {
            input.skip(PATH_LEN)?;
        }
        let size = input.u64()?;
        let chunk_count = match self.version {
            1 => input.u64()?,
            2 | 3 => {
                let count = input.u64()?;
                let path_len = input.path_len()?;
                input.skip(path_len)?;
                count
            }
            version => {
                let blocks = if version >= 5 { 8 } else { 0 };
                input.skip(blocks + 4 + 4 + 7 * 8)?;
                let count = input.u64()?;
                let paths_len = input.path_len()? + input.path_len()?;
                input.skip(paths_len)?;
                count
            }
        };
        let mut offset: u64 = 0;
        for number in 1..=chunk_count {
            let length = match self.fixed_size {
                Some(fixed) if number < chunk_count => fixed,
                Some(fixed) => fixed.min(size.saturating_sub(offset)),
                None if self.version >= 7 => input.u32()?.into(),
                None => input.u64()?,
            };
            let mut hash = [0; HASH_LEN_MAX as usize];
            input.fill(&mut hash[..self.hash_len])?;
            if self.version >= 6 {
                input.skip(1)?;
            }
            let mut fingerprint = [0; FINGERPRINT_LEN];
            fingerprint.copy_from_slice(&hash[..FINGERPRINT_LEN]);
            let flags = if number == chunk_count { Row::LAST } else { 0 };
            on_row(Row { path_id, offset, length, fingerprint, flags })?;
            offset = offset.checked_add(length).ok_or_else(|| {
                malformed(format!("chunks beyond 2^64 bytes at byte {}", input.offset))
            })?;
        }
        Ok(())
    }
}
