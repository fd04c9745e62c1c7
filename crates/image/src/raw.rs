//! Raw images: the bytes of the disk, with holes.

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::bytes::{ByteSource, FileBytes};
use crate::error::{Error, Kind, Result};
use crate::image::{Extent, Image};

/// A raw image in a file, or a block device.
#[derive(Debug)]
pub(crate) struct RawImage {
    pub(crate) name: String,
    pub(crate) bytes: FileBytes,
}

impl Image for RawImage {
    fn size(&self) -> u64 {
        self.bytes.size
    }

    fn extent(&mut self, offset: u64) -> Result<Extent> {
        let (file, end) = (&self.bytes.file, self.bytes.size);
        let failed = |errno: Errno| Error::io(&self.name, &errno.into());
        let rest = end - offset;
        match rustix::fs::seek(file, SeekFrom::Data(offset)) {
            Ok(data) if data > offset => {
                return Ok(Extent { len: data.min(end) - offset, is_zero: true });
            }
            Ok(_) => {}
            Err(Errno::NXIO) => return Ok(Extent { len: rest, is_zero: true }),
            // A block device, or a file system without the query.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => {
                return Ok(Extent { len: rest, is_zero: false });
            }
            Err(errno) => return Err(failed(errno)),
        }
        let hole = rustix::fs::seek(file, SeekFrom::Hole(offset)).map_err(failed)?;
        // A file that is written meanwhile can yield any answer.
        let hole = if hole > offset { hole.min(end) } else { end };
        Ok(Extent { len: hole - offset, is_zero: false })
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.bytes.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                let problem = format!("ends before byte {}", offset + buffer.len() as u64);
                Error::new(Kind::Corrupt, &self.name, problem)
            }
            _ => Error::new(Kind::Io, &self.name, format!("at byte {offset}: {error}")),
        })
    }
}
