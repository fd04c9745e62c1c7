//! Virtual disks: what a client sends, and what lies in the folder.

use std::io::{self, Cursor, Read, Write};
use std::sync::{Arc, LazyLock};

use cutpoint_volume::nbd::{VolumeExports, serve_connection};
use cutpoint_volume::{
    Access, CreateOptions, Disk, FaultyFolder, Folder, Mutant, OpenOptions, Secret, Survival,
    Volume, activate,
};

/// A volume in memory, and its secret if it is encrypted.
struct Seed {
    folder: FaultyFolder,
    secret: Option<Secret>,
}

/// Volumes with blocks, bursts or deltas, a snapshot and a checkpoint, and records behind that.
static SEEDS: LazyLock<[Seed; 4]> = LazyLock::new(|| {
    [
        seed("burst", "none", false),
        seed("delta", "lz4", false),
        seed("burst-head-raw", "zstd", false),
        seed("burst", "zstd", true),
    ]
});

fn seed(mode: &str, compression: &str, is_encrypted: bool) -> Seed {
    let folder = FaultyFolder::default();
    let shared: Arc<dyn Folder> = Arc::new(folder.clone());
    let options = CreateOptions {
        compression: compression.parse().expect("a compression"),
        passphrase: is_encrypted.then(|| b"a passphrase".to_vec()),
        ..CreateOptions::new(1 << 20, 4096, mode.parse().expect("a mode"))
    };
    Volume::create(&shared, &options).expect("created");
    let secret = Volume::unlock(&shared, b"a passphrase").expect("the right passphrase");
    let (volume, disk) = open(&folder, secret.as_ref()).expect("opened");
    for number in 0..20_u8 {
        disk.write(u64::from(number) * 4096, &[number % 7; 4096]).expect("written");
        disk.write(u64::from(number) * 4096 + 2000, &[number]).expect("written");
        if number == 10 {
            volume.snapshot("main", "first").expect("taken");
            volume.checkpoint().expect("written");
        }
    }
    volume.flush().expect("flushed");
    Seed { folder: folder.after_power_cut(Survival::All), secret }
}

fn open(folder: &FaultyFolder, secret: Option<&Secret>) -> Option<(Arc<Volume>, Disk)> {
    let secret = secret.cloned();
    let options = OpenOptions { memory: 64 * 1024, secret, ..OpenOptions::new(Access::Write) };
    let volume = Arc::new(Volume::open(Arc::new(folder.clone()), &options).ok()?);
    let disk = Disk::open(&volume, "main").ok()?;
    Some((volume, disk))
}

/// A peer that sends bytes without waiting for answers.
struct Peer<'a>(Cursor<&'a [u8]>);

impl Read for Peer<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Peer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client that sends `input`: the handshake as well if the first byte is even.
pub(crate) fn requests(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    let Seed { folder, secret } = &SEEDS[usize::from(*first / 2) % SEEDS.len()];
    let (volume, _) =
        open(&folder.after_power_cut(Survival::All), secret.as_ref()).expect("opened");
    let go = [b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0".as_slice(), rest].concat();
    let sent = if first.is_multiple_of(2) { rest } else { &go };
    // A peer that breaks the protocol is told by the end of the connection.
    serve_connection(&mut Peer(Cursor::new(sent)), &VolumeExports(Arc::clone(&volume))).ok();
    assert_eq!(volume.audit(), Ok(()), "the tables");
}

/// A file of the folder with other bytes in it, at a place that the first four bytes of `input` name. Unless the
/// first byte is even, checksums count as right.
pub(crate) fn files(input: &[u8]) {
    let Some(([kind, file, high, low], bytes)) = input.split_first_chunk() else { return };
    let Seed { folder, secret } = &SEEDS[usize::from(*kind / 2) % SEEDS.len()];
    let folder = folder.after_power_cut(Survival::All);
    let mut names = folder.names().expect("names");
    names.sort_unstable();
    let name = &names[usize::from(*file) % names.len()];
    let size = usize::try_from(folder.size(name).expect("a size")).expect("small");
    let start = usize::from(u16::from_le_bytes([*low, *high])) % size;
    for (offset, byte) in (start..size).zip(bytes) {
        for bit in (0..8).filter(|bit| byte >> bit & 1 != 0) {
            folder.flip(name, offset, bit);
        }
    }
    activate((kind % 2 != 0).then_some(Mutant::TrustsChecksums));
    use_volume(&folder, secret.as_ref());
    activate(None);
}

/// Uses a damaged volume. It is refused, or blocks are errors; nothing panics.
fn use_volume(folder: &FaultyFolder, secret: Option<&Secret>) {
    let Some((volume, disk)) = open(folder, secret) else { return };
    let mut block = [0; 4096];
    for number in 0..20 {
        disk.read(number * 4096, &mut block).ok();
    }
    volume.check(|_| (), || false).ok();
    disk.write(0, &block).ok();
    disk.write(4096 * 3 + 1000, &[1; 8000]).ok();
    disk.trim(4096 * 12, 4096 * 4).ok();
    volume.snapshot("main", "second").ok();
    volume.delete("main@first").ok();
    volume.fold_layers(&|| false).ok();
    volume.clean().ok();
    volume.checkpoint().ok();
    volume.statistics().ok();
}
