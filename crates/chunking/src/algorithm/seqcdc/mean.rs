//! The chances of a period between two skips on random data, by a Markov chain over (opposing pairs,
//! run, last byte).

/// A period between two skips: the mean number of pairs that it compares, and the chance that it
/// ends in a cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Period {
    pub(super) pair_count: f64,
    pub(super) cut_chance: f64,
}

/// The number of opposing pairs of [`KNOWN_PERIODS`].
pub(super) const KNOWN_TRIGGER: u32 = 50;

/// The results of [`absorbing_period`] for runs of 5, 6 and 7 pairs, which take long to compute.
const KNOWN_PERIODS: [(u32, Period); 3] = [
    (5, Period { pair_count: 94.613_745_670_312_5, cut_chance: 0.107_601_085_576_194_73 }),
    (6, Period { pair_count: 99.255_114_506_422_86, cut_chance: 0.016_112_990_363_969_1 }),
    (7, Period { pair_count: 99.956_539_700_522_28, cut_chance: 0.002_011_226_658_696_801 }),
];

/// Returns the period of runs of `length` pairs that an equal pair leaves unchanged, up to `trigger`
/// opposing pairs.
pub(super) fn absorbing_period(length: u32, trigger: u32) -> Period {
    let known = KNOWN_PERIODS.iter().filter(|_| trigger == KNOWN_TRIGGER);
    let known = known.into_iter().find(|(known, _)| *known == length);
    known.map_or_else(|| computed_period(length, trigger), |(_, period)| *period)
}

/// Computes [`absorbing_period`].
fn computed_period(length: u32, trigger: u32) -> Period {
    let mut period = Period { pair_count: 0.0, cut_chance: 0.0 };
    let mut entry = FIRST_ENTRY;
    for _ in 0..trigger {
        let mut next_entry = [0.0; 256];
        let mut visits = entry.map(|chance| chance * 256.0 / 255.0);
        for _ in 0..length {
            // An equal pair stays at the same value. Of the other 255 values, those above continue
            // the run, and those below end it.
            period.pair_count += visits.iter().sum::<f64>();
            add_descents(&mut next_entry, &visits);
            let mut below = 0.0;
            let mut risen = [0.0; 256];
            for (chance, visit) in risen.iter_mut().zip(visits) {
                *chance = below / 256.0;
                below += visit;
            }
            visits = risen.map(|chance| chance * 256.0 / 255.0);
        }
        // A run that has risen `length` times is a cut. It does not stay at its value, so the
        // factor for staying is taken back.
        period.cut_chance += visits.iter().sum::<f64>() * 255.0 / 256.0;
        entry = next_entry;
    }
    period
}

/// Returns the period of runs of `length` pairs that an equal pair ends, up to `trigger` opposing
/// pairs.
pub(super) fn breaking_period(length: u32, trigger: u32) -> Period {
    let mut period = Period { pair_count: 0.0, cut_chance: 0.0 };
    let mut entry = FIRST_ENTRY;
    for _ in 0..trigger {
        // The loop goes by rising last byte: `below[r]` are the visits of lesser bytes after r
        // pairs of a run. An equal pair leads back to the same byte without a run.
        let mut below = [0.0; 32];
        let mut visits = [0.0; 256];
        for (visit, chance) in visits.iter_mut().zip(entry) {
            let risen: [f64; 33] = core::array::from_fn(|run| match run {
                0 => 0.0,
                _ => below[run - 1] / 256.0,
            });
            let runs = &risen[1..length as usize];
            let in_runs = runs.iter().sum::<f64>();
            let without = (chance + in_runs / 256.0) * 256.0 / 255.0;
            *visit = without + in_runs;
            period.cut_chance += risen[length as usize];
            below[0] += without;
            for (below, risen) in below[1..].iter_mut().zip(runs) {
                *below += risen;
            }
        }
        period.pair_count += visits.iter().sum::<f64>();
        entry = [0.0; 256];
        add_descents(&mut entry, &visits);
    }
    period
}

/// Returns the period of runs of `length` pairs in order, up to a run of `trigger` opposing pairs.
///
/// Each step of [`Chain`] leads from one direction to the other, so that after some steps two of
/// them together only shrink the chances. The rest is then a geometric series.
pub(super) fn run_period(length: u32, trigger: u32, equal_breaks: bool) -> Period {
    let mut chain = Chain {
        length,
        trigger,
        equal_breaks,
        unordered: FIRST_ENTRY,
        rising: [0.0; 256],
        falling: [0.0; 256],
    };
    let mut period = Period { pair_count: 0.0, cut_chance: 0.0 };
    let mut last = [0.0; 3];
    for _ in 0..RUN_STEPS {
        last = [0.0; 3];
        for _ in 0..2 {
            let step = chain.step();
            last = [last[0] + step[0], last[1] + step[1], last[2] + step[2]];
        }
        period.pair_count += last[0];
        period.cut_chance += last[1];
    }
    let rest = chain.unordered.iter().chain(&chain.rising).chain(&chain.falling).sum::<f64>();
    let ended = last[1] + last[2];
    if ended > 0.0 {
        period.pair_count += last[0] * rest / ended;
        period.cut_chance += last[1] * rest / ended;
    }
    period
}

/// The number of double steps after which the chances only shrink.
const RUN_STEPS: usize = 64;

/// The chances of each last byte by the direction of the pair before it.
struct Chain {
    length: u32,
    trigger: u32,
    equal_breaks: bool,
    /// Without a run.
    unordered: [f64; 256],
    /// After the first pair of a rising run.
    rising: [f64; 256],
    /// After the first pair of a falling run.
    falling: [f64; 256],
}

impl Chain {
    /// Follows all runs to their ends, and returns the mean number of pairs, the chance of a cut,
    /// and that of a skip.
    fn step(&mut self) -> [f64; 3] {
        let Chain { length, trigger, equal_breaks, unordered, rising, falling } = *self;
        let mut next = ([0.0; 256], [0.0; 256], [0.0; 256]);
        // An equal pair without a run leads to the same.
        let visits = unordered.map(|chance| chance * 256.0 / 255.0);
        let mut pair_count = visits.iter().sum::<f64>();
        add_ascents(&mut next.1, &visits);
        add_descents(&mut next.2, &visits);
        let mut ends = [0.0; 2];
        for (index, (mut run, count)) in
            [(rising, length), (falling, trigger)].into_iter().enumerate()
        {
            for _ in 1..count {
                let visits =
                    if equal_breaks { run } else { run.map(|chance| chance * 256.0 / 255.0) };
                pair_count += visits.iter().sum::<f64>();
                let mut longer = [0.0; 256];
                if index == 0 {
                    add_descents(&mut next.2, &visits);
                    add_ascents(&mut longer, &visits);
                } else {
                    add_ascents(&mut next.1, &visits);
                    add_descents(&mut longer, &visits);
                }
                if equal_breaks {
                    let broken = next.0.iter_mut().zip(visits);
                    broken.for_each(|(chance, visit)| *chance += visit / 256.0);
                }
                run = longer;
            }
            ends[index] = run.iter().sum();
        }
        (self.unordered, self.rising, self.falling) = next;
        [pair_count, ends[0], ends[1]]
    }
}

/// The chance of each value of the last byte at the start of a period, without a run.
const FIRST_ENTRY: [f64; 256] = [1.0 / 256.0; 256];

/// Adds to `entry`, for each value, the chance that an opposing pair leads to it from a greater one
/// of `visits`.
fn add_descents(entry: &mut [f64; 256], visits: &[f64; 256]) {
    let mut above = 0.0;
    for (chance, visit) in entry.iter_mut().zip(visits).rev() {
        *chance += above / 256.0;
        above += visit;
    }
}

/// Adds to `entry`, for each value, the chance that a pair in order leads to it from a lesser one of
/// `visits`.
fn add_ascents(entry: &mut [f64; 256], visits: &[f64; 256]) {
    let mut below = 0.0;
    for (chance, visit) in entry.iter_mut().zip(visits) {
        *chance += below / 256.0;
        below += visit;
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    /// Draws periods pair by pair, as the rule is written.
    #[test]
    fn run_periods_are_those_of_random_bytes() {
        for (length, trigger, equal_breaks) in
            [(5, 4, false), (3, 2, true), (2, 3, false), (1, 1, true)]
        {
            let mut random = cutpoint_testing::SplitMix64::new(4);
            let (mut pair_count, mut cut_count) = (0_u32, 0_u32);
            let count = 40_000;
            for _ in 0..count {
                let (mut run, mut opposing, mut before) = (0, 0, random.byte());
                while run < length && opposing < trigger {
                    let byte = random.byte();
                    pair_count += 1;
                    (run, opposing) = match byte.cmp(&before) {
                        core::cmp::Ordering::Greater => (run + 1, 0),
                        core::cmp::Ordering::Less => (0, opposing + 1),
                        core::cmp::Ordering::Equal if equal_breaks => (0, 0),
                        core::cmp::Ordering::Equal => (run, opposing),
                    };
                    before = byte;
                }
                cut_count += u32::from(run == length);
            }
            let period = run_period(length, trigger, equal_breaks);
            let pairs = f64::from(pair_count) / f64::from(count);
            let cuts = f64::from(cut_count) / f64::from(count);
            let case = format!("{length} {trigger} {equal_breaks}: {period:?}, {pairs}, {cuts}");
            assert!((period.pair_count / pairs - 1.0).abs() < 0.02, "{case}");
            assert!((period.cut_chance - cuts).abs() < 0.01, "{case}");
        }
    }

    #[test]
    fn known_periods_are_those_computed() {
        for (length, period) in KNOWN_PERIODS {
            assert_eq!(computed_period(length, KNOWN_TRIGGER), period, "{length}");
        }
    }
}
