//! Snapshots, clones, rollback, deletion and resizing, compared with plain vectors.

use std::collections::BTreeMap;

use cutpoint_testing::SplitMix64;
use cutpoint_volume::{Disk, FaultyFolder, Finding, Folder, Kept, Kind, Survival};

use crate::support::{BLOCK, COMPRESSIONS, MODES, Opened, block, create, open, read, write};

/// A volume and the bytes that each disk and each snapshot must have.
struct World {
    folder: FaultyFolder,
    opened: Opened,
    contents: Contents,
    numbers: SplitMix64,
    next_name: u32,
}

impl World {
    fn new(seed: u64) -> World {
        let mut numbers = SplitMix64::new(seed);
        let folder = create(16, 4096, MODES[numbers.below(MODES.len())]);
        let opened = open(&folder);
        let compression = COMPRESSIONS[numbers.below(COMPRESSIONS.len())];
        opened.set_compression(compression.parse().expect("a compression")).expect("set");
        let contents = BTreeMap::from([("main".to_owned(), vec![0; 16 * BLOCK])]);
        World { folder, opened, contents, numbers, next_name: 0 }
    }

    fn new_name(&mut self) -> String {
        self.next_name += 1;
        format!("d{}", self.next_name)
    }

    /// Returns the name of a random disk, or of a snapshot.
    fn any(&mut self, is_snapshot: bool) -> Option<String> {
        let names = self.contents.keys().filter(|name| name.contains('@') == is_snapshot);
        let names: Vec<&String> = names.collect();
        (!names.is_empty()).then(|| names[self.numbers.below(names.len())].clone())
    }

    fn step(&mut self) {
        let disk = self.any(false).expect("one disk stays");
        match self.numbers.below(32) {
            0..=13 => self.write(&disk),
            14 | 15 => self.zero(&disk),
            16..=18 => self.snapshot(&disk),
            19 | 20 => self.clone_one(),
            21 => self.roll_back(),
            22..=24 => self.delete(),
            25 | 26 => self.resize(&disk),
            27 => self.opened.clean().expect("cleaned"),
            28 => {
                let mut left = self.numbers.below(3);
                let stop = std::cell::Cell::new(left);
                let is_asked = || {
                    left = stop.get();
                    stop.set(left.saturating_sub(1));
                    left == 0
                };
                let is_asked = std::cell::RefCell::new(is_asked);
                self.opened.fold_layers(&|| (is_asked.borrow_mut())()).expect("folded");
            }
            29 => self.opened.checkpoint().expect("written"),
            30 => {
                let survivals = [Survival::All, Survival::Synced];
                let survival = survivals[self.numbers.below(2)];
                if matches!(survival, Survival::Synced) {
                    self.opened.flush().expect("flushed");
                }
                self.folder = self.folder.after_power_cut(survival);
                self.opened = open(&self.folder);
            }
            _ => self.compare_changes(),
        }
    }

    fn write(&mut self, name: &str) {
        let disk = Disk::open(&self.opened.volume, name).expect("a disk");
        let content = self.contents.get_mut(name).expect("a disk");
        let offset = self.numbers.below(content.len() / BLOCK) * BLOCK;
        let bytes = block(self.numbers.next(), BLOCK);
        disk.write(offset as u64, &bytes).expect("written");
        content[offset..offset + BLOCK].copy_from_slice(&bytes);
    }

    fn zero(&mut self, name: &str) {
        let disk = Disk::open(&self.opened.volume, name).expect("a disk");
        let content = self.contents.get_mut(name).expect("a disk");
        let start = self.numbers.below(content.len() / BLOCK) * BLOCK;
        let end = content.len().min(start + BLOCK * (1 + self.numbers.below(8)));
        disk.trim(start as u64, (end - start) as u64).expect("trimmed");
        content[start..end].fill(0);
    }

    fn snapshot(&mut self, disk: &str) {
        let name = self.new_name();
        self.opened.snapshot(disk, &name).expect("taken");
        self.contents.insert(format!("{disk}@{name}"), self.contents[disk].clone());
    }

    fn clone_one(&mut self) {
        let is_snapshot = self.numbers.below(2) == 0;
        let Some(from) = self.any(is_snapshot) else { return };
        let name = self.new_name();
        self.opened.clone_disk(&from, &name).expect("cloned");
        self.contents.insert(name, self.contents[&from].clone());
    }

    fn roll_back(&mut self) {
        let Some(from) = self.any(true) else { return };
        let (disk, snapshot) = from.split_once('@').expect("a snapshot");
        self.opened.roll_back(disk, snapshot).expect("rolled back");
        self.contents.insert(disk.to_owned(), self.contents[&from].clone());
    }

    fn delete(&mut self) {
        let is_snapshot = self.numbers.below(3) > 0;
        let Some(name) = self.any(is_snapshot) else { return };
        let prefix = format!("{name}@");
        let has_snapshots = self.contents.keys().any(|other| other.starts_with(&prefix));
        if name == "main" {
            return;
        }
        match self.opened.delete(&name) {
            Ok(()) => {
                assert!(!has_snapshots, "{name} has snapshots");
                self.contents.remove(&name);
            }
            Err(error) => {
                assert!(has_snapshots && error.kind() == Kind::Exists, "{error}");
            }
        }
    }

    fn resize(&mut self, disk: &str) {
        let len = (1 + self.numbers.below(24)) * BLOCK;
        self.opened.resize(disk, len as u64).expect("resized");
        self.contents.get_mut(disk).expect("a disk").resize(len, 0);
    }

    /// What a disk and its snapshot have not changed is equal.
    fn compare_changes(&mut self) {
        let Some(from) = self.any(true) else { return };
        let (disk, _) = from.split_once('@').expect("a snapshot");
        let changed = self.opened.volume.changed(&from, disk).expect("compared");
        let Some(changed) = changed else { return };
        let (old, new) = (&self.contents[&from], &self.contents[disk]);
        for at in (0..old.len().max(new.len())).step_by(BLOCK) {
            let is_changed = changed.iter().any(|range| range.contains(&(at as u64)));
            let same = old.get(at..at + BLOCK) == new.get(at..at + BLOCK);
            assert!(is_changed || same, "{from} and {disk} differ at {at}");
        }
    }

    /// Flips a bit of a file of a copy: each block is right, or cannot be read and is named by a check. Returns the
    /// number of blocks of disks and snapshots that cannot be read.
    fn damage(&mut self) -> usize {
        self.opened.checkpoint().expect("written");
        let folder = self.folder.after_power_cut(Survival::Synced);
        let names = folder.names().expect("listed");
        let name = &names[self.numbers.below(names.len())];
        let size = usize::try_from(folder.size(name).expect("a size")).expect("small");
        if size == 0 {
            return 0;
        }
        folder.flip(name, self.numbers.below(size), 5);
        let opened = open(&folder);
        let mut unreadable_count = 0;
        for (disk, content) in &self.contents {
            let opened = Disk::open(&opened.volume, disk).expect("it exists");
            for (number, expected) in (0_u64..).zip(content.chunks(BLOCK)) {
                let mut bytes = vec![0; BLOCK];
                match opened.read(number * BLOCK as u64, &mut bytes) {
                    Ok(()) => assert!(bytes == *expected, "{name}: {disk}, block {number}"),
                    Err(error) => {
                        assert_eq!(error.kind(), Kind::Corrupt, "{name}");
                        unreadable_count += 1;
                    }
                }
            }
        }
        let mut named_count = 0;
        let named = |finding: &Finding| named_count += usize::from(finding.block_count > 0);
        opened.check(named, || false).expect("checked");
        assert!(unreadable_count == 0 || named_count > 0, "{name}");
        assert!(unreadable_count == 0 || name.starts_with("segment"), "{name}");
        unreadable_count
    }

    fn compare(&self) {
        for (name, content) in &self.contents {
            let disk = Disk::open(&self.opened.volume, name).expect("it exists");
            assert_eq!(disk.size(), content.len() as u64, "{name}");
            assert_eq!(disk.is_read_only(), name.contains('@'), "{name}");
            let mut bytes = vec![0; content.len()];
            disk.read(0, &mut bytes).expect("read");
            assert!(bytes == *content, "{name}");
            let extents = disk.extents(0, disk.size(), usize::MAX).expect("extents");
            let mut at = 0;
            for extent in extents {
                let end = at + usize::try_from(extent.len).expect("small");
                for block in content[at..end].chunks(BLOCK) {
                    let is_zero = block.iter().all(|byte| *byte == 0);
                    assert_eq!(is_zero, extent.is_zero, "{name} at {at}");
                }
                at = end;
            }
            assert_eq!(at, content.len(), "{name}");
        }
        let snapshots = self.opened.snapshots();
        let snapshots = snapshots.iter().map(|it| format!("{}@{}", it.disk, it.name));
        let disks = self.opened.disks().into_iter().map(|disk| disk.name);
        let mut listed: Vec<String> = disks.chain(snapshots).collect();
        listed.sort_unstable();
        let expected: Vec<String> = self.contents.keys().cloned().collect();
        assert_eq!(listed, expected, "the names");
        assert_eq!(self.opened.audit(), Ok(()), "the tables");
    }
}

/// Makes random changes, and panics if a disk or a snapshot has a wrong value. Returns the number of flipped bits that
/// made blocks unreadable.
pub(crate) fn live(seed: u64) -> u32 {
    let mut world = World::new(seed);
    let mut damage_count = 0;
    for step in 0..200 {
        world.step();
        if step % 20 == 0 {
            world.compare();
            damage_count += u32::from(world.damage() > 0);
        }
    }
    world.compare();
    // Everything that only deleted snapshots had is freed.
    for name in world.contents.keys().filter(|name| name.contains('@')) {
        world.opened.delete(name).expect("deleted");
    }
    world.contents.retain(|name, _| !name.contains('@'));
    world.opened.clean().expect("cleaned");
    world.compare();
    let disks = world.contents.len() as u64;
    let layers = world.opened.statistics().expect("statistics").layer_count;
    assert!(layers < 2 * disks, "seed {seed}: {layers} layers for {disks} disks");
    damage_count
}

#[test]
fn disks_and_snapshots_agree_with_vectors() {
    let seeds = crate::support::seed_count(30);
    let damage_count: u32 = (0..seeds).map(live).sum();
    assert!(damage_count > 20, "{damage_count} bits made blocks unreadable");
}

#[test]
fn catalog_survives_a_power_cut_at_once() {
    let folder = create(8, 4096, "exact");
    let volume = open(&folder);
    write(&volume, 0, &block(1, BLOCK));
    volume.snapshot("main", "first").expect("taken");
    write(&volume, 0, &block(2, BLOCK));
    volume.clone_disk("main@first", "other").expect("cloned");
    volume.resize("other", 3 * 4096).expect("resized");
    volume.create_disk("third", 4096).expect("created");
    volume.delete("third").expect("deleted");
    let volume = open(&folder.after_power_cut(Survival::Synced));
    let disks: Vec<_> = volume.disks().into_iter().map(|it| (it.name, it.size)).collect();
    assert_eq!(disks, [("main".to_owned(), 8 * 4096), ("other".to_owned(), 3 * 4096)]);
    let other = Disk::open(&volume.volume, "other").expect("a disk");
    let mut bytes = vec![0; BLOCK];
    other.read(0, &mut bytes).expect("read");
    assert_eq!(bytes, block(1, BLOCK));
    assert_eq!(read(&volume, 0).expect("read"), block(2, BLOCK), "before the clone");
}

/// A command that changes the catalog.
type Command = fn(&Opened) -> cutpoint_volume::Result<()>;

const COMMANDS: [(&str, Command); 9] = [
    ("snapshot", |it| it.snapshot("main", "second")),
    ("clone of a snapshot", |it| it.clone_disk("main@first", "clone")),
    ("clone of a disk", |it| it.clone_disk("main", "clone")),
    ("rollback", |it| it.roll_back("main", "first")),
    ("growth", |it| it.resize("main", 12 * 4096)),
    ("shrinking", |it| it.resize("main", 4096)),
    ("creation", |it| it.create_disk("new", 2 * 4096)),
    ("deletion of a snapshot", |it| it.delete("main@first")),
    ("deletion of a disk", |it| it.delete("other")),
];

/// The bytes of each disk and each snapshot.
type Contents = BTreeMap<String, Vec<u8>>;

fn catalog(opened: &Opened) -> Contents {
    let snapshots = opened.snapshots().into_iter().map(|it| format!("{}@{}", it.disk, it.name));
    let names = opened.disks().into_iter().map(|it| it.name).chain(snapshots);
    let contents = names.map(|name| {
        let disk = Disk::open(&opened.volume, &name).expect("listed");
        let mut bytes = vec![0; usize::try_from(disk.size()).expect("small")];
        disk.read(0, &mut bytes).expect("read");
        (name, bytes)
    });
    contents.collect()
}

/// Carries out a command on two disks, one with a snapshot, and cuts the power before each call that
/// changes the folder and behind the last one.
fn cut_during(mode: &str, name: &str, command: Command) {
    let folder = create(8, 4096, mode);
    let volume = open(&folder);
    volume.create_disk("other", 2 * 4096).expect("created");
    let other = Disk::open(&volume.volume, "other").expect("a disk");
    other.write(0, &block(1, BLOCK)).expect("written");
    (0..6).for_each(|number| write(&volume, number, &block(number + 1, BLOCK)));
    volume.snapshot("main", "first").expect("taken");
    write(&volume, 0, &block(8, BLOCK));
    write(&volume, 7, &block(9, BLOCK));
    volume.flush().expect("flushed");
    let before = catalog(&volume);
    drop(volume);
    let folder = folder.after_power_cut(Survival::Synced);
    let after = {
        let volume = open(&folder.after_power_cut(Survival::All));
        command(&volume).expect("carried out");
        catalog(&volume)
    };
    assert_ne!(before, after, "{name}");
    for count in 0.. {
        let folder = folder.after_power_cut(Survival::All);
        let volume = open(&folder);
        folder.cut_power_after(count);
        let is_done = command(&volume).is_ok();
        let is_over = folder.refused().is_none();
        assert!(is_done || !is_over, "{name}: it has failed with power");
        // The records of the change and their summary are torn anywhere, or their sectors are not there.
        for at in (0..2048).step_by(64) {
            for kept in [Kept::First(at), Kept::Without(at..at + 128), Kept::Without(at..2048)] {
                for has_names in [false, true] {
                    let bytes = |_: &str, _: usize| kept.clone();
                    let names = |_: &str| has_names;
                    let survival = Survival::Part { bytes: &bytes, name: &names };
                    let volume = open(&folder.after_power_cut(survival));
                    let now = catalog(&volume);
                    let at = format!("{mode}, {name}, call {count}, {kept:?}");
                    assert_eq!(volume.audit(), Ok(()), "{at}");
                    let is_before = !is_done && now == before;
                    assert!(now == after || is_before, "{at}: {:?}", now.keys());
                    let len = now["main"].len();
                    volume.resize("main", 12 * 4096).expect("resized");
                    let is_zeroed = catalog(&volume)["main"][len..].iter().all(|byte| *byte == 0);
                    assert!(is_zeroed, "{at}: grown afterwards");
                }
            }
        }
        if is_over {
            break;
        }
    }
}

#[test]
fn power_cut_during_a_change_of_the_catalog_leaves_all_or_nothing_of_it() {
    for (name, command) in COMMANDS {
        cut_during("burst", name, command);
    }
}

/// Each bit of the two records of a change.
#[test]
fn change_of_the_catalog_survives_a_flipped_bit() {
    flip_change();
}

/// Flips a bit of each byte, and panics if the change is lost.
pub(crate) fn flip_change() {
    let folder = create(8, 4096, "exact");
    let volume = open(&folder);
    volume.snapshot("main", "first").expect("taken");
    write(&volume, 0, &block(1, BLOCK));
    volume.flush().expect("flushed");
    write(&volume, 1, &block(3, BLOCK));
    volume.flush().expect("flushed");
    let folder = folder.after_power_cut(Survival::Synced);
    // The header of the segment, and two records with their payloads.
    for offset in 0..128 + 2 * 256 {
        let damaged = folder.after_power_cut(Survival::Synced);
        damaged.flip("segment-0000000000000001", offset, 3);
        let volume = open(&damaged);
        assert_eq!(volume.snapshots().len(), 1, "byte {offset}");
        assert_eq!(read(&volume, 0).expect("read"), block(1, BLOCK), "byte {offset}");
    }
}

#[test]
fn snapshot_and_unknown_names_are_refused() {
    let folder = create(8, 4096, "exact");
    let volume = open(&folder);
    volume.snapshot("main", "first").expect("taken");
    let snapshot = Disk::open(&volume.volume, "main@first").expect("a snapshot");
    for refused in [snapshot.write(0, &[1; 4096]), snapshot.trim(0, 4096)] {
        assert_eq!(refused.expect_err("a snapshot").kind(), Kind::ReadOnly);
    }
    for (refused, kind) in [
        (volume.snapshot("main", "first"), Kind::Exists),
        (volume.snapshot("none", "first"), Kind::Missing),
        (volume.snapshot("main", "a@b"), Kind::Invalid),
        (volume.create_disk("main", 4096), Kind::Exists),
        (volume.create_disk("-x", 4096), Kind::Invalid),
        (volume.create_disk("x", 4097), Kind::Invalid),
        (volume.clone_disk("main@second", "x"), Kind::Missing),
        (volume.clone_disk("main@first", "main"), Kind::Exists),
        (volume.roll_back("main", "second"), Kind::Missing),
        (volume.delete("main"), Kind::Exists),
        (volume.delete("main@second"), Kind::Missing),
        (volume.resize("none", 4096), Kind::Missing),
        (volume.resize("main", 0), Kind::Invalid),
    ] {
        assert_eq!(refused.expect_err("refused").kind(), kind);
    }
    let disk = volume.disk.clone();
    volume.delete("main@first").expect("deleted");
    volume.delete("main").expect("deleted");
    assert_eq!(disk.read(0, &mut [0]).expect_err("gone").kind(), Kind::Missing);
    assert_eq!(disk.size(), 0);
}
