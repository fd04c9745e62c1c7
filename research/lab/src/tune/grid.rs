//! The parameters to try: for each family of specifications the values of its parameters, of which
//! one is left open, so that it can be fitted to the wanted mean.

use std::ops::RangeInclusive;

use cutpoint_chunking::Spec;

/// A combination of parameters in which one number is open.
#[derive(Clone, Debug)]
pub(super) struct Open {
    family: &'static Family,
    /// The keys and values of the other parameters.
    chosen: Vec<(&'static str, Choice)>,
    /// The range of the number, in steps of the parameter.
    pub(super) range: RangeInclusive<usize>,
}

impl Open {
    /// Returns the specification with this number. The mean chunk size on random data rises with
    /// the number.
    pub(super) fn spec(&self, number: usize) -> String {
        let (algorithm, open) = (self.family.algorithm, &self.family.open);
        let value = number * open.step;
        let mut text = format!("{algorithm}:{}={value}", open.key);
        for (key, choice) in &self.chosen {
            text.push_str(&match choice {
                Choice::Word(word) => format!(",{key}={word}"),
                Choice::Number(number) => format!(",{key}={number}"),
                Choice::Multiple(factor) => format!(",{key}={}", factor * value),
            });
        }
        text
    }
}

/// The value of a parameter in a combination.
#[derive(Clone, Copy, Debug)]
enum Choice {
    Word(&'static str),
    Number(usize),
    /// This multiple of the open number.
    Multiple(usize),
}

/// Specifications of an algorithm with the same parameters.
#[derive(Debug)]
struct Family {
    algorithm: &'static str,
    /// The parameters with given values, by key.
    steps: &'static [(&'static str, Values)],
    /// The parameter whose number is open.
    open: OpenNumber,
}

/// The values of a parameter.
#[derive(Debug)]
enum Values {
    /// These words.
    Words(&'static [&'static str]),
    /// These numbers.
    Numbers(&'static [usize]),
    /// These sizes, in eighths of the wanted mean.
    Eighths(&'static [usize]),
    /// These sizes, in eighths of the wanted mean, rounded down to even numbers.
    EvenEighths(&'static [usize]),
    /// The logarithm of a fraction of the wanted mean, reduced by these numbers.
    Bits { fraction: (usize, usize), less: &'static [usize] },
    /// The first of these numbers with which the algorithm reaches the wanted mean by itself.
    FirstReaching(RangeInclusive<usize>),
    /// These multiples of the open number.
    Multiples(&'static [usize]),
}

/// The parameter whose number is open.
#[derive(Debug)]
struct OpenNumber {
    key: &'static str,
    least: Bound,
    most: Bound,
    /// The number is a multiple of this one.
    step: usize,
}

/// A bound of the open number.
#[derive(Debug)]
enum Bound {
    /// This number.
    Number(usize),
    /// A size, in eighths of the wanted mean.
    Eighths(usize),
    /// A multiple of the value of another parameter.
    Multiple(usize, &'static str),
}

use Bound::{Eighths as SizeOf, Multiple, Number};
use Values::{Bits, Eighths, EvenEighths, FirstReaching, Multiples, Numbers, Words};

/// The maximum chunk size, as a multiple of the mean, that hardly affects the cut-points: that of
/// the AE paper, section 4.2.
pub(super) const FAR_MAX_FACTOR: usize = 8;

/// This maximum chunk size alone.
const FAR: Values = Eighths(&[8 * FAR_MAX_FACTOR]);
/// The maximum chunk sizes twice the mean and far.
const TWICE_OR_FAR: Values = Eighths(&[16, 8 * FAR_MAX_FACTOR]);
/// The minimum chunk sizes of a quarter and of half the mean.
const QUARTER_OR_HALF: Values = Eighths(&[2, 4]);
/// The windows of Rabin, CRC and Buzhash in bytes: the ends of the range of Gregoriadis et al., and
/// the window of `avg=`.
const WINDOWS: Values = Numbers(&[16, 48, 256]);
/// If the cut probability is a power of two, the minimum size makes up the rest of the mean. The
/// rest is at least a fifth of the mean with the first number of bits, and more than half of it
/// with the second.
const POWERS: Values = Bits { fraction: (4, 5), less: &[0, 1] };

/// The open minimum size beside a cut probability that is a power of two.
const OPEN_MIN: OpenNumber = open("min", Number(1), SizeOf(8));

const fn open(key: &'static str, least: Bound, most: Bound) -> OpenNumber {
    OpenNumber { key, least, most, step: 1 }
}

const fn family(
    algorithm: &'static str,
    steps: &'static [(&'static str, Values)],
    open: OpenNumber,
) -> Family {
    Family { algorithm, steps, open }
}

/// The families of all algorithms. There are none of SeqCDC, which has a search of its own, of BFBC,
/// which learns from data, and of samplebyte, which has no such mean.
static FAMILIES: [Family; 20] = [
    family("fixed", &[], open("size", SizeOf(8), SizeOf(8))),
    family(
        "fastcdc",
        &[
            ("level", Numbers(&[0, 1, 2, 3])),
            // The sizes of FastCDC are even.
            ("min", EvenEighths(&[2, 3, 4])),
            ("max", EvenEighths(&[32])),
            ("seed", Numbers(&[0])),
        ],
        OpenNumber { key: "normal", least: Multiple(1, "min"), most: SizeOf(16), step: 2 },
    ),
    family("gear", &[("max", TWICE_OR_FAR), ("bits", POWERS)], OPEN_MIN),
    family(
        "gear",
        &[
            ("max", TWICE_OR_FAR),
            ("bits", Bits { fraction: (1, 1), less: &[0] }),
            ("level", Numbers(&[1, 2, 3])),
            ("min", QUARTER_OR_HALF),
        ],
        open("normal", Multiple(1, "min"), Multiple(1, "max")),
    ),
    family("rabin", &[("window", WINDOWS), ("bits", POWERS), ("max", FAR)], OPEN_MIN),
    family("crc", &[("window", WINDOWS), ("bits", POWERS), ("max", FAR)], OPEN_MIN),
    family("aes", &[("window", Numbers(&[16, 32])), ("bits", POWERS), ("max", FAR)], OPEN_MIN),
    family(
        "buzhash",
        &[("window", WINDOWS), ("min", QUARTER_OR_HALF), ("max", FAR)],
        open("divisor", Number(1), SizeOf(8)),
    ),
    family(
        "tttd",
        &[
            ("window", Numbers(&[48])),
            ("min", QUARTER_OR_HALF),
            ("max", Eighths(&[16, 32])),
            // The backup divisor of the paper is half the divisor.
            ("divisor", Multiples(&[2, 8])),
        ],
        open("backup", Number(1), SizeOf(16)),
    ),
    // Values of one byte, and of eight as in the AE paper.
    family(
        "ae",
        &[("mode", Words(&["max", "min"])), ("bytes", Numbers(&[1, 8])), ("max", FAR)],
        open("window", Number(1), SizeOf(8)),
    ),
    family(
        "ae",
        &[
            ("mode", Words(&["max", "min"])),
            ("bytes", Numbers(&[1, 8])),
            // The ends of the range that the paper tries for AE-Opt2.
            ("lest", Eighths(&[1, 4])),
            ("max", FAR),
        ],
        open("window", Multiple(1, "lest"), SizeOf(8)),
    ),
    family(
        "maxp",
        &[("form", Words(&["released", "strict"])), ("max", TWICE_OR_FAR)],
        open("window", Number(1), SizeOf(4)),
    ),
    family(
        "ram",
        // With a high byte in the window, chunks often end at the maximum size.
        &[("max", Eighths(&[10, 12, 16, 8 * FAR_MAX_FACTOR]))],
        open("window", Number(1), SizeOf(8)),
    ),
    family(
        "pci",
        &[("window", Numbers(&[32, 64, 128, 256, 512])), ("max", FAR)],
        open("threshold", Multiple(4, "window"), Multiple(8, "window")),
    ),
    family(
        "mii",
        // MII reaches only a few means by itself. The maximum size makes up the difference.
        &[("length", FirstReaching(2..=32))],
        open("max", Multiple(1, "length"), SizeOf(8 * FAR_MAX_FACTOR)),
    ),
    family("mincdc", &[("min", Eighths(&[2, 4, 6]))], open("max", Multiple(1, "min"), SizeOf(16))),
    family("repmaxcdc", &[("horizon", Multiples(&[1, 2, 8]))], open("min", Number(64), SizeOf(8))),
    family(
        "ronomon",
        &[("min", QUARTER_OR_HALF), ("max", TWICE_OR_FAR)],
        open("average", Number(256), SizeOf(16)),
    ),
    family(
        "ultracdc",
        &[("min", QUARTER_OR_HALF), ("max", TWICE_OR_FAR)],
        open("normal", Multiple(1, "min"), Multiple(1, "max")),
    ),
    family(
        "jc",
        &[
            ("min", QUARTER_OR_HALF),
            ("bits", Bits { fraction: (3, 8), less: &[0, 1] }),
            ("max", FAR),
        ],
        open("jump", Number(1), SizeOf(8)),
    ),
];

/// Returns the combinations of `algorithm` for a mean of `target` bytes.
pub(super) fn grid(algorithm: &str, target: usize) -> Vec<Open> {
    FAMILIES
        .iter()
        .filter(|family| family.algorithm == algorithm)
        .flat_map(|family| family.combinations(target))
        .collect()
}

impl Family {
    /// Returns all combinations of the values; those of the last parameter follow each other.
    fn combinations(&'static self, target: usize) -> Vec<Open> {
        let mut combinations = vec![Vec::new()];
        for (key, values) in self.steps {
            let choices = values.choices(self.algorithm, key, target);
            let with_each = |chosen: Vec<(&'static str, Choice)>| {
                choices.iter().map(move |choice| [chosen.as_slice(), &[(*key, *choice)]].concat())
            };
            combinations = combinations.into_iter().flat_map(with_each).collect();
        }
        let open = |chosen: Vec<(&'static str, Choice)>| {
            let OpenNumber { least, most, step, .. } = &self.open;
            let range = least.value(target, &chosen) / step..=most.value(target, &chosen) / step;
            Open { family: self, chosen, range }
        };
        combinations.into_iter().map(open).collect()
    }
}

impl Values {
    /// Returns the values of the parameter `key` of `algorithm` for a mean of `target` bytes.
    fn choices(&self, algorithm: &str, key: &str, target: usize) -> Vec<Choice> {
        let numbers = |numbers: &[usize], of: &dyn Fn(usize) -> usize| -> Vec<Choice> {
            numbers.iter().map(|number| Choice::Number(of(*number))).collect()
        };
        match self {
            Words(words) => words.iter().map(|word| Choice::Word(word)).collect(),
            Numbers(each) => numbers(each, &|number| number),
            Eighths(each) => numbers(each, &|eighths| target * eighths / 8),
            EvenEighths(each) => numbers(each, &|eighths| target * eighths / 8 / 2 * 2),
            Bits { fraction: (numerator, denominator), less } => {
                let bits = (target * numerator / denominator).ilog2() as usize;
                numbers(less, &|less| bits - less)
            }
            FirstReaching(range) => {
                let reaches = |number: &usize| {
                    let spec: Result<Spec, _> = format!("{algorithm}:{key}={number}").parse();
                    let mean = spec.ok().and_then(|spec| spec.chunk_size_average());
                    mean.is_some_and(|mean| mean >= target)
                };
                range.clone().find(reaches).map(Choice::Number).into_iter().collect()
            }
            Multiples(factors) => factors.iter().map(|factor| Choice::Multiple(*factor)).collect(),
        }
    }
}

impl Bound {
    /// Returns the bound beside the chosen values of the other parameters.
    fn value(&self, target: usize, chosen: &[(&'static str, Choice)]) -> usize {
        match self {
            Number(number) => *number,
            SizeOf(eighths) => target * eighths / 8,
            Multiple(factor, other) => {
                let value = chosen.iter().find_map(|(key, choice)| match choice {
                    Choice::Number(number) if key == other => Some(*number),
                    _ => None,
                });
                factor * value.unwrap_or(0)
            }
        }
    }
}
