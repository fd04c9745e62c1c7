//! Power cuts at every point.

use std::collections::{BTreeMap, BTreeSet};

use cutpoint_testing::SplitMix64;
use cutpoint_volume::{Disk, FaultyFolder, Folder, Kept, Survival};

use crate::support::{
    BLOCK, COMPRESSIONS, MODES, Opened, block, create, create_encrypted, open, read, try_open,
};

const BLOCK_COUNT: u64 = 12;

/// The values that each block may have after a power cut: the one at the last flush and all later
/// ones.
#[derive(Clone)]
pub(crate) struct Allowed {
    blocks: BTreeMap<u64, Vec<Vec<u8>>>,
    /// The blocks of each snapshot, which is durable when it was taken.
    snapshots: BTreeMap<String, Vec<Vec<u8>>>,
    /// The snapshot that is being taken or deleted: it may be there or not.
    unsure: Option<(String, Vec<Vec<u8>>)>,
}

impl Allowed {
    fn new() -> Allowed {
        let blocks = (0..BLOCK_COUNT).map(|block| (block, vec![vec![0; BLOCK]])).collect();
        Allowed { blocks, snapshots: BTreeMap::new(), unsure: None }
    }

    fn write(&mut self, block: u64, bytes: Vec<u8>) {
        self.blocks.get_mut(&block).expect("a block").push(bytes);
    }

    /// Everything that was written so far is durable.
    fn flush(&mut self) {
        for values in self.blocks.values_mut() {
            values.drain(..values.len() - 1);
        }
    }

    /// Returns the last value of each block.
    fn last(&self) -> Vec<Vec<u8>> {
        self.blocks.values().filter_map(|values| values.last().cloned()).collect()
    }

    /// Checks a disk after a power cut, and fixes its values.
    fn compare(&mut self, volume: &Opened) -> Result<(), String> {
        volume.audit()?;
        for (block, values) in &mut self.blocks {
            let bytes = read(volume, *block).map_err(|error| format!("block {block}: {error}"))?;
            if !values.contains(&bytes) {
                return Err(format!("block {block} has a value that it must not have"));
            }
            *values = vec![bytes];
        }
        let unsure = self.unsure.take();
        self.snapshots.extend(
            unsure.filter(|(name, _)| {
                volume.snapshots().iter().any(|snapshot| snapshot.name == *name)
            }),
        );
        if volume.snapshots().len() != self.snapshots.len() {
            return Err(format!("{} snapshots", volume.snapshots().len()));
        }
        for (name, blocks) in &self.snapshots {
            let disk = Disk::open(&volume.volume, &format!("main@{name}"));
            let disk = disk.map_err(|error| error.to_string())?;
            let mut bytes = vec![0; blocks.len() * BLOCK];
            disk.read(0, &mut bytes).map_err(|error| format!("{name}: {error}"))?;
            if bytes != blocks.concat() {
                return Err(format!("{name} has a value that it must not have"));
            }
        }
        Ok(())
    }
}

/// Creates a volume, and returns the numbers for its run.
fn empty(seed: u64) -> (FaultyFolder, SplitMix64) {
    let mut numbers = SplitMix64::new(seed);
    let mode = MODES[numbers.below(MODES.len())];
    let is_encrypted = numbers.below(3) == 0;
    let folder = if is_encrypted {
        create_encrypted(BLOCK_COUNT, mode)
    } else {
        create(BLOCK_COUNT, 4096, mode)
    };
    (folder, numbers)
}

/// A volume under random writes.
pub(crate) struct Run {
    pub(crate) folder: FaultyFolder,
    volume: Opened,
    allowed: Allowed,
    numbers: SplitMix64,
}

impl Run {
    pub(crate) fn new(seed: u64) -> Run {
        let (folder, numbers) = empty(seed);
        let volume = open(&folder);
        Run { folder, volume, allowed: Allowed::new(), numbers }
    }

    pub(crate) fn step(&mut self) -> Result<(), String> {
        let first = self.numbers.next() % BLOCK_COUNT;
        let failed = |error: cutpoint_volume::Error| error.to_string();
        match self.numbers.below(27) {
            0..=15 => {
                let count = (1 + self.numbers.next() % 3).min(BLOCK_COUNT - first);
                let mut bytes = Vec::new();
                for each in first..first + count {
                    let block = block(self.numbers.next(), BLOCK);
                    bytes.extend_from_slice(&block);
                    self.allowed.write(each, block);
                }
                self.volume.write(first * BLOCK as u64, &bytes).map_err(failed)
            }
            16 | 17 => {
                self.allowed.write(first, vec![0; BLOCK]);
                self.volume.trim(first * BLOCK as u64, BLOCK as u64).map_err(failed)
            }
            18..=20 => self.flush(),
            21 => {
                self.volume.checkpoint().map_err(failed)?;
                self.allowed.flush();
                Ok(())
            }
            22 => {
                self.volume.clean().map_err(failed)?;
                self.allowed.flush();
                Ok(())
            }
            23 => {
                let mode = MODES[self.numbers.below(MODES.len())].parse().map_err(failed)?;
                self.volume.set_mode(mode).map_err(failed)?;
                let compression = COMPRESSIONS[self.numbers.below(COMPRESSIONS.len())];
                let compression = compression.parse().map_err(failed)?;
                self.volume.set_compression(compression).map_err(failed)?;
                // The change is durable.
                self.allowed.flush();
                Ok(())
            }
            24 | 25 => {
                let name = format!("s{}", self.numbers.next());
                self.allowed.unsure = Some((name.clone(), self.allowed.last()));
                self.volume.snapshot("main", &name).map_err(failed)?;
                self.allowed.flush();
                self.allowed.snapshots.extend(self.allowed.unsure.take());
                Ok(())
            }
            _ => {
                let Some((name, blocks)) = self.allowed.snapshots.pop_first() else {
                    return Ok(());
                };
                self.allowed.unsure = Some((name.clone(), blocks));
                self.volume.delete(&format!("main@{name}")).map_err(failed)?;
                self.allowed.unsure = None;
                self.allowed.flush();
                Ok(())
            }
        }
    }

    /// Overwrites a few blocks with bytes that no other block has.
    pub(crate) fn overwrite(&mut self) -> Result<(), String> {
        let first = self.numbers.next() % (BLOCK_COUNT - 2);
        let mut bytes = Vec::new();
        for each in first..first + 1 + self.numbers.next() % 3 {
            let block = SplitMix64::bytes(self.numbers.next(), BLOCK);
            bytes.extend_from_slice(&block);
            self.allowed.write(each, block);
        }
        self.volume.write(first * BLOCK as u64, &bytes).map_err(|error| error.to_string())
    }

    pub(crate) fn flush(&mut self) -> Result<(), String> {
        self.volume.flush().map_err(|error| error.to_string())?;
        self.allowed.flush();
        Ok(())
    }

    /// Writes a checkpoint, and lets nothing of it count as flushed.
    pub(crate) fn checkpoint(&mut self) -> Result<(), String> {
        self.volume.checkpoint().map_err(|error| error.to_string())
    }

    /// The process ends, and another one continues with all that was appended.
    pub(crate) fn continue_in_new_process(&mut self) -> Result<(), String> {
        self.cut(Survival::All)
    }

    /// The power is cut, and the run continues with what has survived.
    pub(crate) fn cut(&mut self, survival: Survival<'_>) -> Result<(), String> {
        self.folder = self.folder.after_power_cut(survival);
        self.volume = try_open(&self.folder).map_err(|error| error.to_string())?;
        if matches!(survival, Survival::All) {
            // Nothing was lost, and nothing became durable.
            let mut last = self.allowed.clone();
            last.flush();
            return last.compare(&self.volume);
        }
        self.allowed.compare(&self.volume)
    }

    /// Checks what a power cut would leave now, without one.
    pub(crate) fn would_survive(&self, survival: Survival<'_>) -> Result<(), String> {
        let folder = self.folder.after_power_cut(survival);
        let volume = try_open(&folder).map_err(|error| error.to_string())?;
        self.allowed.clone().compare(&volume)
    }

    /// Checks a power cut with a random part of what is not synced.
    pub(crate) fn random_part(&mut self, check: Check) -> Result<(), String> {
        let seed = self.numbers.next();
        let of_name = |name: &str| {
            let sum: u64 = name.bytes().map(u64::from).sum();
            SplitMix64::new(seed ^ sum)
        };
        let bytes = |name: &str, len: usize| {
            let mut numbers = of_name(name);
            if numbers.below(2) == 0 {
                return Kept::First(numbers.below(len + 1));
            }
            let start = numbers.below(len + 1);
            Kept::Without(start..start + numbers.below(len + 1 - start) + 1)
        };
        let name = |name: &str| of_name(name).next().is_multiple_of(3);
        let survival = Survival::Part { bytes: &bytes, name: &name };
        match check {
            Check::Try => self.would_survive(survival),
            Check::Continue => self.cut(survival),
        }
    }
}

/// The effect of a random power cut in a test.
#[derive(Clone, Copy)]
pub(crate) enum Check {
    Try,
    Continue,
}

/// Runs random writes with power cuts of all kinds.
pub(crate) fn storm(seed: u64, step_count: u32) -> Result<(), String> {
    let mut run = Run::new(seed);
    for step in 0..step_count {
        let at = |error| format!("seed {seed}, step {step}: {error}");
        run.step().map_err(at)?;
        run.would_survive(Survival::Synced).map_err(at)?;
        run.would_survive(Survival::All).map_err(at)?;
        for _ in 0..3 {
            run.random_part(Check::Try).map_err(at)?;
        }
        match run.numbers.below(30) {
            0 | 1 => run.random_part(Check::Continue).map_err(at)?,
            2 => run.cut(Survival::Synced).map_err(at)?,
            3 => run.continue_in_new_process().map_err(at)?,
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn every_power_cut_leaves_written_values_and_all_flushed_ones() {
    let seeds = crate::support::seed_count(24);
    for seed in 0..seeds {
        storm(seed, 60).expect("no value is wrong");
    }
}

/// Runs the same random steps again and again, with a power cut before each call that changes the folder.
/// Notes the kinds of these calls.
pub(crate) fn cut_at_every_call(
    seed: u64,
    step_count: u32,
    refused: &mut BTreeSet<String>,
) -> Result<(), String> {
    let (empty, numbers) = empty(seed);
    for count in 0.. {
        let folder = empty.after_power_cut(Survival::Synced);
        let volume = open(&folder);
        let numbers = numbers.clone();
        let mut run = Run { folder, volume, allowed: Allowed::new(), numbers };
        run.folder.cut_power_after(count);
        let is_over = (0..step_count).all(|_| run.step().is_ok());
        let Some(call) = run.folder.refused() else {
            let over = format!("seed {seed}: a step has failed with power");
            return is_over.then_some(()).ok_or(over);
        };
        let at = |error| format!("seed {seed}, before call {count}, {call}: {error}");
        refused.insert(call.split('-').next().expect("a kind").to_owned());
        run.would_survive(Survival::Synced).map_err(at)?;
        run.random_part(Check::Try).map_err(at)?;
        // Another process continues with all that was appended, until the power is cut again.
        run.folder = run.folder.after_power_cut(Survival::All);
        run.folder.cut_power_after(count % 8);
        if let Ok(volume) = try_open(&run.folder) {
            run.volume = volume;
            // What it has found is durable.
            run.allowed.compare(&run.volume).map_err(at)?;
            while run.folder.refused().is_none() {
                let step = run.step();
                run.folder.refused().map_or(step, |_| Ok(())).map_err(at)?;
            }
        }
        run.random_part(Check::Try).map_err(at)?;
        run.would_survive(Survival::Synced).map_err(at)?;
    }
    Ok(())
}

#[test]
fn power_cut_before_every_call_leaves_written_values_and_all_flushed_ones() {
    let mut refused = BTreeSet::new();
    for seed in 0..4 {
        cut_at_every_call(seed, 40, &mut refused).expect("no value is wrong");
    }
    let files = ["checkpoint", "part", "segment"];
    let calls = ["create", "delete", "sync", "write"];
    let calls = calls.iter().flat_map(|call| files.map(|file| format!("{call} {file}")));
    let calls: BTreeSet<String> = calls.chain(["sync names".to_owned()]).collect();
    assert_eq!(refused, calls, "the kinds of calls");
}

/// Each number of bytes at which the unsynced end of the log can be torn.
#[test]
fn log_torn_at_every_unit_is_a_prefix_of_the_writes() {
    for seed in 0..6 {
        let mut run = Run::new(seed);
        for _ in 0..8 {
            run.step().expect("a step");
        }
        run.flush().expect("flushed");
        for _ in 0..4 {
            run.step().expect("a step");
        }
        let name = |_: &str| true;
        for len in (0..24 * 1024).step_by(64).chain([1, 127, 129, 4095]) {
            let bytes = |_: &str, unsynced: usize| Kept::First(len.min(unsynced));
            run.would_survive(Survival::Part { bytes: &bytes, name: &name }).expect("a prefix");
            let bytes = |_: &str, _: usize| Kept::Without(len..len + 512);
            run.would_survive(Survival::Part { bytes: &bytes, name: &name }).expect("a prefix");
        }
    }
}

#[test]
fn writes_of_an_ended_process_are_durable_after_the_next_flush() {
    let folder = create(8, 4096, "exact");
    let volume = open(&folder);
    volume.write(0, &block(1, BLOCK)).expect("written");
    let folder = folder.after_power_cut(Survival::All);
    let volume = open(&folder);
    assert_eq!(read(&volume, 0).expect("read"), block(1, BLOCK));
    volume.write(BLOCK as u64, &block(2, BLOCK)).expect("written");
    volume.flush().expect("flushed");
    let volume = open(&folder.after_power_cut(Survival::Synced));
    assert_eq!(read(&volume, 0).expect("read"), block(1, BLOCK));
    assert_eq!(read(&volume, 1).expect("read"), block(2, BLOCK));
}

#[test]
fn flush_without_a_write_syncs_nothing() {
    let folder = create(8, 4096, "exact");
    let volume = open(&folder);
    volume.write(0, &block(1, BLOCK)).expect("written");
    volume.flush().expect("flushed");
    let before = folder.sync_count();
    volume.flush().expect("flushed");
    assert_eq!(folder.sync_count(), before);
}

#[test]
fn failed_sync_stops_writes_until_the_volume_is_opened_again() {
    let folder = create(8, 4096, "exact");
    let volume = open(&folder);
    volume.write(0, &block(1, BLOCK)).expect("written");
    folder.fail_syncs(true);
    assert!(volume.flush().is_err(), "the disk has failed");
    folder.fail_syncs(false);
    assert!(volume.flush().is_err(), "the bytes may be gone");
    assert!(volume.write(0, &block(2, BLOCK)).is_err(), "no write");
    assert_eq!(read(&volume, 0).expect("read"), block(1, BLOCK));
    drop(volume);
    let volume = open(&folder);
    volume.write(0, &block(2, BLOCK)).expect("written");
    volume.flush().expect("flushed");
}

#[test]
fn full_storage_refuses_writes_and_loses_nothing() {
    for room in (0..40_000).step_by(1777) {
        let folder = create(BLOCK_COUNT, 4096, "burst");
        let volume = open(&folder);
        let mut expected = vec![vec![0; BLOCK]; 12];
        folder.limit(Some(room));
        let mut refused_count = 0;
        for (number, expected) in expected.iter_mut().enumerate() {
            let bytes = block(100 + number as u64, BLOCK);
            match volume.write(number as u64 * 4096, &bytes) {
                Ok(()) => *expected = bytes,
                Err(error) => {
                    assert_eq!(error.kind(), cutpoint_volume::Kind::Full, "{error}");
                    refused_count += 1;
                }
            }
        }
        assert!(refused_count > 0, "{room} bytes are too few");
        folder.limit(None);
        volume.write(0, &block(5, BLOCK)).expect("there is room again");
        expected[0] = block(5, BLOCK);
        volume.flush().expect("flushed");
        for volume in [volume, open(&folder.after_power_cut(Survival::Synced))] {
            for (number, expected) in expected.iter().enumerate() {
                assert_eq!(&read(&volume, number as u64).expect("read"), expected, "{number}");
            }
            assert_eq!(volume.audit(), Ok(()));
        }
    }
}

#[test]
fn dead_segments_are_deleted_and_mostly_dead_ones_cleaned() {
    let folder = create(256, 4096, "exact");
    let volume = open(&folder);
    for number in 0..256 {
        volume.write(number * 4096, &SplitMix64::bytes(number, BLOCK)).expect("written");
    }
    assert!(!volume.clean_if_due(&|| false).expect("looked"), "nothing is dead");
    let live = |number: u64| number.is_multiple_of(10);
    for number in (0..256).filter(|number| !live(*number)) {
        volume.trim(number * 4096, 4096).expect("trimmed");
    }
    assert!(volume.clean_if_due(&|| false).expect("cleaned"), "most is dead");
    while volume.clean_if_due(&|| false).expect("looked") {}
    let statistics = volume.statistics().expect("statistics");
    let limit = statistics.live_bytes * 6 / 5 + 64 * 1024;
    let of_log: u64 = folder
        .names()
        .expect("names")
        .iter()
        .filter(|name| name.starts_with("segment-"))
        .map(|name| folder.size(name).expect("a size"))
        .sum();
    assert!(of_log <= limit, "{of_log} bytes of log for {} live bytes", statistics.live_bytes);
    for volume in [volume, open(&folder.after_power_cut(Survival::Synced))] {
        for number in 0..256 {
            let expected =
                if live(number) { SplitMix64::bytes(number, BLOCK) } else { vec![0; BLOCK] };
            assert_eq!(read(&volume, number).expect("read"), expected, "block {number}");
        }
    }
}
