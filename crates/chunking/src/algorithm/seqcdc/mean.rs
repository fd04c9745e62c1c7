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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_periods_are_those_computed() {
        for (length, period) in KNOWN_PERIODS {
            assert_eq!(computed_period(length, KNOWN_TRIGGER), period, "{length}");
        }
    }
}
