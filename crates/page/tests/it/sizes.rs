//! The measurement of the space, and its drawings.

use std::fs;
use std::time::{Duration, Instant};

use cutpoint_page::server::PageOptions;
use cutpoint_page::space::{SpaceMonitor, measure};
use cutpoint_testing::SplitMix64;

use crate::scene::Scene;

/// Follows no progress.
struct Silent;

impl SpaceMonitor for Silent {
    fn progress(&self, done: u64, total: u64) {
        assert!(done <= total, "{done} of {total}");
    }

    fn is_cancelled(&self) -> bool {
        false
    }
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    SplitMix64::new(seed).take(len)
}

#[test]
fn each_stored_byte_has_one_place() {
    let scene = Scene::new();
    scene.write("kept/file", noise(1, 400_000));
    scene.write("kept/copy", noise(1, 400_000));
    scene.write("gone/file", noise(2, 200_000));
    scene.write("text", "the same line again and again\n".repeat(10_000));
    scene.back_up("host", -2);
    fs::remove_dir_all(scene.folder().join("gone")).unwrap();
    scene.back_up("host", -1);
    let reader = scene.reader();
    let space = measure(&reader, &Silent).unwrap();
    let totals = &space.totals;
    assert_eq!((space.sample_rate, space.unreadable_count), (1, 0), "all of it");
    assert_eq!(totals.logical_bytes, 2 * (800_000 + 300_000) + 200_000, "files of both snapshots");
    assert_eq!(totals.unique_bytes, 400_000 + 200_000 + 300_000, "each chunk once");
    assert!(totals.compressed_bytes < 620_000, "text shrinks: {totals:?}");
    // Shares are rounded down, by less than a byte a chunk.
    let stored = space.root.sizes.stored();
    assert!(stored <= totals.compressed_bytes, "{stored} of {totals:?}");
    assert!(totals.compressed_bytes - stored < 2000, "{stored} of {totals:?}");
    let folder = scene.folder();
    let names = folder.to_str().unwrap().split('/').skip(1);
    let mut path: Vec<&[u8]> = vec![b"host"];
    path.extend(names.map(str::as_bytes));
    let folder = space.root.find(&path).unwrap();
    let sizes = |name: &str| folder.children[name.as_bytes()].sizes;
    let kept = sizes("kept");
    assert_eq!((kept.files, kept.logical, kept.unique), (2, 800_000, 400_000), "{kept:?}");
    assert_eq!(kept.older, 0, "the newest snapshot has it");
    // Noise shares regions with the text, and so the savings of its compression.
    assert!(kept.current.abs_diff(400_000) < 60_000, "most of it: {kept:?}");
    let gone = sizes("gone");
    assert_eq!((gone.files, gone.logical, gone.current), (0, 0, 0), "{gone:?}");
    assert!(gone.older.abs_diff(200_000) < 60_000, "only an older snapshot has it: {gone:?}");
    assert_eq!(space.snapshots.len(), 2, "over time");
}

#[test]
fn drawings_follow_a_measurement() {
    let scene = Scene::new();
    scene.write("<b>folder/file", noise(3, 300_000));
    scene.back_up("host", 0);
    let served = scene.serve(PageOptions::default());
    assert_eq!(served.get("/api/space/rows").status, 404, "nothing is measured yet");
    let since = Instant::now();
    while served.get("/api/space").json()["state"] != "done" {
        assert!(since.elapsed() < Duration::from_secs(30), "it ends");
        std::thread::sleep(Duration::from_millis(20));
    }
    let rows = served.get("/api/space/rows").json();
    assert_eq!(rows["rows"][0]["name"], "host", "{rows}");
    for kind in ["map", "growth", "steps"] {
        for width in [300, 1200] {
            let answer = served.get(&format!("/api/space/drawing?kind={kind}&width={width}"));
            let text = answer.text();
            assert_eq!(
                (answer.status, answer.header("content-type")),
                (200, "image/svg+xml"),
                "{text}"
            );
            assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{text}");
            assert!(!text.contains("<b>"), "names are no markup: {text}");
        }
    }
    assert_eq!(served.get("/api/space/drawing?kind=other").status, 400, "no drawing");
    scene.write("more", noise(4, 100_000));
    scene.back_up("host", 1);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(served.get("/api/space").json()["is_old"], true, "there is a newer snapshot");
    served.page.stop().unwrap();
}
