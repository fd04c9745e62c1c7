//! The CRC-32 of a window, rolled with two tables as usual.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let (bits, window) = (keys.size("bits"), keys.size("window"));
    let min = keys.optional_size("min").unwrap_or(1).max(window);
    let max = keys.optional_size("max").unwrap_or(usize::MAX);
    let is_before = keys.text("cut") == Some("before");
    let mask = (1_u32 << bits) - 1;
    // The contributions of a byte to the register when it enters and when it leaves the window.
    let coming = bytes().map(|byte| register(&[byte]));
    let leaving = bytes().map(|byte| {
        let mut bytes = vec![0; window];
        bytes[0] = byte;
        register(&bytes)
    });
    let push = |register: u32, byte: u8| {
        register >> 8 ^ coming[usize::from(register.to_le_bytes()[0] ^ byte)]
    };
    chunk_by_chunk(data, |data| {
        let n = data.len().min(max);
        if n <= min {
            return n;
        }
        let behind = usize::from(is_before);
        let mut register = 0;
        for &byte in &data[min + behind - window..min + behind - 1] {
            register = push(register, byte);
        }
        for size in min..n {
            let end = size + behind;
            register = push(register, data[end - 1]);
            if register & mask == 0 {
                return size;
            }
            register ^= leaving[usize::from(data[end - window])];
        }
        n
    })
}

/// Returns all values of a byte, in order.
fn bytes() -> [u8; 256] {
    let mut bytes = [0; 256];
    (0..=255).zip(&mut bytes).for_each(|(value, byte)| *byte = value);
    bytes
}

/// Computes the register after the bytes, bit by bit. The register begins at 0 and is not inverted.
fn register(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |register, &byte| {
        (0..8).fold(register ^ u32::from(byte), |register, _| {
            if register & 1 == 1 { register >> 1 ^ 0xedb8_8320 } else { register >> 1 }
        })
    })
}
