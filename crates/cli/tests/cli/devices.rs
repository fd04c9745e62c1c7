//! Block devices that are named as sources.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::process::Command;

use cutpoint_testing::{SplitMix64, skipped};

use crate::sandbox::Sandbox;

/// A loop device over a file, detached at the end.
struct Loop(String);

impl Loop {
    /// Attaches `file`; `None` if that is not possible here.
    fn attach(file: &std::path::Path) -> Option<Loop> {
        let output = Command::new("losetup").args(["-f", "--show"]).arg(file).output().ok()?;
        let name = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        (output.status.success() && !name.is_empty()).then_some(Loop(name))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        Command::new("losetup").args(["-d", &self.0]).status().ok();
    }
}

#[test]
fn named_device_is_saved_with_its_content() {
    let sandbox = Sandbox::with_repository();
    let image = sandbox.path("image");
    let mut bytes = SplitMix64::bytes(3, 3 << 20);
    bytes[1 << 20..2 << 20].fill(0);
    fs::write(&image, &bytes).expect("written");
    let Some(device) = Loop::attach(&image) else {
        skipped("a loop device cannot be attached, which needs root and losetup");
        return;
    };
    fs::create_dir(sandbox.path("volumes")).expect("made");
    let link = sandbox.path("volumes/home");
    symlink(&device.0, &link).expect("linked");
    let backup = |path: &str| {
        let events = sandbox.json(["backup", path]);
        let warned = events.iter().any(|event| event["type"] == "warning");
        assert!(!warned, "{events:?}");
        events.last().expect("a summary").clone()
    };
    let first = backup(&device.0);
    assert_eq!(first["size_bytes"], 3 << 20, "{first}");
    assert!(first["new_bytes"].as_u64() < Some(5 << 19), "zeros are not stored: {first}");
    assert!(sandbox.run(["cat", "latest", &device.0]).well().stdout == bytes, "the content");
    let second = backup("volumes/home");
    assert_eq!((&second["size_bytes"], &second["new_bytes"]), (&first["size_bytes"], &0.into()));
    let place = format!("latest:{}", link.display());
    assert!(sandbox.run(["cat", &place]).well().stdout == bytes, "by the name of the volume");
    let entries = sandbox.json(["ls", &place]);
    assert_eq!(entries[0]["kind"], "file", "{entries:?}");
    let diff = || sandbox.run(["diff", &place, "./volumes/home"]).well().text().to_owned();
    assert_eq!(diff(), "", "nothing differs");

    let written = fs::OpenOptions::new().write(true).open(&device.0).expect("it opens");
    written.write_all_at(b"changed", 5000).expect("written");
    written.sync_all().expect("synced");
    assert!(diff().starts_with("M "), "the content differs");
    let third = backup("volumes/home");
    assert_eq!(third["read_file_count"], 1, "no time shows the change: {third}");
    assert_eq!(&sandbox.run(["cat", &place]).well().stdout[5000..5007], b"changed");
    // Inside a folder, it is a link or a device.
    sandbox.run(["backup", "volumes"]).well();
    let folder = format!("latest:{}", sandbox.path("volumes").display());
    let entries = sandbox.json(["ls", &folder]);
    assert_eq!(entries[0]["kind"], "symlink", "{entries:?}");
}
