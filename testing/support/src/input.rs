//! The inputs of the cut-point lists in `vectors/oracle`, made from their recipes.
//!
//! There are two sets, from two sources of lists. `vectors/oracle/README.md` has the recipes in
//! words. The SHA-256 sums that were published with the lists are checked in `tests/input.rs`.

use crate::SplitMix64;

/// The names of the inputs for [`by_name`].
pub const NAMES: [&str; 15] = [
    "rand", "text", "zeros", "period", "saw", "mixed", "edge32", "edge48", "edge64", "rand2m",
    "text2m", "lowent1m", "period1m", "ramps1m", "edits2m",
];

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Returns the input called `name`, or `None` if there is none.
pub fn by_name(name: &str) -> Option<Vec<u8>> {
    Some(match name {
        "rand" => SplitMix64::bytes(1, 4 * MIB),
        "text" => text(3 * MIB),
        "zeros" => vec![0; MIB],
        "period" => repeated(&SplitMix64::bytes(4, 977), MIB),
        "saw" => saw(256 * KIB),
        "mixed" => mixed(),
        "edge32" => edge(32),
        "edge48" => edge(48),
        "edge64" => edge(64),
        "rand2m" => SplitMix64::bytes(1, 2 * MIB),
        "text2m" => text2m(),
        "lowent1m" => lowent1m(),
        "period1m" => period1m(),
        "ramps1m" => ramps1m(),
        "edits2m" => edits2m(),
        _ => return None,
    })
}

/// Returns `pattern` repeated, cut off at `size` bytes.
pub fn repeated(pattern: &[u8], size: usize) -> Vec<u8> {
    pattern.iter().copied().cycle().take(size).collect()
}

/// Returns `size` bytes that count up from 0 and start again after 255.
pub fn saw(size: usize) -> Vec<u8> {
    (0..=255).cycle().take(size).collect()
}

/// Returns `size` bytes of random words, from a list of 4096 of which the first are far more
/// frequent.
pub fn text(size: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(2);
    let words: Vec<Vec<u8>> = (0..4096)
        .map(|_| {
            let r = random.next();
            (0..2 + r % 9).map(|j| letter((r >> (8 + 5 * j)) & 31)).collect()
        })
        .collect();
    let mut random = SplitMix64::new(3);
    let mut text = Vec::with_capacity(size + 16);
    while text.len() < size {
        let r = random.next();
        let u = r & 0xffff_ffff;
        let cube = (((u * u) >> 32) * u) >> 32;
        text.extend_from_slice(&words[index(cube >> 20)]);
        text.extend_from_slice(match (r >> 32) % 32 {
            0 => b".\n",
            1 => b", ",
            2 => b"\n",
            _ => b" ",
        });
    }
    text.truncate(size);
    text
}

fn mixed() -> Vec<u8> {
    let noise = SplitMix64::bytes(5, 400_000);
    let mut data = noise.clone();
    data.resize(data.len() + 200_003, 0);
    data.extend(text(500_000));
    data.resize(data.len() + 65_536, 0xff);
    data.extend(&noise[7..]);
    data.extend(saw(100_000));
    let rest = 2 * MIB - data.len();
    data.extend(SplitMix64::bytes(6, rest));
    data
}

/// Returns a window of `window_size` bytes without a zero, then zeros, then noise.
fn edge(window_size: usize) -> Vec<u8> {
    let mut data: Vec<u8> =
        SplitMix64::bytes(7, window_size).into_iter().map(|byte| byte.max(1)).collect();
    data.resize(window_size + 8000, 0);
    data.extend(SplitMix64::bytes(8, 8192));
    data
}

fn text2m() -> Vec<u8> {
    let mut random = SplitMix64::new(2);
    let words: Vec<Vec<u8>> = (0..512)
        .map(|_| {
            let size = 2 + random.next() % 9;
            (0..size).map(|_| letter(random.next())).collect()
        })
        .collect();
    let mut text = Vec::with_capacity(2 * MIB + 16);
    while text.len() < 2 * MIB {
        let (a, b) = (random.below(512), random.below(512));
        text.extend_from_slice(&words[a.min(b)]);
        text.extend_from_slice(if random.next().is_multiple_of(12) { b".\n" } else { b" " });
    }
    text.truncate(2 * MIB);
    text
}

fn lowent1m() -> Vec<u8> {
    let mut random = SplitMix64::new(3);
    let mut data = vec![0; 256 * KIB];
    data.extend((0..256 * KIB).map(|_| {
        let [low, high, ..] = random.next().to_le_bytes();
        if low == 0 { high } else { 0 }
    }));
    data.extend((0..256 * KIB).map(|_| random.byte() & 1));
    data.resize(MIB, 0xff);
    data
}

fn period1m() -> Vec<u8> {
    let mut random = SplitMix64::new(4);
    let (prime, page) = (random.take(251), random.take(4096));
    let mut data = repeated(&prime, 512 * KIB);
    data.extend(repeated(&page, 512 * KIB));
    data
}

fn ramps1m() -> Vec<u8> {
    let quarter = 256 * KIB;
    let mut data = saw(quarter);
    data.extend((0..=255).rev().cycle().take(quarter));
    data.extend((0..=255).cycle().flat_map(|byte| [byte; 7]).take(quarter));
    let mut random = SplitMix64::new(5);
    while data.len() < MIB {
        let [count, mut value, up, ..] = random.next().to_le_bytes();
        for _ in 0..1 + count % 9 {
            data.push(value);
            value = if up & 1 == 1 { value.wrapping_add(1) } else { value.wrapping_sub(1) };
        }
    }
    data.truncate(MIB);
    data
}

fn edits2m() -> Vec<u8> {
    let mut random = SplitMix64::new(6);
    let original = random.take(512 * KIB);
    let mut data = original.clone();
    for block in original.chunks(16 * KIB) {
        let count = 1 + random.below(16);
        data.extend(random.take(count));
        data.extend_from_slice(block);
    }
    for block in original.chunks(16 * KIB) {
        data.extend_from_slice(&block[1 + random.below(16)..]);
    }
    data.extend(random.take(1000));
    data.extend_from_slice(&original);
    data
}

fn letter(number: u64) -> u8 {
    b'a' + (number % 26).to_le_bytes()[0]
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("an index is small")
}
