//! Reads of integers from bytes that may be anything.

/// The rest of an input. Every read returns `None` at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    /// Returns the next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// Returns the next bytes as an array.
    pub(crate) fn array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        self.take(LEN)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        Some(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Returns a number of variable length, which must have no more bytes than it needs.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 127);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte < 128 {
                return (byte != 0 || shift == 0).then_some(number);
            }
        }
        None
    }

    /// Returns text that has its length before it, a number of variable length.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let len = usize::try_from(self.varint()?).ok()?;
        std::str::from_utf8(self.take(len)?).ok()
    }

    /// Skips `len` bytes, which must be zero.
    pub(crate) fn zeros(&mut self, len: usize) -> Option<()> {
        self.take(len)?.iter().all(|byte| *byte == 0).then_some(())
    }
}

/// Appends a number, 7 bits a byte from the lowest on. The highest bit of a byte tells that another one
/// follows.
pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 127 {
        bytes.push(number.to_le_bytes()[0] | 128);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

/// Appends text with its length before it.
pub(crate) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_varint(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_variable_length_survives_and_has_one_form() {
        for number in [0, 1, 127, 128, 16383, 16384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            let mut rest = Cursor(&bytes);
            assert_eq!(rest.varint(), Some(number));
            assert!(rest.0.is_empty(), "{number}");
            assert_eq!(Cursor(&bytes[..bytes.len() - 1]).varint(), None, "{number} cut");
        }
        assert_eq!(Cursor(&[128, 0]).varint(), None, "a byte too many");
        assert_eq!(Cursor(&[255; 10]).varint(), None, "more than 64 bits");
    }
}
