//! The blocks of a tar archive.

use std::io::{self, Read};

use tar::Header;

/// The size of a block in bytes.
pub(super) const BLOCK_SIZE: usize = 512;
/// The range of the checksum in a header.
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// A stream of blocks.
#[derive(Debug)]
pub(super) struct Blocks<R> {
    reader: R,
    /// The number of bytes read.
    position: u64,
}

impl<R: Read> Blocks<R> {
    pub(super) fn new(reader: R) -> Blocks<R> {
        Blocks { reader, position: 0 }
    }

    /// Reads bytes until `buffer` is full or the stream ends. Returns their number.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.position += filled as u64;
        Ok(filled)
    }

    /// Fills `buffer`.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream ends before.
    pub(super) fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        match self.fill(buffer)? == buffer.len() {
            true => Ok(()),
            false => Err(self.truncated()),
        }
    }

    fn truncated(&self) -> io::Error {
        let message = format!("the tar archive is truncated: it ends at byte {}", self.position);
        io::Error::new(io::ErrorKind::UnexpectedEof, message)
    }

    /// Reads the next header; `None` at the block of zeros that ends the archive.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream ends without such a block, or if the block is no header.
    pub(super) fn header(&mut self) -> io::Result<Option<Header>> {
        let at = self.position;
        let mut header = Header::new_old();
        self.read_exact(header.as_mut_bytes())?;
        let bytes = header.as_bytes();
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let sums =
            bytes.iter().enumerate().fold((0_u32, 0_i64), |(unsigned, signed), (n, byte)| {
                let byte = if CHECKSUM.contains(&n) { b' ' } else { *byte };
                (unsigned + u32::from(byte), signed + i64::from(byte.cast_signed()))
            });
        let expected = header.cksum().ok();
        // Some old programs have added signed bytes.
        if expected != Some(sums.0) && expected.map(i64::from) != Some(sums.1) {
            return Err(no_header(at, bytes));
        }
        Ok(Some(header))
    }

    /// Reads `len` bytes and the padding behind them into memory, of which there are at most
    /// `len_max`.
    pub(super) fn extended_header(&mut self, len: u64, len_max: u64) -> io::Result<Vec<u8>> {
        if len > len_max {
            let message =
                format!("extended tar header of {len} bytes (expected {len_max} at most)");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let mut bytes = Vec::new();
        let mut left = len;
        while left > 0 {
            let mut block = [0; BLOCK_SIZE];
            self.read_exact(&mut block)?;
            let count = usize::try_from(left).unwrap_or(BLOCK_SIZE).min(BLOCK_SIZE);
            bytes.extend_from_slice(&block[..count]);
            left -= count as u64;
        }
        Ok(bytes)
    }

    /// Reads and drops `len` bytes.
    pub(super) fn skip(&mut self, mut len: u64) -> io::Result<()> {
        let mut buffer = [0; 16 * BLOCK_SIZE];
        while len > 0 {
            let count = usize::try_from(len).unwrap_or(usize::MAX).min(buffer.len());
            self.read_exact(&mut buffer[..count])?;
            len -= count as u64;
        }
        Ok(())
    }

    /// Reads the stream to its end. Returns `true` if it has only zeros.
    pub(super) fn drain(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 16 * BLOCK_SIZE];
        let mut is_zero = true;
        loop {
            let count = self.fill(&mut buffer)?;
            is_zero &= buffer[..count].iter().all(|&byte| byte == 0);
            if count < buffer.len() {
                return Ok(is_zero);
            }
        }
    }
}

/// Returns the error for a block that is no header. At the start of a stream, names what it may be
/// instead.
fn no_header(at: u64, bytes: &[u8]) -> io::Error {
    let compressed = [
        (&b"\x1f\x8b"[..], "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\xfd7zXZ\0", "xz"),
        (b"BZh", "bzip2"),
    ];
    let found = compressed.iter().find(|(magic, _)| at == 0 && bytes.starts_with(magic));
    let message = match found {
        Some((_, name)) => {
            format!("compressed by {name} (expected a plain tar archive: decompress it in a pipe)")
        }
        None => format!("no tar header at byte {at}: its checksum is wrong"),
    };
    io::Error::new(io::ErrorKind::InvalidData, message)
}
