//! The compression function of BLAKE3 in lanes.

use crate::lanes::Lanes;

/// The fractional parts of the square roots of the first eight primes, as in SHA-256.
pub(crate) const INITIAL: [u32; 8] = [
    0x6A09_E667,
    0xBB67_AE85,
    0x3C6E_F372,
    0xA54F_F53A,
    0x510E_527F,
    0x9B05_688C,
    0x1F83_D9AB,
    0x5BE0_CD19,
];

/// The permutation of the words of a block, for each of the seven rounds.
const SCHEDULE: [[usize; 16]; 7] = schedule();

const fn schedule() -> [[usize; 16]; 7] {
    const STEP: [usize; 16] = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
    let mut rounds = [[0; 16]; 7];
    let mut word = 0;
    while word < 16 {
        rounds[0][word] = word;
        word += 1;
    }
    let mut round = 1;
    while round < 7 {
        let mut word = 0;
        while word < 16 {
            rounds[round][word] = rounds[round - 1][STEP[word]];
            word += 1;
        }
        round += 1;
    }
    rounds
}

/// The places of the words of the four columns: their first words, their second words, and so on.
const COLUMNS: [[usize; 4]; 4] = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]];

/// The places of the words of the four diagonals, likewise.
const DIAGONALS: [[usize; 4]; 4] = [[0, 1, 2, 3], [5, 6, 7, 4], [10, 11, 8, 9], [15, 12, 13, 14]];

/// Mixes half a round of the message into the words `$v`, in the four columns or diagonals of
/// `$places`.
///
/// The columns are interleaved, because each step of a column depends on the previous one. The
/// message word is added first, because `b` is the last value that the previous half round yields.
macro_rules! half {
    ($lanes:expr, $v:ident, $message:expr, $words:expr, $offset:literal, $places:expr) => {
        let [a, b, c, d]: [[usize; 4]; 4] = $places;
        for i in 0..4 {
            let word = $message[$words[$offset + 2 * i]];
            $v[a[i]] = $lanes.add($lanes.add($v[a[i]], word), $v[b[i]]);
        }
        for i in 0..4 {
            $v[d[i]] = $lanes.rotate_16($lanes.xor($v[d[i]], $v[a[i]]));
        }
        for i in 0..4 {
            $v[c[i]] = $lanes.add($v[c[i]], $v[d[i]]);
        }
        for i in 0..4 {
            $v[b[i]] = $lanes.rotate_12($lanes.xor($v[b[i]], $v[c[i]]));
        }
        for i in 0..4 {
            let word = $message[$words[$offset + 2 * i + 1]];
            $v[a[i]] = $lanes.add($lanes.add($v[a[i]], word), $v[b[i]]);
        }
        for i in 0..4 {
            $v[d[i]] = $lanes.rotate_8($lanes.xor($v[d[i]], $v[a[i]]));
        }
        for i in 0..4 {
            $v[c[i]] = $lanes.add($v[c[i]], $v[d[i]]);
        }
        for i in 0..4 {
            $v[b[i]] = $lanes.rotate_7($lanes.xor($v[b[i]], $v[c[i]]));
        }
    };
}

/// Mixes one round of the message into the words `$v`: a half round over the columns, and one over
/// the diagonals.
macro_rules! round {
    ($lanes:expr, $v:ident, $message:expr, $number:literal) => {{
        const WORDS: [usize; 16] = SCHEDULE[$number];
        half!($lanes, $v, $message, WORDS, 0, COLUMNS);
        half!($lanes, $v, $message, WORDS, 8, DIAGONALS);
    }};
}

/// Applies the compression function in every lane. The first eight words of its output become the
/// state.
#[inline(always)]
pub(super) fn compress<L: Lanes>(
    lanes: L,
    state: &mut [L::Vector; 8],
    message: &[L::Vector; 16],
    (low, high): (L::Vector, L::Vector),
    size: L::Vector,
    flags: L::Vector,
) {
    let initial = |word: usize| lanes.splat(INITIAL[word]);
    let [a, b, c, d, e, f, g, h] = *state;
    let mut v = [
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        initial(0),
        initial(1),
        initial(2),
        initial(3),
        low,
        high,
        size,
        flags,
    ];
    round!(lanes, v, message, 0);
    round!(lanes, v, message, 1);
    round!(lanes, v, message, 2);
    round!(lanes, v, message, 3);
    round!(lanes, v, message, 4);
    round!(lanes, v, message, 5);
    round!(lanes, v, message, 6);
    for word in 0..8 {
        state[word] = lanes.xor(v[word], v[word + 8]);
    }
}
