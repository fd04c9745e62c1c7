//! `--delta burst`: the settings, a backup, and its statistics.

use std::fs;

use cutpoint_testing::SplitMix64;
use serde_json::json;

use crate::sandbox::{Sandbox, run};

fn setting(sandbox: &Sandbox, options: &[&str]) -> serde_json::Value {
    let settings = sandbox.json([&["config"][..], options].concat());
    let matching = settings.iter().find(|setting| setting["name"] == "delta");
    matching.expect("a setting")["value"].clone()
}

#[test]
fn burst_rule_is_a_setting() {
    let sandbox = Sandbox::new();
    sandbox.run(["init", "--encryption", "none", "--delta", "off"]).well();
    assert_eq!(setting(&sandbox, &[]), "off");
    let burst = "burst:tau=1/8,c_max=255,variant=burst";
    assert_eq!(setting(&sandbox, &["--delta", "burst"]), burst, "the paper's");
    assert_eq!(setting(&sandbox, &["--compression-level", "1"]), burst, "kept");
    assert_eq!(
        setting(&sandbox, &["--delta", "burst:c_max=1,variant=head-raw"]),
        "burst:c_max=1,variant=head-raw"
    );
    assert_eq!(setting(&sandbox, &["--delta", "on"]), "on");
    let why = "this repository may hold delta chunks";
    sandbox.run(["config", "--delta", "off"]).ended(
        2,
        &["cannot be turned off", why, "`cutpoint init --delta off`", "--compression-level 1"],
    );
    sandbox.run(["config", "--delta", "burst:tau=1/2"]).ended(2, &["1/3 or less"]);
    sandbox.run(["config", "--delta", "bust"]).ended(2, &["off, on, or burst"]);
}

/// Some blocks change in one place. The backup and the repository count them as bursts.
#[test]
fn bursts_are_counted() {
    let sandbox = Sandbox::new();
    let init = ["init", "--encryption", "none", "--cut", "fixed:size=4k"];
    let mut command = sandbox.command(init);
    run(command.args(["--delta", "burst:c_max=1"])).well();
    let file = sandbox.path("source");
    let mut bytes = SplitMix64::bytes(1, 40 * 4096);
    let summary = |bytes: &[u8]| {
        fs::write(&file, bytes).expect("a file");
        let events = sandbox.json(["backup", "source", "--force-read"]);
        events.last().expect("a summary")["bursts"].clone()
    };
    let first = summary(&bytes);
    assert_eq!(
        (&first["head"]["hit_count"], &first["head"]["entry_count"]),
        (&json!(0), &json!(40))
    );
    // 100 bytes in the middle of ten blocks, and the heads of five others.
    for block in 0..10 {
        bytes[block * 4096 + 2000..][..100].fill(0);
    }
    for block in 10..15 {
        bytes[block * 4096] ^= 1;
    }
    let second = summary(&bytes);
    let hits = (&second["head"]["hit_count"], &second["tail"]["hit_count"]);
    assert_eq!(hits, (&json!(10), &json!(5)));
    let stats = |options: &[&str]| {
        let stats = sandbox.json([&["stats"][..], options].concat());
        stats[0]["bursts"].clone()
    };
    let bursts = stats(&[]);
    let count = |name: &str| bursts[name].as_u64().expect("a number");
    assert_eq!((count("count"), count("bytes"), count("reference_count")), (15, 15 * 4096, 15));
    // A byte may be equal by chance.
    assert!((990..=1005).contains(&count("data_bytes")), "{bursts}");
    let lens = bursts["data_len_counts"].as_array().expect("a list");
    assert_eq!((&lens[1], &lens[7], lens.len()), (&json!(5), &json!(10), 8), "1 byte, 64 to 127");
    for block in 0..10 {
        bytes[block * 4096 + 3000] ^= 1;
    }
    let third = summary(&bytes);
    assert_eq!(third["head"]["exhausted_count"], 10, "each has its burst");
    assert_eq!(third["tail"]["hit_count"], 10, "the tail has its own counter");
    let shown = sandbox.run(["stats"]).well();
    let text = shown.text();
    assert!(text.contains("25  100.0 KiB on 15 chunks; "), "{text}");
    sandbox.run(["check", "--read-data"]).well();
    sandbox.run(["restore", "latest", "--to", "back"]).well();
    setting(&sandbox, &["--delta", "on"]);
    assert_eq!(stats(&[]), json!(null), "nobody asked");
    assert_eq!(stats(&["--bursts"])["count"], 25);
    let plain = summary(&bytes);
    assert_eq!(plain, json!(null), "compared otherwise");
}
