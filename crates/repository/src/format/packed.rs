//! Decoding of fixed-width records and packed numbers from untrusted bytes.

use cutpoint_storage::{Error, Result};

/// Takes values from the front of a slice, with bounds checks.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str) -> Reader<'a> {
        Reader { bytes, what }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self
            .bytes
            .split_first_chunk::<N>()
            .ok_or_else(|| Error::corrupt("", format!("{}: ends too early", self.what)))?;
        self.bytes = rest;
        Ok(*first)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (first, rest) = self
            .bytes
            .split_at_checked(len)
            .ok_or_else(|| Error::corrupt("", format!("{}: ends too early", self.what)))?;
        self.bytes = rest;
        Ok(first)
    }

    /// Returns the capacity to reserve for `count` records of at least `record_len` bytes, which
    /// never exceeds what the remaining bytes can hold, whatever a count claims.
    pub(crate) fn capacity(&self, count: usize, record_len: usize) -> usize {
        count.min(self.bytes.len() / record_len.max(1))
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Appends a number of items, in 4 bytes.
///
/// # Panics
///
/// Panics if there are 2^32 items or more. Each takes several bytes, and the maximum length of an
/// object is 160 MiB.
pub(super) fn push_count(out: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("bounded by the maximum length of an object");
    out.extend_from_slice(&count.to_le_bytes());
}

/// Appends `value` as LEB128.
pub(crate) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Takes one LEB128 number from the front of `bytes`; only the shortest form is accepted.
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Result<u64> {
    let bad = |what: &str| Error::corrupt("", format!("malformed number: {what}"));
    let mut value = 0_u64;
    for index in 0..10 {
        let (&byte, rest) = bytes.split_first().ok_or_else(|| bad("ends too early"))?;
        *bytes = rest;
        // The tenth byte has room for one bit.
        if index == 9 && byte > 1 {
            return Err(bad("above 64 bits"));
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            if byte == 0 && index > 0 {
                return Err(bad("leading zeros"));
            }
            return Ok(value);
        }
    }
    Err(bad("above 64 bits"))
}
