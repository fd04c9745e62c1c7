//! SS-CDC: finds all candidates by a rolling hash in lanes, and then the cut-points among them.

use cutpoint_chunking::Spec;

use crate::BaselineError;
use crate::extreme::scan;
use crate::keys::Keys;
use crate::vector::{STRIDE_MAX, Table, Task, Vector};

/// A rolling hash of a window of bytes, of 32 bits.
pub(crate) trait Hash {
    /// Returns the size of the window in bytes.
    fn window(&self) -> usize;

    /// Returns the mask of the bits that are zero at a candidate.
    fn mask(&self) -> u32;

    /// Returns the hashes after one more byte, the lowest of each word of `bytes`.
    fn push<V: Vector>(&self, vector: V, hashes: V::Register, bytes: V::Register) -> V::Register;

    /// Returns the hashes of full windows without their first bytes, the lowest of each word of
    /// `bytes`.
    fn pull<V: Vector>(&self, vector: V, hashes: V::Register, bytes: V::Register) -> V::Register;

    /// Set if [`Hash::pull`] is needed. Otherwise bytes leave the hash by themselves.
    const PULLS: bool;

    /// Returns one hash after one more byte.
    fn push_one(&self, hash: u32, byte: u8) -> u32;

    /// Returns one hash of a full window without its first byte.
    fn pull_one(&self, hash: u32, byte: u8) -> u32;
}

/// The CRC-32 of a window.
pub(crate) struct Crc {
    window: usize,
    mask: u32,
    enter: Box<Table>,
    leave: Box<Table>,
}

impl Hash for Crc {
    fn window(&self) -> usize {
        self.window
    }

    fn mask(&self) -> u32 {
        self.mask
    }

    #[inline(always)]
    fn push<V: Vector>(&self, vector: V, hashes: V::Register, bytes: V::Register) -> V::Register {
        let entries = vector.look_up(&self.enter, vector.xor(hashes, bytes));
        vector.xor(vector.next_byte(hashes), entries)
    }

    #[inline(always)]
    fn pull<V: Vector>(&self, vector: V, hashes: V::Register, bytes: V::Register) -> V::Register {
        vector.xor(hashes, vector.look_up(&self.leave, bytes))
    }

    const PULLS: bool = true;

    #[inline(always)]
    fn push_one(&self, hash: u32, byte: u8) -> u32 {
        hash >> 8 ^ self.enter[usize::from(hash.to_le_bytes()[0] ^ byte)]
    }

    #[inline(always)]
    fn pull_one(&self, hash: u32, byte: u8) -> u32 {
        hash ^ self.leave[usize::from(byte)]
    }
}

/// The gear hash with 32 bits, whose window has 32 bytes.
pub(crate) struct Gear {
    mask: u32,
    table: Box<Table>,
}

impl Hash for Gear {
    fn window(&self) -> usize {
        32
    }

    fn mask(&self) -> u32 {
        self.mask
    }

    #[inline(always)]
    fn push<V: Vector>(&self, vector: V, hashes: V::Register, bytes: V::Register) -> V::Register {
        vector.add(vector.double(hashes), vector.look_up(&self.table, bytes))
    }

    #[inline(always)]
    fn pull<V: Vector>(&self, _: V, hashes: V::Register, _: V::Register) -> V::Register {
        hashes
    }

    const PULLS: bool = false;

    #[inline(always)]
    fn push_one(&self, hash: u32, byte: u8) -> u32 {
        (hash << 1).wrapping_add(self.table[usize::from(byte)])
    }

    #[inline(always)]
    fn pull_one(&self, hash: u32, _: u8) -> u32 {
        hash
    }
}

/// A hash with the limits of chunk sizes.
pub(crate) struct SsCdc<H> {
    hash: H,
    /// The index in a chunk of the first byte that may be a candidate.
    first: usize,
    /// The distance in bytes from a candidate to the cut-point.
    step: usize,
    chunk_size_max: Option<usize>,
    /// A bit for each byte of the data, set if the byte is a candidate by the hash of the window
    /// that ends with it.
    bitmap: Vec<u8>,
}

impl SsCdc<Crc> {
    pub(crate) fn crc(spec: &Spec) -> Result<SsCdc<Crc>, BaselineError> {
        let keys = Keys::new(spec, &["bits", "window", "cut", "min", "max"])?;
        let window = keys.number("window")?;
        let mut enter = Box::new([0; 256]);
        for (value, entry) in (0..).zip(enter.iter_mut()) {
            *entry = (0..8).fold(value, |register, _| {
                register >> 1 ^ if register & 1 == 1 { 0xedb8_8320 } else { 0 }
            });
        }
        // The contribution of a byte to the hash when it is the first byte of the window.
        let mut hash =
            Crc { window, mask: (1 << keys.number("bits")?) - 1, enter, leave: Box::new([0; 256]) };
        for byte in 0..=255 {
            let entered = hash.push_one(0, byte);
            let left = (1..window).fold(entered, |left, _| hash.push_one(left, 0));
            hash.leave[usize::from(byte)] = left;
        }
        let min = keys.optional("min")?.unwrap_or(1).max(window);
        SsCdc::new(hash, min, &keys)
    }
}

impl SsCdc<Gear> {
    pub(crate) fn gear(spec: &Spec) -> Result<SsCdc<Gear>, BaselineError> {
        let keys = Keys::new(spec, &["bits", "table", "start", "cut", "min", "max"])?;
        if !keys.is("table", "cutpoint32") {
            return Err(keys.refused("its hash has 32 bits, and the table is cutpoint32"));
        }
        let mut bytes = [0; 2048];
        let mut label = blake3::Hasher::new();
        label.update(b"cutpoint gear v1").finalize_xof().fill(&mut bytes);
        let mut table = Box::new([0; 256]);
        for (entry, bytes) in table.iter_mut().zip(bytes.as_chunks::<8>().0) {
            let [low @ .., _, _, _, _] = *bytes;
            *entry = u32::from_le_bytes(low);
        }
        let hash = Gear { mask: !(u32::MAX >> keys.number("bits")?), table };
        let cutter = SsCdc::new(hash, keys.optional("min")?.unwrap_or(1), &keys)?;
        // The hash in phase 1 does not depend on the start of a chunk.
        let is_full_at_first = cutter.first + 1 >= cutter.hash.window();
        if !keys.is("start", "carry") && (keys.given("start").is_some() || !is_full_at_first) {
            let reason = "hashes are those of full windows: start=carry, or start=warm and min=32";
            return Err(keys.refused(reason));
        }
        Ok(cutter)
    }
}

impl<H: Hash> SsCdc<H> {
    fn new(hash: H, min: usize, keys: &Keys) -> Result<SsCdc<H>, BaselineError> {
        let (step, chunk_size_max) = (keys.step(), keys.optional("max")?);
        Ok(SsCdc { hash, first: min - step, step, chunk_size_max, bitmap: Vec::new() })
    }

    /// Phase 1: marks every byte of `data` whose hash is a candidate.
    #[inline(always)]
    fn mark<V: Vector>(&mut self, vector: V, data: &[u8]) {
        self.bitmap.clear();
        self.bitmap.resize(data.len().div_ceil(8), 0);
        // Lanes begin at full words of the bitmap, with a window before them.
        let mut begin = (self.hash.window() - 1).next_multiple_of(32).min(data.len());
        self.mark_one_by_one(data, 0, begin);
        loop {
            let stride = stride((data.len() - begin) / V::LANES);
            if stride == 0 {
                break;
            }
            self.mark_lanes(vector, data, begin, stride);
            begin += V::LANES * stride;
        }
        self.mark_one_by_one(data, begin, data.len());
    }

    /// Marks the bytes `begin` to `end - 1`, one by one. Marks before the first full window count
    /// for Gear. For the CRC they are never read, because the window is its minimum chunk size.
    fn mark_one_by_one(&mut self, data: &[u8], begin: usize, end: usize) {
        let before = self.hash.window() - 1;
        let mut hash = 0;
        for &byte in &data[begin.saturating_sub(before)..begin] {
            hash = self.hash.push_one(hash, byte);
        }
        for at in begin..end {
            hash = self.hash.push_one(hash, data[at]);
            if hash & self.hash.mask() == 0 {
                self.bitmap[at / 8] |= 1 << (at % 8);
            }
            if at >= before {
                hash = self.hash.pull_one(hash, data[at - before]);
            }
        }
    }

    /// Marks one segment of `stride` bytes per lane, from `begin` on, all segments at once.
    #[inline(always)]
    fn mark_lanes<V: Vector>(&mut self, vector: V, data: &[u8], begin: usize, stride: usize) {
        let before = self.hash.window() - 1;
        let mask = vector.splat_word(self.hash.mask());
        let mut hashes = vector.splat_word(0);
        for offset in (0..before).step_by(4) {
            let mut entering = vector.gather(data, begin - before + offset, stride);
            for _ in 0..4.min(before - offset) {
                hashes = self.hash.push(vector, hashes, entering);
                entering = vector.next_byte(entering);
            }
        }
        for word in (0..stride).step_by(32) {
            let (mut marks, mut bit) = (vector.splat_word(0), vector.splat_word(1));
            for offset in (word..word + 32).step_by(4) {
                let mut entering = vector.gather(data, begin + offset, stride);
                let mut leaving = vector.splat_word(0);
                if H::PULLS {
                    leaving = vector.gather(data, begin - before + offset, stride);
                }
                for _ in 0..4 {
                    hashes = self.hash.push(vector, hashes, entering);
                    marks = vector.mark_zeros(marks, hashes, mask, bit);
                    hashes = self.hash.pull(vector, hashes, leaving);
                    entering = vector.next_byte(entering);
                    leaving = vector.next_byte(leaving);
                    bit = vector.double(bit);
                }
            }
            if vector.greater(marks, vector.splat(0)) != 0 {
                let marks = vector.store(marks);
                let words = marks.as_chunks::<4>().0[..V::LANES].iter().enumerate();
                for (lane, marks) in words {
                    let index = (begin + lane * stride + word) / 32;
                    self.bitmap.as_chunks_mut().0[index] = *marks;
                }
            }
        }
    }

    /// Phase 2: returns the cut-points of the first `len` bytes, by their marks.
    #[inline(always)]
    fn walk<V: Vector>(&self, vector: V, len: usize) -> Vec<usize> {
        let mut ends = Vec::new();
        let mut start = 0;
        while start < len {
            let end = len.min(start.saturating_add(self.chunk_size_max.unwrap_or(usize::MAX)));
            let found = self.next_mark(vector, start + self.first, end);
            start = found.map_or(end, |at| at + self.step);
            ends.push(start);
        }
        ends
    }

    /// Returns the first marked byte from `from` on and before `end`.
    #[inline(always)]
    fn next_mark<V: Vector>(&self, vector: V, from: usize, end: usize) -> Option<usize> {
        if from >= end {
            return None;
        }
        let marks = self.bitmap[from / 8] >> (from % 8);
        if marks != 0 {
            let at = from + marks.trailing_zeros() as usize;
            return (at < end).then_some(at);
        }
        let next = from / 8 + 1;
        let rest = &self.bitmap[next..end.div_ceil(8)];
        let index = next + scan::<V, false, false>(vector, rest, 0)?;
        let at = 8 * index + self.bitmap[index].trailing_zeros() as usize;
        (at < end).then_some(at)
    }
}

/// Returns the distance between lanes for at most this number of bytes per lane, or 0 if there are
/// too few bytes. The distance is an odd number of cache lines, because with a power of two all
/// lanes would be in the same set of the cache.
fn stride(bytes_per_lane: usize) -> usize {
    let lines = bytes_per_lane.min(STRIDE_MAX) / 64;
    64 * (2 * lines.div_ceil(2)).saturating_sub(1)
}

/// The task of cutting all of `data`.
pub(crate) struct Cuts<'a, H> {
    pub(crate) cutter: &'a mut SsCdc<H>,
    pub(crate) data: &'a [u8],
}

impl<H: Hash> Task for Cuts<'_, H> {
    type Output = Vec<usize>;

    #[inline(always)]
    fn run<V: Vector>(self, vector: V) -> Vec<usize> {
        let Cuts { cutter, data } = self;
        cutter.mark(vector, data);
        cutter.walk(vector, data.len())
    }
}
