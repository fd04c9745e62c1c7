//! The operations on a repository, and their random choice.

use std::collections::BTreeSet;

use cutpoint_repository::verify::check::Portion;
use cutpoint_storage::Fault;
use cutpoint_testing::SplitMix64;

use crate::support::object_damage::HARMS;

/// Number of files, small so that snapshots share them.
pub(crate) const FILES: usize = 10;
pub(crate) const TAGS: [&str; 3] = ["red", "green", "blue"];
/// The secrets. The repository is created with the first.
pub(crate) const SECRETS: [u8; 4] = [7, 8, 9, 10];

/// One operation. Numbers choose among what exists at the time.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    BackUp {
        files: Vec<u64>,
        publish: bool,
        parent: Option<usize>,
        tag: usize,
    },
    Forget(Vec<usize>),
    Keep {
        last: u32,
        tag: Option<usize>,
    },
    BringBack(usize),
    Hold(usize),
    Release(usize),
    Note {
        snapshot: usize,
        tag: usize,
        text: u64,
    },
    Prune {
        unused_max: f64,
        rewrite_bytes_max: u64,
        segment_count_max: usize,
        small_count_max: usize,
    },
    /// Regroups everything that stays.
    Optimize {
        compression_level: i32,
        rewrite_bytes_max: u64,
    },
    PlanPrune,
    Sweep {
        is_patient: bool,
        end_others: bool,
    },
    CheckPart(Portion),
    RecordDamage,
    RepairIndex {
        dry_run: bool,
    },
    RepairSnapshots {
        dry_run: bool,
        forget: bool,
    },
    AddKey(u8),
    RemoveKey(u8),
    ReplaceKey(u8, u8),
    Rotate(Vec<u8>),
    Settings(i32),
    Harm {
        object: usize,
        harm: &'static str,
    },
    /// Repairs all damage.
    Heal,
    /// Copies the storage, to return to it later.
    Remember,
    RollBack,
}

/// Takes and condemns everything possible.
pub(crate) const PRUNE_ALL: Step = Step::Prune {
    unused_max: 0.0,
    rewrite_bytes_max: u64::MAX,
    segment_count_max: 500,
    small_count_max: 64,
};
/// Deletes everything possible.
pub(crate) const SWEEP_ALL: Step = Step::Sweep { is_patient: false, end_others: true };

/// The local index, beside the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    None,
    New,
    /// The index that earlier processes have filled, in whatever state.
    Old,
}

/// A step and what happens to it.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    pub(crate) step: Step,
    pub(crate) fault: Fault,
    pub(crate) cache: Cache,
    /// Steps of other clients before the commit of this step.
    pub(crate) others: Vec<Step>,
}

/// Chooses the next move.
pub(crate) fn generate(random: &mut SplitMix64) -> Move {
    let step = match random.below(80) {
        0..24 => back_up(random),
        24..40 => life_cycle(random),
        40..46 => any_prune(random),
        46 => Step::Optimize {
            compression_level: [1, 3, 5][random.below(3)],
            rewrite_bytes_max: [100_000, u64::MAX][random.below(2)],
        },
        47..54 => any_sweep(random),
        54 => Step::PlanPrune,
        55..57 => {
            Step::CheckPart([Portion::Share(300_000), Portion::Bytes(50_000)][random.below(2)])
        }
        57 => Step::RecordDamage,
        58..60 => Step::RepairIndex { dry_run: random.below(3) == 0 },
        60..62 => {
            Step::RepairSnapshots { dry_run: random.below(3) == 0, forget: random.below(2) == 0 }
        }
        62 | 63 => Step::AddKey(secret(random)),
        64 => Step::RemoveKey(secret(random)),
        65 => Step::ReplaceKey(secret(random), secret(random)),
        66 => Step::Rotate((0..1 + random.below(2)).map(|_| secret(random)).collect()),
        67 => Step::Settings([1, 2, 3][random.below(3)]),
        68..72 => Step::Harm { object: random.below(1000), harm: HARMS[random.below(HARMS.len())] },
        72..76 => Step::Heal,
        76..78 => Step::Remember,
        _ => Step::RollBack,
    };
    let at = random.below(70) as u64;
    let fault = match random.below(16) {
        0 | 1 => Fault::DeadBefore(at),
        2 | 3 => Fault::DeadAfter(at),
        4 => Fault::FailsAt(at),
        5 => Fault::FullFrom(at),
        6 => Fault::UnsyncedAt(at),
        7 => Fault::UnsyncedFrom(at),
        _ => Fault::None,
    };
    let cache = [Cache::None, Cache::New, Cache::Old, Cache::Old][random.below(4)];
    let mut others = Vec::new();
    if matches!(step, Step::BackUp { .. }) && random.below(3) == 0 {
        others = match random.below(3) {
            // Everything that may be deleted, at once.
            0 => vec![
                Step::Forget((0..FILES).collect()),
                PRUNE_ALL,
                Step::Sweep { is_patient: false, end_others: random.below(4) == 0 },
            ],
            1 => vec![any_prune(random), any_sweep(random)],
            _ => vec![back_up(random), life_cycle(random)],
        };
    }
    Move { step, fault, cache, others }
}

fn back_up(random: &mut SplitMix64) -> Step {
    let count = 1 + random.below(4);
    let files: BTreeSet<u64> = (0..count).map(|_| random.below(FILES) as u64).collect();
    Step::BackUp {
        files: files.into_iter().collect(),
        publish: random.below(3) == 0,
        parent: (random.below(2) == 0).then(|| random.below(1000)),
        tag: random.below(TAGS.len()),
    }
}

fn life_cycle(random: &mut SplitMix64) -> Step {
    let snapshot = random.below(1000);
    match random.below(16) {
        0..4 => Step::Forget((0..1 + random.below(3)).map(|_| random.below(1000)).collect()),
        4..6 => Step::Keep {
            last: [1, 2, 3, 4][random.below(4)],
            tag: (random.below(2) == 0).then(|| random.below(TAGS.len())),
        },
        6..9 => Step::BringBack(snapshot),
        9..11 => Step::Hold(snapshot),
        11..13 => Step::Release(snapshot),
        _ => {
            Step::Note { snapshot, tag: random.below(TAGS.len()), text: random.below(1000) as u64 }
        }
    }
}

fn any_prune(random: &mut SplitMix64) -> Step {
    Step::Prune {
        unused_max: [0.0, 0.05, 0.3, 1.0][random.below(4)],
        rewrite_bytes_max: [0, 60_000, u64::MAX, u64::MAX][random.below(4)],
        segment_count_max: [2, 500][random.below(2)],
        small_count_max: [2, 64][random.below(2)],
    }
}

fn any_sweep(random: &mut SplitMix64) -> Step {
    Step::Sweep { is_patient: random.below(3) == 0, end_others: random.below(6) == 0 }
}

fn secret(random: &mut SplitMix64) -> u8 {
    SECRETS[random.below(SECRETS.len())]
}
