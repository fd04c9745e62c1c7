//! Random specs of the rules that have code for levels.

use cutpoint_chunking::Spec;
use cutpoint_testing::SplitMix64;

use super::pick;

const MINS: &[usize] = &[
    1, 2, 30, 31, 32, 62, 63, 64, 65, 127, 500, 511, 512, 1000, 4000, 4095, 4160, 10_000, 70_000,
    266_000, 700_000,
];
const WINDOWS: &[usize] = &[
    1, 2, 3, 4, 16, 31, 32, 33, 47, 48, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 448, 449,
    510, 511, 512, 513,
];
/// The windows of rules that look for extreme values.
const EXTREMUM_WINDOWS: &[usize] =
    &[1, 2, 3, 63, 64, 65, 128, 255, 256, 257, 1000, 1024, 5000, 60_000];

/// The sizes of values.
const VALUE_SIZES: &[&str] = &["", "", ",bytes=2", ",bytes=4", ",bytes=8"];

/// Returns the text of a spec, which the parser may refuse.
pub(super) fn text(random: &mut SplitMix64) -> String {
    let kind = random.below(15);
    let (min, max) = sizes(random);
    let window = pick(random, WINDOWS);
    let mut draw = Draw { random, min, max, window };
    match kind {
        0..=2 => draw.gear(),
        3..=5 => draw.fastcdc(),
        6 | 7 => draw.rabin(),
        8 | 9 => draw.crc(),
        10 | 11 => draw.buzhash(),
        12 => draw.pci(),
        14 => draw.aes(),
        _ => draw.rule_without_hash(),
    }
}

/// Returns a minimum and a maximum size.
fn sizes(random: &mut SplitMix64) -> (usize, Option<usize>) {
    let min = pick(random, MINS) + random.below(3);
    let max = match random.below(4) {
        0 => None,
        1 => Some(min + random.below(200)),
        2 => Some(min + random.below(20_000)),
        _ => Some(min + random.below(400_000)),
    };
    (min.max(1), max)
}

/// Returns a polynomial that the rule accepts, by trying random ones until one is irreducible.
fn polynomial(random: &mut SplitMix64) -> u64 {
    let degree = pick(random, &[48usize, 49, 50, 51, 52, 53]);
    loop {
        let polynomial = 1 << degree | random.next() & ((1 << degree) - 1) | 1;
        if format!("rabin:bits=9,window=48,poly=0x{polynomial:x}").parse::<Spec>().is_ok() {
            return polynomial;
        }
    }
}

/// Returns the key of a maximum size, if there is one.
fn max_text(max: Option<usize>) -> String {
    max.map_or(String::new(), |max| format!(",max={max}"))
}

/// Returns up to `count` hexadecimal numbers below `end`, of `width` digits, in ascending order.
fn list(random: &mut SplitMix64, count: usize, end: usize, width: usize) -> String {
    let mut list: Vec<usize> = (0..count).map(|_| random.below(end)).collect();
    list.sort_unstable();
    list.dedup();
    let list: Vec<String> = list.iter().map(|number| format!("{number:0width$x}")).collect();
    list.join(".")
}

/// The random numbers for a spec, with the values that are drawn for every rule.
struct Draw<'a> {
    random: &'a mut SplitMix64,
    min: usize,
    max: Option<usize>,
    window: usize,
}

impl Draw<'_> {
    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        pick(self.random, list)
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end)
    }

    /// Returns the key of a maximum size that is mostly not below `window`, if there is one.
    fn max_of_window(&mut self, window: usize) -> String {
        max_text(self.max.map(|max| max.max(window + self.random.below(5))))
    }

    fn gear(&mut self) -> String {
        let level = if self.below(2) == 0 { 0 } else { 1 + self.below(3) };
        let bits = (level + 1 + self.below(16)).min(31 - level);
        let mut text = format!("gear:bits={bits}");
        if level > 0 {
            let normal = self.pick(&[1, 63, 64, 100, 1000, 4096, 30_000, 300_000]) + self.below(4);
            text += &format!(",level={level},normal={normal}");
        }
        text += self.pick(&[
            "",
            ",table=cutpoint32",
            ",table=cdchunking",
            ",table=gearhash",
            ",table=dedup-bench",
        ]);
        text += self.pick(&["", ",start=cold", ",start=carry"]);
        text += self.pick(&["", ",cut=before"]);
        text += &format!(",min={}", self.min);
        text + &max_text(self.max)
    }

    fn fastcdc(&mut self) -> String {
        let is_dedup_bench = self.below(2) == 0;
        let odd = |draw: &mut Self, size: usize| {
            if is_dedup_bench { size + draw.below(2) } else { size & !1 }
        };
        let min = 64 + self.pick(&[0, 2, 62, 64, 448, 1000, 4032, 4096, 60_000]) + self.below(40);
        let min = odd(self, min);
        let normal = min.max(256) + self.pick(&[0, 2, 100, 1000, 8000, 60_000, 400_000]);
        let normal = odd(self, normal);
        let max = normal.max(1024) + self.pick(&[0, 2, 64, 1000, 30_000, 500_000]);
        let max = odd(self, max).max(normal);
        let level = self.below(4);
        let form = if is_dedup_bench { ",form=dedup-bench" } else { "" };
        let seed = if self.below(3) == 0 {
            format!(",seed=0x{:x}", self.random.next())
        } else {
            String::new()
        };
        format!("fastcdc:min={min},normal={normal},max={max},level={level}{form}{seed}")
    }

    fn rabin(&mut self) -> String {
        let (bits, window, min) = (1 + self.below(20), self.window, self.min);
        let poly = if self.pick(&[false, true]) {
            format!(",poly=0x{:x}", polynomial(self.random))
        } else {
            String::new()
        };
        let start = self.pick(&["", ",start=one"]);
        let max = self.max_of_window(window);
        format!("rabin:bits={bits},window={window}{poly}{start},min={min}{max}")
    }

    fn crc(&mut self) -> String {
        let (bits, window, min) = (1 + self.below(20), self.window.max(4), self.min);
        let max = self.max_of_window(window);
        let cut = self.pick(&["", ",cut=before"]);
        format!("crc:bits={bits},window={window}{cut},min={min}{max}")
    }

    fn buzhash(&mut self) -> String {
        let (window, min) = (self.window, self.min);
        let divisor = match self.below(4) {
            0 => 1 << self.below(31),
            1 => 1 + self.below(20),
            2 => 1 + self.below(10_000),
            _ => (1 + self.below(1000)) << self.below(10),
        };
        let remainder = self.pick(&[0, 0, 1, divisor / 2, divisor - 1]).min(divisor - 1);
        let table = self.pick(&["", ",table=casync", ",table=bita", ",table=cutpoint32"]);
        let max = self.max_of_window(window);
        format!(
            "buzhash:divisor={divisor},remainder={remainder},window={window}{table},min={min}{max}"
        )
    }

    fn pci(&mut self) -> String {
        let window = self.window;
        let all = 8 * window;
        let threshold = match self.below(5) {
            0 => 1,
            1 => all,
            2 => all / 2,
            3 => all * 5 / 8,
            _ => 1 + self.below(all),
        };
        let max = self.max_of_window(window);
        format!("pci:window={window},threshold={}{max}", threshold.max(1))
    }

    fn aes(&mut self) -> String {
        let (window, min) = (self.pick(&[16, 32]), self.min);
        let max = self.max_of_window(window);
        let bits = 1 + self.below(20);
        format!("aes:bits={bits},window={window},min={min}{max}")
    }

    fn rule_without_hash(&mut self) -> String {
        let window = self.pick(EXTREMUM_WINDOWS);
        let cut = self.pick(&["", ",cut=before"]);
        let max = self.max.map(|max| max.max(2 * window + 2));
        let (min, end) = (self.min, max_text(max));
        match self.below(8) {
            0 => format!("ram:window={window}{cut}{}{end}", self.pick(&["", ",equal=pass"])),
            1 => {
                let (mode, bytes) =
                    (self.pick(&[",mode=max", ",mode=min"]), self.pick(VALUE_SIZES));
                format!("ae:window={window}{bytes}{cut}{mode}{end}")
            }
            2 => {
                let form = self.pick(&["", ",form=released", ",form=strict"]);
                format!("maxp:window={window}{}{form}{end}", self.pick(VALUE_SIZES))
            }
            3 => {
                format!("mii:length={}{}{end}", 2 + self.below(31), self.pick(&["", ",first=0"]))
            }
            4 => {
                let count = 1 + self.below(12);
                let pairs = list(self.random, count, 65_536, 4);
                let end = max_text(max.map(|max| max + 2));
                format!("bfbc:pairs={pairs},min={}{end}", min.max(2))
            }
            5 => {
                let min = min.max(4);
                let value = self.pick(&["", ",value=plain"]);
                format!("mincdc:min={min},max={}{value}", max.unwrap_or(2 * min).max(min))
            }
            6 => {
                let (trigger_max, opposing) = self.pick(&[(200, ""), (6, ",opposing=run")]);
                format!(
                    "seqcdc:mode={},length={},trigger={},skip={},min={min},max={}{}{}{}{}{opposing}",
                    self.pick(&["inc", "dec"]),
                    2 + self.below(9),
                    1 + self.below(trigger_max),
                    self.pick(&[0, 1, 64, 256, 1024, 20_000]),
                    max.unwrap_or(4 * min),
                    self.pick(&["", ",equal=break"]),
                    self.pick(&["", ",rule=literal"]),
                    self.pick(&["", ",reach=at", ",reach=beyond"]),
                    self.pick(&["", ",skipped=ignored"]),
                )
            }
            _ => {
                let count = 1 + self.below(9);
                let markers = list(self.random, count, 256, 2);
                let period = 2 + 2 * self.below(127);
                format!("samplebyte:period={period},markers={markers}{end}")
            }
        }
    }
}
