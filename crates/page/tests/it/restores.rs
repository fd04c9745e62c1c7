//! Restores by the page.

use std::fs;
use std::time::{Duration, Instant};

use cutpoint_page::server::PageOptions;
use serde_json::{Value, json};

use crate::scene::{Scene, Served, link};

fn options() -> PageOptions {
    PageOptions { may_restore: true, ..PageOptions::default() }
}

/// Waits for the end of the restore.
fn ended(served: &Served) -> Value {
    let since = Instant::now();
    loop {
        let state = served.get("/api/restore").json();
        if state["state"] == "done" {
            return state;
        }
        assert!(since.elapsed() < Duration::from_secs(30), "{state}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn folder_and_file_are_restored_and_nothing_is_overwritten() {
    let scene = Scene::new();
    scene.write("folder/one", "first");
    scene.write("folder/two", "second");
    let id = scene.back_up("host", 0).to_string();
    let served = scene.serve(options());
    let target = scene.scratch.path().join("target");
    let path = link(&scene.folder().join("folder"));
    let asked = |path: &str| json!({ "snapshot": id, "path": path, "target": target }).to_string();
    let answer = served.post("/api/restore", &asked(&path));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let state = ended(&served);
    assert_eq!((&state["files"], &state["problem_count"]), (&json!(2), &json!(0)), "{state}");
    assert_eq!(fs::read(target.join("one")).unwrap(), b"first", "the files");
    fs::write(target.join("one"), "changed").unwrap();
    fs::remove_file(target.join("two")).unwrap();
    for name in ["one", "two"] {
        served.post("/api/restore", &asked(&format!("{path}/{name}")));
        let state = ended(&served);
        let problems = state["problem_count"].as_u64();
        assert_eq!(problems, Some(u64::from(name == "one")), "{name}: {state}");
    }
    assert_eq!(fs::read(target.join("one")).unwrap(), b"changed", "what exists stays");
    assert_eq!(fs::read(target.join("two")).unwrap(), b"second", "what is missing comes back");
    served.page.stop().unwrap();
}

#[test]
fn target_must_be_a_complete_path() {
    let scene = Scene::new();
    scene.write("file", "text");
    let id = scene.back_up("host", 0).to_string();
    let served = scene.serve(options());
    for target in ["", "here", "../there"] {
        let asked = json!({ "snapshot": id, "path": "", "target": target }).to_string();
        let answer = served.post("/api/restore", &asked);
        assert_eq!(answer.status, 400, "{target}: {}", answer.text());
    }
    let asked = json!({ "snapshot": id, "path": "/none", "target": "/nowhere" }).to_string();
    assert_eq!(served.post("/api/restore", &asked).status, 404, "no such path");
    assert_eq!(served.post("/api/restore", "no JSON").status, 400, "no JSON");
    assert_eq!(served.get("/api/restore").json()["state"], "none", "nothing was started");
    served.page.stop().unwrap();
}
