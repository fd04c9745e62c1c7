//! Writers, flushes and the cleaner at once, with power cuts at any time.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use cutpoint_testing::SplitMix64;
use cutpoint_volume::{FaultyFolder, Folder, Kept, Mutant, Survival, activate};

use crate::support::{BLOCK, Opened, create, open, open_folder, options, read, try_open, write};

const BLOCK_COUNT: u32 = 48;
const WRITERS: u32 = 3;
const ROUNDS: u32 = 1500;

/// Returns the content of a block in a version, which resembles other blocks.
fn content(block: u32, version: u32) -> Vec<u8> {
    let mut bytes = SplitMix64::bytes(u64::from(block % 5), BLOCK);
    bytes[2000..2004].copy_from_slice(&block.to_le_bytes());
    bytes[2004..2008].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Returns the version of a block that was read; 0 is before the first one.
fn version(block: u32, bytes: &[u8]) -> Option<u32> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Some(0);
    }
    let version = u32::from_le_bytes(bytes[2004..2008].try_into().expect("four bytes"));
    (bytes == content(block, version)).then_some(version)
}

/// Writes the blocks of one writer in rising versions, and tells which ones were flushed.
fn write_versions(volume: &Opened, writer: u32, flushed: &[AtomicU32]) {
    let mut numbers = SplitMix64::new(writer.into());
    let mut written = vec![0; flushed.len()];
    for round in 1..=ROUNDS {
        let block = numbers.below(flushed.len() / WRITERS as usize) * WRITERS as usize;
        let block = block + writer as usize;
        let number = u32::try_from(block).expect("few");
        written[block] = round;
        write(volume, number.into(), &content(number, round));
        if numbers.below(40) == 0 {
            volume.flush().expect("flushed");
            for (flushed, written) in flushed.iter().zip(&written) {
                flushed.fetch_max(*written, Ordering::SeqCst);
            }
        }
    }
}

/// Checks what a power cut leaves now.
fn cut(folder: &FaultyFolder, flushed: &[AtomicU32], seed: u64) {
    let least: Vec<u32> = flushed.iter().map(|it| it.load(Ordering::SeqCst)).collect();
    let bytes = |name: &str, len: usize| {
        let name: u64 = name.bytes().map(u64::from).sum();
        Kept::First(SplitMix64::new(seed ^ name).below(len + 1))
    };
    let name = |_: &str| seed.is_multiple_of(2);
    let part = Survival::Part { bytes: &bytes, name: &name };
    let survival = if seed.is_multiple_of(3) { Survival::Synced } else { part };
    let volume = try_open(&folder.after_power_cut(survival)).expect("opened");
    assert_eq!(volume.audit(), Ok(()), "the tables");
    for (block, least) in (0..).zip(least) {
        let bytes = read(&volume, u64::from(block)).expect("no block is gone");
        let version = version(block, &bytes).expect("a value that was written");
        assert!(version >= least, "block {block}: version {version}, {least} was flushed");
    }
}

#[test]
fn power_cut_during_writes_and_cleaning_leaves_what_was_flushed() {
    let folder = create(BLOCK_COUNT.into(), 4096, "burst:c_max=1");
    let volume = open(&folder);
    let flushed: Vec<AtomicU32> = (0..BLOCK_COUNT).map(|_| AtomicU32::new(0)).collect();
    let is_over = AtomicBool::new(false);
    let mut cut_count = 0;
    std::thread::scope(|scope| {
        let writers = [0, 1, 2].map(|writer| {
            let (volume, flushed) = (&volume, &flushed);
            scope.spawn(move || write_versions(volume, writer, flushed))
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                volume.clean().expect("cleaned");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        while writers.iter().any(|writer| !writer.is_finished()) {
            cut(&folder, &flushed, cut_count);
            cut_count += 1;
        }
        is_over.store(true, Ordering::SeqCst);
    });
    assert!(cut_count > 5, "{cut_count} power cuts");
    volume.flush().expect("flushed");
    let volume = open(&folder.after_power_cut(Survival::Synced));
    assert!(
        (0..BLOCK_COUNT).all(|block| {
            let bytes = read(&volume, block.into()).expect("read");
            version(block, &bytes) >= Some(flushed[block as usize].load(Ordering::SeqCst))
        }),
        "after the last flush"
    );
}

/// A call in the middle of another one.
type Hook = Box<dyn FnOnce() + Send>;

/// A folder that calls a hook when names are synced, another one before bytes are written, and another one before
/// they are read, once.
#[derive(Clone)]
struct Hooked {
    folder: FaultyFolder,
    hook: Arc<Mutex<Option<Hook>>>,
    on_write: Arc<Mutex<Option<Hook>>>,
    on_read: Arc<Mutex<Option<Hook>>>,
}

impl Hooked {
    fn new(folder: &FaultyFolder) -> Hooked {
        Hooked {
            folder: folder.clone(),
            hook: Arc::default(),
            on_write: Arc::default(),
            on_read: Arc::default(),
        }
    }
}

impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooked").finish_non_exhaustive()
    }
}

impl Folder for Hooked {
    fn names(&self) -> io::Result<Vec<String>> {
        self.folder.names()
    }

    fn create(&self, name: &str) -> io::Result<()> {
        self.folder.create(name)
    }

    fn write_at(&self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let hook = self.on_write.lock().expect("a hook").take();
        if let Some(hook) = hook {
            hook();
        }
        self.folder.write_at(name, offset, bytes)
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let hook = self.on_read.lock().expect("a hook").take();
        if let Some(hook) = hook {
            hook();
        }
        self.folder.read_at(name, offset, buffer)
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        self.folder.size(name)
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.folder.sync(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.folder.sync_names()?;
        let hook = self.hook.lock().expect("a hook").take();
        if let Some(hook) = hook {
            hook();
        }
        Ok(())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.folder.delete(name)
    }
}

/// While a checkpoint is written, another client overwrites the only live block of an old segment. The
/// power is cut before that is durable.
pub(crate) fn overwrite_during_a_checkpoint() -> Result<(), String> {
    let folder = create(64, 4096, "exact");
    let hooked = Hooked::new(&folder);
    let volume = open_folder(Arc::new(hooked.clone()), &options());
    let volume = Arc::new(volume.map_err(|error| error.to_string())?);
    // Two segments, and a third one that gets the next records.
    for round in 0..3 {
        for block in 1..16_u32 {
            write(&volume, block.into(), &content(1, 100 * round + block));
        }
        if round == 0 {
            write(&volume, 0, &content(0, 1));
        }
    }
    volume.flush().map_err(|error| error.to_string())?;
    let client = Arc::clone(&volume);
    *hooked.hook.lock().expect("a hook") =
        Some(Box::new(move || write(&client, 0, &content(0, 2))));
    volume.checkpoint().map_err(|error| error.to_string())?;
    let volume =
        try_open(&folder.after_power_cut(Survival::Synced)).map_err(|it| it.to_string())?;
    let bytes = read(&volume, 0).map_err(|error| error.to_string())?;
    version(0, &bytes).filter(|version| *version > 0).map(drop).ok_or("a wrong value".to_owned())
}

#[test]
fn block_freed_during_a_checkpoint_survives_a_power_cut() {
    assert_eq!(overwrite_during_a_checkpoint(), Ok(()));
}

/// While the record of a block is appended, another client writes `other` to block 1. Returns the volume
/// after both.
fn write_during_an_append(mode: &str, block: &[u8], other: Vec<u8>) -> Opened {
    let folder = create(8, 4096, mode);
    let hooked = Hooked::new(&folder);
    let volume = Arc::new(open_folder(Arc::new(hooked.clone()), &options()).expect("opened"));
    let (client, writer) = (Arc::clone(&volume), Arc::new(Mutex::new(None)));
    let started = Arc::clone(&writer);
    *hooked.on_write.lock().expect("a hook") = Some(Box::new(move || {
        let thread = std::thread::spawn(move || write(&client, 1, &other));
        // The other client has come far enough to wait, or would have written by now.
        std::thread::sleep(Duration::from_millis(50));
        *started.lock().expect("a thread") = Some(thread);
    }));
    write(&volume, 0, block);
    let thread = writer.lock().expect("a thread").take().expect("the hook was called");
    thread.join().expect("written");
    assert_eq!(volume.audit(), Ok(()), "the tables");
    Arc::into_inner(volume).expect("no other client is left")
}

/// Section IV of the paper, (b): a duplicate of a block that is being written waits, and counts.
#[test]
fn duplicate_of_a_block_that_is_being_written_waits_for_it() {
    for mode in ["exact", "burst", "delta"] {
        let block = content(1, 1);
        let volume = write_during_an_append(mode, &block, block.clone());
        let statistics = volume.statistics().expect("statistics");
        let counts = (statistics.full_count, statistics.counters.duplicate_count);
        assert_eq!(counts, (1, 1), "{mode}");
        assert_eq!(read(&volume, 1).expect("read"), block, "{mode}");
    }
}

/// Section IV, (c): no burst refers to a block of another request that is not in the log yet.
#[test]
fn burst_on_a_block_that_is_being_written_is_made_once_that_is_there() {
    for mode in ["burst", "delta"] {
        let (block, other) = (content(1, 1), content(1, 2));
        let volume = write_during_an_append(mode, &block, other.clone());
        let statistics = volume.statistics().expect("statistics");
        let dependents = statistics.burst_count + statistics.delta_count;
        assert_eq!((statistics.full_count, dependents), (1, 1), "{mode}");
        assert_eq!(read(&volume, 1).expect("read"), other, "{mode}");
    }
}

/// Section IV, (a) and (b): several clients write the same new block at the same moment, again and again. All
/// threads break the rule of the mutant.
pub(crate) fn equal_blocks_at_once(mutant: Option<Mutant>) -> Result<(), String> {
    const CLIENTS: u32 = 4;
    const BLOCKS: u32 = 400;
    let volume = open(&create((CLIENTS * BLOCKS).into(), 4096, "burst"));
    let barrier = Barrier::new(CLIENTS as usize);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (volume, barrier) = (&volume, &barrier);
            scope.spawn(move || {
                activate(mutant);
                for block in 0..BLOCKS {
                    barrier.wait();
                    let bytes = SplitMix64::bytes(block.into(), BLOCK);
                    write(volume, (client * BLOCKS + block).into(), &bytes);
                }
            });
        }
    });
    volume.audit()?;
    let statistics = volume.statistics().map_err(|error| error.to_string())?;
    let counts = (statistics.full_count, statistics.counters.duplicate_count);
    let expected = (u64::from(BLOCKS), u64::from(BLOCKS * (CLIENTS - 1)));
    if counts == expected { Ok(()) } else { Err(format!("{counts:?}, not {expected:?}")) }
}

#[test]
fn blocks_that_clients_write_at_once_are_stored_once() {
    assert_eq!(equal_blocks_at_once(None), Ok(()));
}

/// Section IV, (c): a burst refers to a block of the same request, which is not in the log yet.
pub(crate) fn burst_on_a_block_of_its_request() -> Result<(), String> {
    for mode in ["burst", "delta"] {
        let volume = open(&create(8, 4096, mode));
        let request = [content(1, 1), content(1, 2)].concat();
        volume.write(0, &request).map_err(|error| error.to_string())?;
        let statistics = volume.statistics().map_err(|error| error.to_string())?;
        let dependents = statistics.burst_count + statistics.delta_count;
        if (statistics.full_count, dependents, statistics.counters.cancelled_count) != (1, 1, 0) {
            return Err(format!("{mode}: {statistics:?}"));
        }
        if read(&volume, 1).map_err(|error| error.to_string())? != content(1, 2) {
            return Err(format!("{mode}: other bytes"));
        }
    }
    Ok(())
}

#[test]
fn burst_refers_to_a_block_of_its_request() {
    assert_eq!(burst_on_a_block_of_its_request(), Ok(()));
}

/// Section IV, (d): a burst is padded whatever is written beside it.
#[test]
fn burst_is_padded_while_another_block_is_written() {
    let volume = write_during_an_append("burst", &content(1, 1), content(1, 2));
    let statistics = volume.statistics().expect("statistics");
    assert_eq!((statistics.burst_count, statistics.burst_bytes), (1, 512));
    assert_eq!(statistics.counters.burst_bytes, 1, "without padding");
}

/// Section IV, (e): while a burst is read, the cleaner moves it and its reference block. The read still takes two
/// reads of the log, and so does the next one.
#[test]
fn burst_that_is_moved_while_it_is_read_takes_two_reads() {
    let folder = create(64, 4096, "burst");
    let hooked = Hooked::new(&folder);
    let volume = Arc::new(open_folder(Arc::new(hooked.clone()), &options()).expect("opened"));
    write(&volume, 0, &content(1, 1));
    write(&volume, 1, &content(1, 2));
    // Most blocks of the segment die.
    for round in 0..3 {
        let bytes = |block: u64| SplitMix64::bytes(100 * block + round, BLOCK);
        (2..16).for_each(|block| write(&volume, block, &bytes(block)));
    }
    volume.checkpoint().expect("written");
    let moved = || volume.statistics().expect("statistics").counters.moved_count;
    assert_eq!(moved(), 0);
    let (cleaner, thread) = (Arc::clone(&volume), Arc::new(Mutex::new(None)));
    let started = Arc::clone(&thread);
    let read_count = || folder.read_count();
    let reads_of = |read: &dyn Fn()| {
        let before = read_count();
        read();
        read_count() - before
    };
    // The pages of the tables are in memory from here on.
    let mut bytes = vec![0; BLOCK];
    volume.read(BLOCK as u64, &mut bytes).expect("read");
    *hooked.on_read.lock().expect("a hook") = Some(Box::new(move || {
        let thread = std::thread::spawn(move || cleaner.clean().expect("cleaned"));
        std::thread::sleep(Duration::from_millis(50));
        *started.lock().expect("a thread") = Some(thread);
    }));
    volume.read(BLOCK as u64, &mut bytes).expect("read");
    assert_eq!(bytes, content(1, 2), "while it is moved");
    let thread = thread.lock().expect("a thread").take().expect("the hook was called");
    thread.join().expect("cleaned");
    assert!(moved() >= 2, "{} blocks were moved", moved());
    assert_eq!(read(&volume, 1).expect("read"), content(1, 2), "after it was moved");
    assert!(reads_of(&|| drop(read(&volume, 1).expect("read"))) <= 2);
    assert_eq!(volume.audit(), Ok(()), "the tables");
}
