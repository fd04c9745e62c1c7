//! SeqCDC: the rule of the released code (dedup-bench), and the rule of the texts of the papers.

use crate::chunk_by_chunk;
use crate::keys::Keys;

pub(crate) fn cuts(keys: &Keys<'_>, data: &[u8]) -> Vec<usize> {
    let rule = Rule {
        is_increasing: keys.text("mode") == Some("inc"),
        length: keys.size("length"),
        trigger: keys.size("trigger"),
        skip: keys.size("skip"),
        min: keys.size("min"),
        max: keys.size("max"),
        equal_breaks: keys.text("equal") == Some("break"),
        skips_beyond: keys.text("reach").unwrap_or(match keys.text("rule") {
            None => "at",
            Some(_) => "beyond",
        }) == "beyond",
        ignores_skipped: keys.text("skipped") == Some("ignored"),
        opposing_in_run: keys.text("opposing") == Some("run"),
    };
    match keys.text("rule") {
        None => chunk_by_chunk(data, |rest| rule.released(rest)),
        Some(_) => chunk_by_chunk(data, |rest| rule.literal(rest)),
    }
}

struct Rule {
    is_increasing: bool,
    length: usize,
    trigger: usize,
    skip: usize,
    min: usize,
    max: usize,
    equal_breaks: bool,
    /// Set if bytes are skipped when the opposing pairs exceed the trigger, not when they reach it.
    skips_beyond: bool,
    /// Set if the last skipped byte is not compared with the byte behind it.
    ignores_skipped: bool,
    /// Set if the opposing pairs before a skip have to be in one run.
    opposing_in_run: bool,
}

impl Rule {
    /// Returns the first cut-point by the released code, which counts pairs without branches.
    fn released(&self, data: &[u8]) -> usize {
        let n = data.len();
        if n < self.min {
            return n;
        }
        let end = n.min(self.max);
        let sign = if self.is_increasing { 1 } else { -1 };
        // The least step that does not break a run.
        let least = i32::from(self.equal_breaks);
        let (mut i, mut run, mut opposing) = (self.min, 0_u32, 0);
        while i < end {
            let (a, b) = (data[i - 1], data[i]);
            let step = (i32::from(b) - i32::from(a)) * sign;
            // Sign bits: 1 if the step opposes the run, and 1 if the step continues it.
            let (opposes, continues) = (step as u32 >> 31, step.wrapping_neg() as u32 >> 31);
            let breaks = (step - least) as u32 >> 31;
            run = (run + continues) & breaks.wrapping_sub(1);
            if run as usize == self.length {
                return i;
            }
            if self.opposing_in_run && opposes == 0 && (continues == 1 || breaks == 1) {
                opposing = 0;
            }
            opposing += opposes as usize;
            if opposing == self.trigger + usize::from(self.skips_beyond) {
                opposing = 0;
                // The bytes behind byte i are skipped, and the pair of i ends with the first byte
                // behind them.
                i += self.skip;
                if self.ignores_skipped && self.skip > 0 {
                    i += 1;
                }
            }
            i += 1;
        }
        end
    }

    /// Returns the first cut-point by the text: data of size `min - length` is not scanned, a
    /// boundary is at the end of a sequence of `length` bytes, and bytes are skipped when the
    /// opposing pairs exceed the trigger.
    fn literal(&self, data: &[u8]) -> usize {
        let end = data.len().min(self.max);
        // The index of the last scanned byte, and the length of the sequence that ends there.
        let mut last = self.min.saturating_sub(self.length);
        let (mut sequence, mut opposing) = (1, 0);
        while last + 1 < end {
            let (a, b) = (data[last], data[last + 1]);
            last += 1;
            if a == b {
                if self.equal_breaks {
                    sequence = 1;
                    opposing = if self.opposing_in_run { 0 } else { opposing };
                }
            } else if (b > a) == self.is_increasing {
                sequence += 1;
                if sequence == self.length {
                    return last + 1;
                }
                opposing = if self.opposing_in_run { 0 } else { opposing };
            } else {
                sequence = 1;
                opposing += 1;
                let skips = if self.skips_beyond {
                    opposing > self.trigger
                } else {
                    opposing >= self.trigger
                };
                if skips {
                    opposing = 0;
                    // With an ignored last byte, the scan begins anew at the first byte behind.
                    last += match (self.skip, self.ignores_skipped) {
                        (skip, true) if skip > 0 => skip + 1,
                        (skip, _) => skip,
                    };
                }
            }
        }
        end
    }
}
