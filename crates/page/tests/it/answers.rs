//! The answers of the page: folders, files, archives, searches, versions and differences.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use cutpoint_page::server::PageOptions;
use cutpoint_repository::TicketId;
use serde_json::{Value, json};

use crate::scene::{Scene, Served, link};

/// The first bytes of a picture.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

struct Answers {
    scene: Scene,
    served: Served,
    id: TicketId,
}

impl Answers {
    fn new(fill: impl Fn(&Scene)) -> Answers {
        let scene = Scene::new();
        fill(&scene);
        let id = scene.back_up("host", 0);
        let served = scene.serve(PageOptions::default());
        Answers { scene, served, id }
    }

    /// Returns an address about a path below the folder that was saved.
    fn address(&self, question: &str, path: &str) -> String {
        let folder = link(&self.scene.folder());
        format!("/api/{question}?snapshot={}&path={folder}{path}", self.id)
    }

    fn ask(&self, question: &str, path: &str) -> Value {
        let answer = self.served.get(&self.address(question, path));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }
}

#[test]
fn snapshot_is_listed_with_its_properties() {
    let answers = Answers::new(|scene| scene.write("file", "text"));
    let found = answers.served.get("/api/snapshots").json();
    let snapshot = &found["snapshots"][0];
    assert_eq!(snapshot["id"], answers.id.to_string(), "the id");
    assert_eq!(snapshot["host"], "host", "the host");
    assert_eq!((&snapshot["files"], &snapshot["size"]), (&json!(1), &json!(4)), "its files");
    assert_eq!(snapshot["paths"][0]["link"], link(&answers.scene.folder()), "its paths");
    let other = format!("/api/folder?snapshot={}", "0".repeat(32));
    assert_eq!(answers.served.get(&other).status, 404, "another snapshot");
}

#[test]
fn slices_of_a_folder_have_its_order() {
    let answers = Answers::new(|scene| {
        for (number, name) in ["c", "a", "b"].into_iter().enumerate() {
            scene.write(name, "x".repeat(number + 1));
        }
        scene.write("folder/inner", "");
    });
    let names = |options: &str| -> Vec<String> {
        let found = answers.ask("folder", &format!("&{options}"));
        assert_eq!(found["total"], 4, "all of them");
        let rows = found["rows"].as_array().unwrap();
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(""), ["folder", "a", "b", "c"], "by name, folders first");
    assert_eq!(names("descending=1"), ["folder", "c", "b", "a"], "falling");
    assert_eq!(names("sort=size"), ["folder", "c", "a", "b"], "by size");
    assert_eq!(names("from=1&count=2"), ["a", "b"], "a slice");
    assert_eq!(names("from=9"), [""; 0], "behind the end");
    assert_eq!(answers.served.get(&answers.address("folder", "/a")).status, 400, "a file");
    assert_eq!(answers.served.get(&answers.address("folder", "/none")).status, 404, "nothing");
}

#[test]
fn names_of_any_bytes_are_found_and_shown_harmlessly() {
    let name = b"<img src=x>\n\xff\xe2\x80\xae";
    let answers = Answers::new(|scene| {
        let path = scene.folder().join(std::ffi::OsStr::from_bytes(name));
        fs::write(path, "content").unwrap();
    });
    let row = &answers.ask("folder", "")["rows"][0];
    // As JSON it may have markup: the script sets it as text. But nothing of it is invisible.
    assert_eq!(row["name"], "<img src=x>\\n\\xff\\u{202e}", "escaped as on a terminal");
    let path = format!("/{}", row["link"].as_str().unwrap());
    let download = answers.served.get(&answers.address("download", &path));
    assert_eq!((download.status, download.text().as_str()), (200, "content"), "its bytes");
    assert_eq!(answers.ask("file", &path)["preview"]["text"], "content", "a preview");
}

#[test]
fn previews_follow_the_content_and_not_the_name() {
    let svg = "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>";
    let answers = Answers::new(|scene| {
        scene.write("picture.txt", PNG);
        scene.write("text.png", "no picture");
        scene.write("page.svg", svg);
        scene.write("bytes", b"\0\x01");
        scene.write("empty", "");
        scene.write("long", "x".repeat(300_000));
    });
    let kind = |path: &str| answers.ask("file", path)["preview"]["kind"].clone();
    assert_eq!(kind("/picture.txt"), "picture", "by its first bytes");
    assert_eq!(kind("/text.png"), "text", "whatever its name is");
    assert_eq!(kind("/page.svg"), "text", "SVG is text");
    assert_eq!(kind("/bytes"), "bytes", "no text");
    assert_eq!(kind("/empty"), "empty", "nothing");
    assert_eq!(answers.ask("file", "/long")["preview"]["cut"], true, "the beginning");
    let picture = answers.served.get(&answers.address("picture", "/picture.txt"));
    assert_eq!((picture.header("content-type"), &*picture.body), ("image/png", PNG), "a picture");
    for other in ["/page.svg", "/text.png", "/bytes"] {
        let answer = answers.served.get(&answers.address("picture", other));
        assert_eq!(answer.status, 400, "{other} is no picture");
    }
}

#[test]
fn ranges_of_a_file_are_downloaded() {
    let content: Vec<u8> =
        (0..2_500_000_u32).map(|it| (it.wrapping_mul(7919) >> 8) as u8).collect();
    let answers = Answers::new(|scene| scene.write("file", &content));
    let address = answers.address("download", "/file");
    let whole = answers.served.get(&address);
    assert_eq!((whole.status, whole.body == content), (200, true), "all of it");
    assert_eq!(whole.header("content-length"), content.len().to_string(), "its length");
    let part = answers.served.get_with(&address, &["Range: bytes=1000000-2000000"]);
    assert_eq!((part.status, &*part.body), (206, &content[1_000_000..=2_000_000]), "a range");
    assert_eq!(part.header("content-range"), "bytes 1000000-2000000/2500000", "and which");
    let behind = answers.served.get_with(&address, &["Range: bytes=2500000-"]);
    assert_eq!(behind.status, 416, "behind the end");
    let tag = format!("If-Range: {}", whole.header("etag"));
    let part = answers.served.get_with(&address, &["Range: bytes=0-0", &tag]);
    assert_eq!(part.status, 206, "if it is the same file");
    let part = answers.served.get_with(&address, &["Range: bytes=0-0", "If-Range: \"x\""]);
    assert_eq!(part.status, 200, "if it is another");
}

#[test]
fn folder_is_downloaded_as_zip() {
    let answers = Answers::new(|scene| {
        scene.write("folder/one", "first");
        scene.write("folder/deep/two", "second");
        scene.write("other", "third");
    });
    let answer = answers.served.get(&answers.address("zip", "/folder"));
    let disposition = answer.header("content-disposition");
    assert!(disposition.contains("filename=\"folder.zip\""), "{disposition}");
    assert_eq!(answer.header("content-type"), "application/zip", "a zip archive");
    // A zip archive ends with its directory, which has all names.
    assert_eq!(&answer.body[..4], b"PK\x03\x04", "a member");
    let has = |name: &[u8]| answer.body.windows(name.len()).any(|it| it == name);
    assert!(has(b"PK\x05\x06"), "the end of the directory");
    assert!(has(b"one") && has(b"deep/two") && !has(b"other"), "what is in the folder");
}

#[test]
fn search_finds_each_path_once_in_the_newest_snapshot() {
    let scene = Scene::new();
    scene.write("old/Report.txt", "gone");
    scene.write("report.txt", "1");
    let first = scene.back_up("host", -2);
    fs::remove_dir_all(scene.folder().join("old")).unwrap();
    scene.write("report.txt", "2 and more");
    let second = scene.back_up("host", -1);
    let served = scene.serve(PageOptions::default());
    let search = |parts: &str| -> Vec<Value> {
        let answer = served.get(&format!("/api/search?{parts}"));
        let text = answer.text();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let found = search("text=report");
    let matches: Vec<(&Value, &Value)> = found
        .iter()
        .filter(|it| it["link"].is_string())
        .map(|it| (&it["snapshot"], &it["size"]))
        .collect();
    let (first, second) = (json!(first.to_string()), json!(second.to_string()));
    assert_eq!(matches, [(&second, &json!(10)), (&first, &json!(4))], "the newest of each");
    let last = found.last().unwrap();
    assert_eq!((&last["done"], &last["more"]), (&json!(true), &json!(false)), "{last}");
    let inside = search(&format!("text=*.txt&snapshot={}", second.as_str().unwrap()));
    assert_eq!(inside.iter().filter(|it| it["link"].is_string()).count(), 1, "one snapshot");
    assert_eq!(served.get("/api/search?text=").status, 400, "nothing to search for");
}

#[test]
fn versions_and_their_difference() {
    let scene = Scene::new();
    let text = |line: &str| format!("first\n{line}\n{}", "same\n".repeat(20));
    let mut ids = Vec::new();
    for (days, line) in [(-3, "old"), (-2, "old"), (-1, "new <b>line</b>")] {
        scene.write("file", text(line));
        scene.write("bytes", [0, u8::try_from(days + 5).unwrap()]);
        ids.push(scene.back_up("host", days).to_string());
    }
    let served = scene.serve(PageOptions::default());
    let path = link(&scene.folder().join("file"));
    let found = served.get(&format!("/api/versions?snapshot={}&path={path}", ids[2])).json();
    let versions = found["versions"].as_array().unwrap();
    assert_eq!(versions.len(), 2, "two contents");
    assert_eq!(versions[0]["snapshots"], json!([ids[2]]), "the newest");
    assert_eq!(versions[1]["snapshots"], json!([ids[1], ids[0]]), "the older one");
    let compare = |path: &str, old: &str, new: &str| {
        served.get(&format!("/api/difference?old={old}&new={new}&path={path}")).json()
    };
    let found = compare(&path, &ids[1], &ids[2]);
    assert_eq!((&found["added"], &found["removed"]), (&json!(1), &json!(1)), "{found}");
    let hunk = found["hunks"][0].as_array().unwrap();
    assert_eq!(hunk[1], json!(["-", 2, null, "old"]), "the old line");
    assert_eq!(hunk[2], json!(["+", null, 2, "new <b>line</b>"]), "the new line");
    assert_eq!(hunk.len(), 6, "with three lines around");
    let same = compare(&path, &ids[0], &ids[1]);
    assert_eq!(same["message"], "Both versions have the same bytes.", "{same}");
    let bytes = compare(&link(&scene.folder().join("bytes")), &ids[1], &ids[2]);
    assert!(bytes["message"].as_str().unwrap().contains("from byte 1 on"), "{bytes}");
    let none = format!("/api/difference?old={}&new={}&path=none", ids[0], ids[1]);
    assert_eq!(served.get(&none).status, 404, "no such file");
}
