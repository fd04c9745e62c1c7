//! Reading fixed-width records from untrusted bytes.

use crate::error::{Error, Result};

/// Takes values from the front of a slice; every take is checked.
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

    /// The capacity to reserve for `count` records of at least `record_len` bytes: never more than
    /// what is there can hold, whatever a count claims.
    pub(crate) fn capacity(&self, count: usize, record_len: usize) -> usize {
        count.min(self.bytes.len() / record_len.max(1))
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}
