//! Rabin's fingerprint of a window, rolled with two tables as usual.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (bits, window) = (keys.size("bits"), keys.size("window"));
    let tables = Tables::new(polynomial(keys), window);
    let is_one = keys.text("start") == Some("one");
    let min = keys.optional_size("min").unwrap_or(1);
    let max = keys.optional_size("max").unwrap_or(usize::MAX);
    let mask = (1_u64 << bits) - 1;
    chunk_by_chunk(data, |data| {
        let n = data.len().min(max);
        let least = if is_one { min } else { min.max(window) };
        if n <= least {
            return n;
        }
        let mut rolling = Rolling::new(&tables, u8::from(is_one));
        for &byte in &data[least.saturating_sub(window)..least - 1] {
            rolling.push(byte);
        }
        for size in least..n {
            if rolling.push(data[size - 1]) & mask == 0 {
                return size;
            }
        }
        n
    })
}

pub(crate) fn polynomial(keys: &Keys<'_>) -> u64 {
    let text = keys.text("poly").unwrap_or("0x3da3358b4dc173");
    u64::from_str_radix(&text[2..], 16).expect("hexadecimal")
}

/// The tables of a polynomial for windows of one size.
pub(crate) struct Tables {
    degree: u32,
    window: usize,
    /// The residues of the bits above the degree.
    reduced: [u64; 256],
    /// The contribution of a byte to the fingerprint when it is the oldest of the window.
    leaving: [u64; 256],
}

impl Tables {
    pub(crate) fn new(polynomial: u64, window: usize) -> Tables {
        let degree = polynomial.ilog2();
        // The product of a polynomial and a power of x, modulo the polynomial of the tables.
        let shifted = |value: usize, count: usize| {
            (0..count).fold(value as u64, |value, _| {
                let value = value << 1;
                if value >> degree & 1 == 1 { value ^ polynomial } else { value }
            })
        };
        Tables {
            degree,
            window,
            reduced: std::array::from_fn(|value| shifted(value, degree as usize)),
            leaving: std::array::from_fn(|value| shifted(value, 8 * (window - 1))),
        }
    }
}

/// The fingerprint of a moving window, which begins with zeros and one given byte after them.
pub(crate) struct Rolling<'a> {
    tables: &'a Tables,
    ring: Vec<u8>,
    oldest: usize,
    hash: u64,
}

impl<'a> Rolling<'a> {
    pub(crate) fn new(tables: &'a Tables, front: u8) -> Rolling<'a> {
        let mut ring = vec![0; tables.window];
        ring[tables.window - 1] = front;
        Rolling { tables, ring, oldest: 0, hash: u64::from(front) }
    }

    /// Moves the window by a byte, and returns the fingerprint of the window.
    pub(crate) fn push(&mut self, byte: u8) -> u64 {
        let Tables { degree, reduced, leaving, .. } = self.tables;
        let rest = self.hash ^ leaving[usize::from(self.ring[self.oldest])];
        let above = usize::from((rest >> (degree - 8)).to_le_bytes()[0]);
        let low = rest << 8 & ((1 << degree) - 1);
        self.hash = (low | u64::from(byte)) ^ reduced[above];
        self.ring[self.oldest] = byte;
        self.oldest = if self.oldest + 1 == self.ring.len() { 0 } else { self.oldest + 1 };
        self.hash
    }
}
