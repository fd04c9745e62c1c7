//! Rules byte by byte, and the algorithms of the product beside them.

use std::cell::Cell;

use cutpoint_chunking::{Chunker, Spec, cuts};
use cutpoint_testing::SplitMix64;

/// The predicate of a cut-point before a byte.
#[derive(Clone, Copy)]
pub(crate) enum Predicate {
    /// A run of this number of rising pairs, as in SeqCDC.
    Run(u32),
    /// A gear hash of the 64 bytes before below this threshold.
    Hash(u64),
}

/// The rule for the bytes that are not looked at.
#[derive(Clone, Copy)]
pub(crate) enum Skip {
    None,
    /// Skips `size` bytes behind every `trigger`th falling pair since the start of the chunk.
    Counted {
        trigger: u32,
        size: usize,
    },
    /// Skips `size` bytes behind each run of this number of falling pairs, wherever the chunk began.
    Local {
        run: u32,
        size: usize,
    },
}

/// A rule with all its parts, which cuts byte by byte.
pub(crate) struct Rule {
    predicate: Predicate,
    skip: Skip,
    min: usize,
    max: usize,
    gear: Box<[u64; 256]>,
    /// The number of pairs that were looked at.
    looked_count: Cell<usize>,
}

impl Rule {
    pub(crate) fn new(predicate: Predicate, skip: Skip, min: usize, max: usize) -> Rule {
        let mut random = SplitMix64::new(24);
        let gear = Box::new(std::array::from_fn(|_| random.next()));
        Rule { predicate, skip, min, max, gear, looked_count: Cell::new(0) }
    }

    fn hash_before(&self, data: &[u8], end: usize) -> u64 {
        let window = &data[end.saturating_sub(64)..end];
        window.iter().fold(0, |hash, byte| (hash << 1).wrapping_add(self.gear[usize::from(*byte)]))
    }

    /// Returns the end of the chunk that starts at the first byte of `data`.
    fn cut(&self, data: &[u8]) -> usize {
        match self.predicate {
            Predicate::Run(length) => self.cut_by_run(data, length),
            Predicate::Hash(threshold) => self.cut_by_hash(data, threshold),
        }
    }

    fn cut_by_run(&self, data: &[u8], length: u32) -> usize {
        let end = data.len().min(self.max);
        let (mut place, mut run, mut skipper) = (self.min.max(1), 0, Skipper::new(self.skip));
        let mut skipped = 0;
        let first = place;
        let cut = loop {
            if place >= end {
                break end;
            }
            let (before, here) = (data[place - 1], data[place]);
            if here > before {
                run += 1;
                if run == length {
                    break place;
                }
            } else if here < before {
                run = 0;
            }
            let size = skipper.skipped(before, here);
            skipped += size;
            place += 1 + size;
        };
        let looked_count = cut.saturating_sub(first + skipped);
        self.looked_count.set(self.looked_count.get() + looked_count);
        cut
    }

    fn cut_by_hash(&self, data: &[u8], threshold: u64) -> usize {
        let end = data.len().min(self.max);
        let (mut place, mut skipper) = (self.min.max(1), Skipper::new(self.skip));
        if place >= end {
            return end;
        }
        let mut hash = self.hash_before(data, place);
        while place < end {
            if hash < threshold {
                return place;
            }
            let skipped = skipper.skipped(data[place - 1], data[place]);
            if skipped > 0 {
                place += 1 + skipped;
                if place < end {
                    hash = self.hash_before(data, place);
                }
            } else {
                hash = (hash << 1).wrapping_add(self.gear[usize::from(data[place])]);
                place += 1;
            }
        }
        end
    }
}

/// The state of the skips of one chunk.
struct Skipper {
    skip: Skip,
    count: u32,
}

impl Skipper {
    fn new(skip: Skip) -> Skipper {
        Skipper { skip, count: 0 }
    }

    /// Returns the number of bytes to skip behind a pair.
    #[inline]
    fn skipped(&mut self, before: u8, here: u8) -> usize {
        match self.skip {
            Skip::None => return 0,
            Skip::Counted { trigger, size } => {
                self.count += u32::from(here < before);
                if self.count == trigger {
                    self.count = 0;
                    return size;
                }
            }
            Skip::Local { run, size } => {
                self.count = if here < before {
                    self.count + 1
                } else if here > before {
                    0
                } else {
                    self.count
                };
                if self.count == run {
                    self.count = 0;
                    return size;
                }
            }
        }
        0
    }
}

/// A way to cut: a rule of this file, or an algorithm of the product.
pub(crate) enum Cutter {
    Rule(Rule),
    Spec(Box<dyn Chunker>),
}

impl Cutter {
    pub(crate) fn of(spec: &str) -> Result<Cutter, String> {
        let spec: Spec = spec.parse().map_err(|error| format!("{spec}: {error}"))?;
        Ok(Cutter::Spec(spec.chunker()))
    }

    /// Returns the number of pairs that a rule of this file has looked at.
    pub(crate) fn looked_count(&self) -> usize {
        match self {
            Cutter::Rule(rule) => rule.looked_count.get(),
            Cutter::Spec(_) => 0,
        }
    }

    /// Calls `chunk` with the start and the end of each chunk of `data`, until it returns `false`.
    pub(crate) fn cut(&self, data: &[u8], chunk: &mut dyn FnMut(usize, usize) -> bool) {
        let mut start = 0;
        match self {
            Cutter::Rule(rule) => {
                while start < data.len() {
                    let end = start + rule.cut(&data[start..]);
                    if !chunk(start, end) {
                        return;
                    }
                    start = end;
                }
            }
            Cutter::Spec(chunker) => {
                for end in cuts(&**chunker, data) {
                    if !chunk(start, end) {
                        return;
                    }
                    start = end;
                }
            }
        }
    }
}
