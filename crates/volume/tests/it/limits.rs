//! Arguments out of range, and what a volume refuses.

use cutpoint_volume::{
    Access, CreateOptions, FaultyFolder, Folder, Kind, Mode, OpenOptions, Volume,
};

use crate::support::{create, open, open_folder, shared, try_open};

#[test]
fn options_out_of_range_are_refused() {
    for (size, block_size) in
        [(0, 4096), (4095, 4096), (6144, 4096), (1 << 20, 2048), (1 << 20, 131_072), (12288, 6144)]
    {
        let options = CreateOptions::new(size, block_size, Mode::Off);
        let error =
            Volume::create(&shared(&FaultyFolder::default()), &options).expect_err("refused");
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
    }
    let options = CreateOptions::new(1 << 62, 4096, Mode::Off);
    let error = Volume::create(&shared(&FaultyFolder::default()), &options).expect_err("too large");
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
}

#[test]
fn folder_that_is_not_empty_is_refused() {
    let folder = create(8, 4096, "off");
    let options = CreateOptions::new(1 << 20, 4096, Mode::Off);
    let error = Volume::create(&shared(&folder), &options).expect_err("refused");
    assert_eq!(error.kind(), Kind::Exists);
}

#[test]
fn folder_without_a_volume_is_missing() {
    assert_eq!(try_open(&FaultyFolder::default()).expect_err("no volume").kind(), Kind::Missing);
}

#[test]
fn range_behind_the_end_is_refused() {
    let volume = open(&create(4, 4096, "exact"));
    let size = volume.size();
    for (offset, len) in [(size, 1), (size - 1, 2), (u64::MAX, 1), (u64::MAX - 3, 8)] {
        let mut bytes = vec![0; usize::try_from(len).expect("small")];
        for refused in [
            volume.read(offset, &mut bytes),
            volume.write(offset, &bytes),
            volume.trim(offset, len),
            volume.write_zeroes(offset, len),
            volume.extents(offset, len, 8).map(drop),
        ] {
            assert_eq!(refused.expect_err("behind the end").kind(), Kind::Invalid);
        }
    }
    volume.read(size, &mut []).expect("nothing is behind the end");
}

#[test]
fn volume_opened_for_reading_changes_nothing() {
    let folder = create(4, 4096, "exact");
    let volume = open(&folder);
    volume.write(0, &[7; 4096]).expect("written");
    drop(volume);
    let before = folder.names().expect("names");
    let volume = open_folder(shared(&folder), &OpenOptions::new(Access::Read)).expect("opened");
    let mut bytes = [0; 4096];
    volume.read(0, &mut bytes).expect("read");
    assert_eq!(bytes, [7; 4096]);
    for refused in [
        volume.write(0, &bytes),
        volume.trim(0, 4096),
        volume.write_zeroes(0, 4096),
        volume.set_mode(Mode::Off),
    ] {
        assert_eq!(refused.expect_err("reading only").kind(), Kind::ReadOnly);
    }
    volume.flush().expect("nothing to flush");
    volume.checkpoint().expect("nothing to write");
    assert_eq!(folder.names().expect("names"), before);
}

#[test]
fn zeros_take_no_space() {
    let volume = open(&create(4, 4096, "off"));
    volume.write(0, &[0; 8192]).expect("written");
    volume.write_zeroes(0, 16384).expect("zeroed");
    volume.trim(0, 16384).expect("trimmed");
    let statistics = volume.statistics().expect("statistics");
    assert_eq!((statistics.used_block_count, statistics.live_bytes), (0, 0));
}
