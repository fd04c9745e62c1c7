//! The page in headless Chromium.

use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};
use std::{fs, str};

use cutpoint_page::server::PageOptions;
use cutpoint_testing::{Browser, SplitMix64, chromium};
use serde_json::json;

use crate::scene::Scene;

/// A picture of one pixel.
const GIF: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\x80\x80\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
/// A name that would be markup.
const HOSTILE: &[u8] = b"<img src=x onerror=document.title='pwned'>\xff\xe2\x80\xae.html";

/// Saves a few weeks of two hosts.
fn fill(scene: &Scene) {
    let noise = |seed, len| SplitMix64::new(seed).take(len);
    scene.write("photos/2024/beach.jpg", noise(1, 900_000));
    scene.write("photos/2025/mountain.jpg", noise(2, 700_000));
    scene.write("photos/2025/pixel.gif", GIF);
    scene.write("music/album/one.flac", noise(3, 600_000));
    scene.write("documents/letter.txt", "Dear reader,\n\nthis is <b>no markup</b>.\n");
    scene.write("documents/page.html", "<script>document.title='pwned'</script>\n");
    scene.write("documents/empty.txt", "");
    scene.write("projects/tool/main.rs", "fn main() {\n    println!(\"hello\");\n}\n".repeat(400));
    for number in 0..300 {
        scene.write(
            &format!("mail/message-{number:04}.eml"),
            format!("Subject: {number}\n").repeat(40),
        );
    }
    let name = str::from_utf8(b"plain").unwrap();
    scene.write(name, "plain");
    fs::write(
        scene.folder().join(std::ffi::OsStr::from_bytes(HOSTILE)),
        "<script>alert(1)</script>",
    )
    .unwrap();
    for (number, day) in (0_usize..6).zip(0..) {
        scene.write("database.bin", noise(10 + day, 500_000 + number * 20_000));
        let line = format!("fn main() {{\n    println!(\"{day}\");\n}}\n");
        scene.write("projects/tool/main.rs", line.repeat(400 + number * 30));
        scene.back_up("laptop", i64::try_from(day).unwrap() * 6 - 36);
    }
    scene.back_up("server", -12);
}

/// Waits until a script returns `true`.
fn wait(browser: &mut Browser, script: &str) {
    let since = Instant::now();
    while !browser.is_true(script) {
        assert!(since.elapsed() < Duration::from_secs(40), "{script}: {:?}", browser.complaints);
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn go(browser: &mut Browser, hash: &str, script: &str) {
    browser.evaluate(&format!("location.hash = {hash:?}; 1"));
    wait(browser, script);
}

#[test]
fn page_works_in_a_browser() {
    let Some(program) = chromium("the page of `serve`") else { return };
    let scene = Scene::new();
    fill(&scene);
    let options = PageOptions {
        place: "/srv/backup".to_owned(),
        may_restore: true,
        unread_since_ns: Some(1_700_000_000_000_000_000),
        has_dav: false,
    };
    let (page, address) = scene.start(options);
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::start(&program, folder.path());
    browser.size(1400, false);
    browser.ask("Page.navigate", json!({ "url": page.url() }));
    wait(&mut browser, "document.documentElement.dataset.ready === 'yes'");
    assert_eq!(browser.evaluate("location.search"), "", "the token has left the address");
    assert_eq!(browser.evaluate("document.cookie"), "", "no script reads the cookie");

    overview_shows_hosts_and_snapshots(&mut browser);
    let path = crate::scene::link(&scene.folder());
    folder_is_used_by_keyboard(&mut browser, &path);
    hostile_names_and_contents_are_inert(&mut browser, &path);
    search_and_difference_are_shown(&mut browser);
    space_is_drawn(&mut browser);
    page_fits_dark_and_phone(&mut browser);

    assert_eq!(browser.complaints, Vec::<String>::new(), "no complaint");
    let own = format!("http://{address}/");
    let other: Vec<&String> = browser
        .requested
        .iter()
        .filter(|url| !url.starts_with(&own) && *url != "about:blank")
        .collect();
    assert_eq!(other, Vec::<&String>::new(), "no request to elsewhere");
    page.stop().unwrap();
}

fn overview_shows_hosts_and_snapshots(browser: &mut Browser) {
    let cards = browser.evaluate("document.querySelectorAll('.card').length");
    assert_eq!(cards, 2, "one of each host");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('.snapshots tbody tr').length"),
        7,
        "all"
    );
    browser.evaluate(
        "{ const it = document.querySelector('.filter'); it.value = 'server'; it.dispatchEvent(new Event('input')); 1 }",
    );
    assert_eq!(
        browser.evaluate("document.querySelectorAll('.snapshots tbody tr').length"),
        1,
        "filtered"
    );
    browser.evaluate(
        "{ const it = document.querySelector('.filter'); it.value = ''; it.dispatchEvent(new Event('input')); 1 }",
    );
    browser.keep_screenshot("overview");
}

fn folder_is_used_by_keyboard(browser: &mut Browser, path: &str) {
    browser.evaluate("document.querySelector('.card').click(); 1");
    wait(browser, "document.querySelectorAll('.rows .row').length > 5");
    assert!(
        browser.evaluate("location.hash").as_str().unwrap().ends_with(path),
        "the folder saved"
    );
    assert_eq!(
        browser.evaluate("document.activeElement.className"),
        "rows",
        "the list has the focus"
    );
    browser.keep_screenshot("folder");
    wait(browser, "document.querySelector('.current') !== null");
    browser.press("Enter", 13);
    wait(browser, "document.querySelector('.crumbs [aria-current]')?.textContent === 'documents'");
    browser.press("End", 35);
    browser.press("Enter", 13);
    wait(browser, "document.querySelector('.details pre.text') !== null");
    wait(browser, "document.querySelectorAll('.versions a').length === 1");
    wait(browser, "document.querySelectorAll('.facts dd').length > 2");
    browser.keep_screenshot("details");
    browser.press("Escape", 27);
    assert_eq!(browser.evaluate("document.querySelector('.details').hidden"), true, "closed");
    browser.press("Backspace", 8);
    wait(browser, "document.querySelector('.crumbs [aria-current]')?.textContent === 'data'");
    let before = browser.evaluate("location.hash");
    browser.press("ArrowLeft", 37);
    wait(
        browser,
        &format!(
            "location.hash !== {before} && document.querySelectorAll('.rows .row').length > 5"
        ),
    );
    browser.press("/", 191);
    assert_eq!(
        browser.evaluate("document.activeElement.id"),
        "search-text",
        "a key for the search"
    );
}

fn hostile_names_and_contents_are_inert(browser: &mut Browser, path: &str) {
    let name = crate::scene::link(std::path::Path::new(std::ffi::OsStr::from_bytes(HOSTILE)));
    let snapshot = "location.hash.split('/')[2]";
    for file in [name.as_str(), "documents/page.html"] {
        let (folder, file) = file.rsplit_once('/').map_or(("", file), |(a, b)| (a, b));
        browser.evaluate(&format!(
            "location.hash = `#/browse/${{{snapshot}}}{path}/{folder}?file=${{encodeURIComponent({file:?})}}`; 1"
        ));
        wait(
            browser,
            "document.querySelector('.details pre.text')?.textContent.includes('<script>')",
        );
        assert_eq!(
            browser.evaluate("document.querySelectorAll('main img[src=x], main script').length"),
            0,
            "text"
        );
        assert_ne!(browser.evaluate("document.title"), "pwned", "{file}");
        browser.evaluate("document.querySelector('.details').remove(); 1");
    }
    browser.evaluate(&format!(
        "location.hash = `#/browse/${{{snapshot}}}{path}/photos/2025?file=pixel.gif`; 1"
    ));
    wait(browser, "document.querySelector('img.picture')?.naturalWidth === 1");
}

fn search_and_difference_are_shown(browser: &mut Browser) {
    go(
        browser,
        "#/find?text=main.rs",
        "/1 match found/.test(document.querySelector('.find')?.textContent)",
    );
    browser.keep_screenshot("search");
    browser.evaluate("document.querySelector('.results a').click(); 1");
    wait(browser, "document.querySelectorAll('.versions li').length === 6");
    browser.keep_screenshot("versions");
    browser.evaluate("[...document.querySelectorAll('.versions a')].find((it) => it.textContent === 'compare').click(); 1");
    wait(browser, "document.querySelectorAll('.hunks .added').length > 0");
    browser.keep_screenshot("difference");
}

fn space_is_drawn(browser: &mut Browser) {
    go(browser, "#/space", "document.querySelectorAll('.treemap .cell').length > 5");
    wait(
        browser,
        "document.querySelectorAll('.growth path').length === 2 && document.querySelectorAll('.steps rect').length === 8",
    );
    browser.keep_screenshot("space");
    browser.evaluate("document.querySelector('.treemap a').dispatchEvent(new MouseEvent('click', { bubbles: true })); 1");
    wait(browser, "location.hash.split('/').length > 3");
    wait(browser, "document.querySelectorAll('.treemap .cell').length > 2");
}

fn page_fits_dark_and_phone(browser: &mut Browser) {
    let views = [
        ("overview", "#/", "document.querySelectorAll('.card').length === 2"),
        ("space", "#/space", "document.querySelectorAll('.treemap .cell').length > 5"),
        ("folder", "#/browse", "document.querySelectorAll('.rows .row').length > 5"),
    ];
    for (name, hash, ready) in views {
        browser.size(1400, false);
        go(browser, hash, ready);
        let light = browser.evaluate("getComputedStyle(document.body).backgroundColor");
        let dark = json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] });
        browser.ask("Emulation.setEmulatedMedia", dark);
        assert_ne!(
            browser.evaluate("getComputedStyle(document.body).backgroundColor"),
            light,
            "dark"
        );
        browser.keep_screenshot(&format!("{name}-dark"));
        for (suffix, is_dark) in [("phone-dark", true), ("phone", false)] {
            if !is_dark {
                browser.ask("Emulation.setEmulatedMedia", json!({ "features": [] }));
            }
            browser.size(400, true);
            std::thread::sleep(Duration::from_millis(300));
            let widest = browser.evaluate("document.documentElement.scrollWidth").as_u64();
            assert!(widest.is_some_and(|width| width <= 400), "{name}: {widest:?}");
            browser.keep_screenshot(&format!("{name}-{suffix}"));
        }
    }
    browser.size(1400, false);
}
