//! Encrypted volumes.

use cutpoint_volume::{Access, Folder, Kind, OpenOptions, Volume};

use crate::support::{
    BLOCK, block, create, create_encrypted, open, open_folder, read, shared, write,
};

#[test]
fn encrypted_volume_opens_with_its_secret_only() {
    let folder = create_encrypted(8, "exact");
    let options = OpenOptions::new(Access::Write);
    let error = open_folder(shared(&folder), &options).expect_err("no secret");
    assert_eq!(error.kind(), Kind::Locked);
    let error = Volume::unlock(&shared(&folder), b"wrong").expect_err("a wrong passphrase");
    assert_eq!(error.kind(), Kind::Locked);
    let volume = open(&folder);
    write(&volume, 0, &block(1, BLOCK));
    drop(volume);
    assert_eq!(read(&open(&folder), 0).expect("read"), block(1, BLOCK));
}

#[test]
fn no_content_is_in_any_file() {
    let folder = create_encrypted(16, "burst");
    let volume = open(&folder);
    let marked = |number: u8| {
        let mut bytes = block(u64::from(number), BLOCK);
        bytes[1000..1032].copy_from_slice(b"a text that nobody must find ...");
        bytes
    };
    (0..16).for_each(|number| write(&volume, number.into(), &marked(number)));
    volume.set_compression("lz4".parse().expect("a compression")).expect("set");
    (0..8).for_each(|number| write(&volume, number.into(), &marked(number + 40)));
    volume.snapshot("main", "a-name-of-a-snapshot").expect("taken");
    volume.flush().expect("flushed");
    for name in folder.names().expect("names") {
        let size = usize::try_from(folder.size(&name).expect("a size")).expect("small");
        let mut bytes = vec![0; size];
        folder.read_at(&name, 0, &mut bytes).expect("read");
        let has = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
        assert!(!has(b"a text that nobody"), "{name}");
        // The catalog of a checkpoint is not encrypted, that of the log is.
        assert!(!has(b"a-name-of-a-snapshot") || name.starts_with("checkpoint-"), "{name}");
    }
}

#[test]
fn volume_in_the_place_of_an_encrypted_one_is_refused() {
    let encrypted = create_encrypted(8, "exact");
    let secret = Volume::unlock(&shared(&encrypted), b"correct horse").expect("right");
    let other = create(8, 4096, "exact");
    let options = OpenOptions { secret, ..OpenOptions::new(Access::Write) };
    let error = open_folder(shared(&other), &options).expect_err("not encrypted");
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(Volume::unlock(&shared(&other), b"any").expect("not encrypted").is_none());
}

#[test]
fn passphrases_are_added_and_removed() {
    let folder = shared(&create_encrypted(8, "exact"));
    let secret = Volume::unlock(&folder, b"correct horse").expect("right").expect("encrypted");
    let number = Volume::add_key(&folder, &secret, b"another", "laptop").expect("added");
    let keys = Volume::keys(&folder).expect("keys");
    assert_eq!(keys.iter().map(|key| key.number).collect::<Vec<_>>(), [1, number]);
    assert_eq!(keys[1].note, "laptop");
    Volume::remove_key(&folder, 1).expect("removed");
    assert!(Volume::unlock(&folder, b"correct horse").is_err(), "removed");
    assert!(Volume::unlock(&folder, b"another").is_ok(), "it stays");
    assert!(Volume::remove_key(&folder, number).is_err(), "the last one");
}
