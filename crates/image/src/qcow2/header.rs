//! The header of a qcow2 image.

use crate::bytes::ByteSource;
use crate::detect::Format;
use crate::error::{Error, Kind, Result};

/// The first bytes of a qcow2 image.
pub(crate) const MAGIC: [u8; 4] = *b"QFI\xfb";

/// The length of the header of version 2, in bytes.
const V2_LEN: u32 = 72;
/// The length of the shortest header of version 3, in bytes.
const V3_LEN: u32 = 104;
/// The maximum length of the name of a backing file, in bytes.
const BACKING_NAME_MAX: u32 = 1023;
/// The maximum number of entries of the L1 table, which bounds its memory to 32 MiB. QEMU has the
/// same limit.
const L1_COUNT_MAX: u64 = 4 << 20;
/// The type of the header extension with the format of the backing file.
const BACKING_FORMAT: u32 = 0xe279_2aca;

/// Features that a reader has to know.
mod feature {
    /// The reference counts may be wrong, which no reader uses.
    pub(super) const DIRTY: u64 = 1;
    pub(super) const CORRUPT: u64 = 1 << 1;
    pub(super) const EXTERNAL_DATA: u64 = 1 << 2;
    pub(super) const COMPRESSION_TYPE: u64 = 1 << 3;
    pub(super) const EXTENDED_L2: u64 = 1 << 4;
}

/// The method of compressed clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    /// Deflate without a header.
    Deflate,
    Zstd,
}

/// The backing file as the image names it.
#[derive(Debug)]
pub(crate) struct Backing {
    pub(crate) name: Vec<u8>,
    /// The format, if the image has one that this crate can read.
    pub(crate) format: Option<Format>,
}

/// The header of a qcow2 image.
#[derive(Debug)]
pub(crate) struct Header {
    /// Set for version 3.
    pub(super) is_v3: bool,
    /// The size of the disk in bytes.
    pub(super) size: u64,
    /// The binary logarithm of the size of a cluster in bytes.
    pub(super) cluster_bits: u32,
    pub(super) l1_offset: u64,
    /// The number of entries of the L1 table that the disk needs.
    pub(super) l1_count: usize,
    pub(super) compression: Compression,
    pub(super) has_extended_l2: bool,
    pub(crate) snapshot_count: u32,
    pub(crate) backing: Option<Backing>,
}

impl Header {
    /// Returns the size of a cluster in bytes, at most 2 MiB.
    pub(super) fn cluster_size(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Returns the number of entries of an L2 table.
    pub(super) fn l2_count(&self) -> u64 {
        self.cluster_size() / if self.has_extended_l2 { 16 } else { 8 }
    }

    /// Reads the header of the image `name`.
    ///
    /// # Errors
    ///
    /// Fails with `Corrupt` if a value is out of range, and with `Unsupported` if the image needs a
    /// feature that this crate does not have.
    pub(crate) fn read(name: &str, bytes: &dyn ByteSource) -> Result<Header> {
        HeaderReader { name, bytes }.read()
    }
}

/// The beginning of an image.
struct HeaderReader<'a> {
    name: &'a str,
    bytes: &'a dyn ByteSource,
}

impl HeaderReader<'_> {
    fn corrupt(&self, problem: impl Into<String>) -> Error {
        Error::new(Kind::Corrupt, self.name, problem)
    }

    fn unsupported(&self, problem: impl Into<String>) -> Error {
        Error::new(Kind::Unsupported, self.name, problem)
    }

    fn array<const N: usize>(&self, offset: u64) -> Result<[u8; N]> {
        let mut array = [0; N];
        self.fill(offset, &mut array)?;
        Ok(array)
    }

    fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.bytes.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.corrupt("ends within its header"),
            _ => Error::io(self.name, &error),
        })
    }

    fn u32(&self, offset: u64) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array(offset)?))
    }

    fn u64(&self, offset: u64) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array(offset)?))
    }

    fn read(&self) -> Result<Header> {
        if self.array(0)? != MAGIC {
            return Err(self.corrupt("has no magic number of a qcow2 image"));
        }
        let is_v3 = match self.u32(4)? {
            2 => false,
            3 => true,
            version => return Err(self.unsupported(format!("has version {version} of qcow"))),
        };
        let cluster_bits = self.u32(20)?;
        if !(9..=21).contains(&cluster_bits) {
            let problem = format!("has clusters of 2^{cluster_bits} bytes (expected 2^9 to 2^21)");
            return Err(self.corrupt(problem));
        }
        if self.u32(32)? != 0 {
            return Err(self.unsupported("is encrypted"));
        }
        let features = if is_v3 { self.u64(72)? } else { 0 };
        self.check_features(features)?;
        let header_len = if is_v3 { self.u32(100)? } else { V2_LEN };
        let is_short = is_v3 && header_len < V3_LEN;
        if is_short || !header_len.is_multiple_of(8) || header_len >> cluster_bits > 0 {
            return Err(self.corrupt(format!("has a header of {header_len} bytes")));
        }
        let has_extended_l2 = features & feature::EXTENDED_L2 != 0;
        if has_extended_l2 && cluster_bits < 14 {
            return Err(self.corrupt("has subclusters of less than 512 bytes"));
        }
        let mut header = Header {
            is_v3,
            size: self.u64(24)?,
            cluster_bits,
            l1_offset: self.u64(40)?,
            l1_count: 0,
            compression: self.compression(features, header_len)?,
            has_extended_l2,
            snapshot_count: self.u32(60)?,
            backing: self.backing(cluster_bits, header_len)?,
        };
        header.l1_count = self.l1_count(&header)?;
        Ok(header)
    }

    fn check_features(&self, features: u64) -> Result<()> {
        use feature::{COMPRESSION_TYPE, CORRUPT, DIRTY, EXTENDED_L2, EXTERNAL_DATA};
        if features & CORRUPT != 0 {
            return Err(self.corrupt("is marked as corrupt"));
        }
        if features & EXTERNAL_DATA != 0 {
            return Err(self.unsupported("has its data in another file (external data file)"));
        }
        let unknown = features & !(DIRTY | COMPRESSION_TYPE | EXTENDED_L2);
        if unknown != 0 {
            let number = unknown.trailing_zeros();
            return Err(self.unsupported(format!("needs feature {number}, which is unknown")));
        }
        Ok(())
    }

    fn compression(&self, features: u64, header_len: u32) -> Result<Compression> {
        let code = if header_len > V3_LEN { self.array::<1>(V3_LEN.into())?[0] } else { 0 };
        let is_marked = features & feature::COMPRESSION_TYPE != 0;
        match code {
            0 if !is_marked => Ok(Compression::Deflate),
            1 if is_marked => Ok(Compression::Zstd),
            0 | 1 => Err(self.corrupt("contradicts itself about its compression")),
            _ => Err(self.unsupported(format!("is compressed by method {code}"))),
        }
    }

    /// Returns the number of entries of the L1 table that the disk needs.
    fn l1_count(&self, header: &Header) -> Result<usize> {
        let span = header.l2_count() * header.cluster_size();
        let count = header.size.div_ceil(span);
        let listed = u64::from(self.u32(36)?);
        if header.size > i64::MAX.cast_unsigned() || count > L1_COUNT_MAX {
            let size = header.size;
            return Err(self.corrupt(format!("has a disk of {size} bytes, which is too large")));
        }
        if listed < count {
            let problem = format!("has {listed} entries in its L1 table (expected {count})");
            return Err(self.corrupt(problem));
        }
        let offset = header.l1_offset;
        if count > 0 && (offset == 0 || !offset.is_multiple_of(header.cluster_size())) {
            return Err(self.corrupt(format!("has its L1 table at byte {offset}")));
        }
        usize::try_from(count).map_err(|_| self.corrupt("has an L1 table that is too large"))
    }

    fn backing(&self, cluster_bits: u32, header_len: u32) -> Result<Option<Backing>> {
        let (offset, len) = (self.u64(8)?, self.u32(16)?);
        if offset == 0 {
            return Ok(None);
        }
        let end = offset.checked_add(len.into());
        let fits = end.is_some_and(|end| end <= 1 << cluster_bits);
        if len > BACKING_NAME_MAX || !fits {
            let problem = format!("has the name of its backing file at byte {offset}, {len} bytes");
            return Err(self.corrupt(problem));
        }
        let mut name = vec![0; usize::try_from(len).unwrap_or_default()];
        self.fill(offset, &mut name)?;
        let format = self.backing_format(header_len, offset)?;
        Ok(Some(Backing { name, format }))
    }

    /// Returns the format of the backing file, which is in one of the extensions between the header
    /// and `end`.
    fn backing_format(&self, header_len: u32, end: u64) -> Result<Option<Format>> {
        let mut at = u64::from(header_len);
        while at + 8 <= end {
            let (kind, len) = (self.u32(at)?, u64::from(self.u32(at + 4)?));
            at += 8;
            if kind == 0 {
                break;
            }
            if at + len > end {
                return Err(self.corrupt("has a header extension that is too long"));
            }
            if kind == BACKING_FORMAT {
                let mut format = vec![0; usize::try_from(len).unwrap_or_default()];
                self.fill(at, &mut format)?;
                return match &*format {
                    b"raw" => Ok(Some(Format::Raw)),
                    b"qcow2" => Ok(Some(Format::Qcow2)),
                    // A format that cannot be read is found when the file is opened.
                    _ => Ok(None),
                };
            }
            at += len.next_multiple_of(8);
        }
        Ok(None)
    }
}
