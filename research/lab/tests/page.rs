//! The page in a real browser: headless Chromium, driven over its debugging pipe.
//!
//! Without Chromium the test prints `SKIPPED`. `CUTPOINT_REQUIRE_CHROMIUM=1` makes that a failure,
//! and `CUTPOINT_CHROMIUM` sets the program. `CUTPOINT_SCREENSHOTS=FOLDER` keeps screenshots.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cutpoint_lab::{Definition, Results, Run, Setting, report};
use serde_json::{Value, json};

/// A browser with one page.
struct Browser {
    child: Child,
    requests: File,
    answers: BufReader<File>,
    session: String,
    number: u64,
    /// The errors and warnings of the page.
    complaints: Vec<String>,
    /// The network requests of the page.
    requested: Vec<String>,
}

impl Browser {
    /// Starts Chromium with pipes, which a shell opens at the file descriptors that Chromium
    /// expects: requests at 3, answers at 4.
    fn start(program: &Path, folder: &Path) -> Browser {
        let pipes = [folder.join("requests"), folder.join("answers")];
        for pipe in &pipes {
            let made = Command::new("mkfifo").arg(pipe).status().expect("mkfifo starts");
            assert!(made.success(), "a named pipe");
        }
        let script = "exec \"$0\" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
                      --hide-scrollbars --remote-debugging-pipe \"--user-data-dir=$3\" about:blank 3<\"$1\" 4>\"$2\"";
        let child = Command::new("sh")
            .args(["-c", script])
            .arg(program)
            .args(&pipes)
            .arg(folder.join("profile"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell starts");
        // Opening a pipe waits until the other side is open, so the order is that of the shell.
        let requests = File::options().write(true).open(&pipes[0]).expect("a pipe");
        let answers = BufReader::new(File::open(&pipes[1]).expect("a pipe"));
        let (complaints, requested) = (Vec::new(), Vec::new());
        let mut browser = Browser {
            child,
            requests,
            answers,
            session: String::new(),
            number: 0,
            complaints,
            requested,
        };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = browser.ask(
            "Target.attachToTarget",
            json!({ "targetId": target["targetId"], "flatten": true }),
        );
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends a request and returns its answer. Events of the page in between are kept.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let mut request = json!({ "id": self.number, "method": method, "params": params });
        if !self.session.is_empty() {
            request["sessionId"] = self.session.as_str().into();
        }
        let mut bytes = serde_json::to_vec(&request).expect("JSON");
        bytes.push(0);
        self.requests.write_all(&bytes).expect("it listens");
        loop {
            let event = self.hear();
            if event["id"] == self.number {
                assert!(event["error"].is_null(), "{method}: {}", event["error"]);
                return event["result"].clone();
            }
        }
    }

    /// Waits for an event.
    fn wait_for(&mut self, method: &str) {
        while self.hear()["method"] != method {}
    }

    fn hear(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.answers.read_until(0, &mut bytes).expect("it answers");
        assert_eq!(bytes.pop(), Some(0), "Chromium ended");
        let event: Value = serde_json::from_slice(&bytes).expect("JSON");
        let params = &event["params"];
        match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.complaints.push(params["exceptionDetails"].to_string())
            }
            Some("Runtime.consoleAPICalled") if params["type"] == "error" => {
                self.complaints.push(params.to_string())
            }
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                self.complaints.push(params["entry"].to_string())
            }
            Some("Network.requestWillBeSent") => {
                self.requested
                    .push(params["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            _ => {}
        }
        event
    }

    /// Runs a script in the page and returns its result.
    fn evaluate(&mut self, script: &str) -> Value {
        let params = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let result = self.ask("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{script}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Chooses an option, with the event that a user causes.
    fn choose(&mut self, id: &str, value: &str) {
        let script = format!(
            "{{ const e = document.getElementById({id:?}); e.value = {value:?}; e.dispatchEvent(new Event('change')); e.value }}"
        );
        assert_eq!(self.evaluate(&script), value, "{id} has {value}");
    }

    fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let params = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": if key == "Enter" { "\r" } else { "" } });
            self.ask("Input.dispatchKeyEvent", params);
        }
    }

    fn size(&mut self, width: u32, is_phone: bool) {
        let params =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": is_phone });
        self.ask("Emulation.setDeviceMetricsOverride", params);
        // Waits for two frames: one in which the new size is found, and one in which it is drawn.
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))");
    }

    /// Returns the number of coloured pixels of the canvas of each chart.
    fn drawn(&mut self) -> Vec<u64> {
        let counts = self.evaluate(
            "[...document.querySelectorAll('canvas')].map((canvas) => { \
             const bytes = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data; \
             let count = 0; for (let i = 3; i < bytes.length; i += 4) if (bytes[i]) count += 1; return count; })",
        );
        counts.as_array().expect("charts").iter().filter_map(Value::as_u64).collect()
    }

    /// Keeps screenshots of some sections, if `CUTPOINT_SCREENSHOTS` is set.
    fn keep_screenshots(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("CUTPOINT_SCREENSHOTS") else { return };
        for section in ["claims", "savings", "sizes", "speed", "burst"] {
            self.evaluate(&format!(
                "document.getElementById('{section}-section').scrollIntoView()"
            ));
            let picture = self.ask("Page.captureScreenshot", json!({ "format": "png" }));
            let bytes = decoded(picture["data"].as_str().expect("a picture"));
            let path = Path::new(&folder).join(format!("{name}-{section}.png"));
            fs::write(path, bytes).expect("the picture is kept");
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Decodes base 64.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let values = text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte));
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_usize, 0);
    for value in values {
        bits = bits << 6 | value;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(
                bits.checked_shr(count)
                    .and_then(|byte| u8::try_from(byte & 0xff).ok())
                    .unwrap_or(0),
            );
            bits &= (1 << count) - 1;
        }
    }
    bytes
}

/// Returns the program of the browser, if there is one.
fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CUTPOINT_CHROMIUM") {
        return Some(named.into());
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file())
}

/// Writes the page of the smallest run, and returns its path.
fn page(folder: &Path) -> PathBuf {
    let path = folder.join("page.html");
    if let Some(results) = std::env::var_os("CUTPOINT_RESULTS") {
        let results = Results::read(Path::new(&results)).expect("results");
        fs::write(&path, report::html(&results).expect("a page")).expect("written");
        return path;
    }
    let definitions = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../research/runs"));
    let definition = Definition::read(&definitions.join("smallest.toml")).expect("a definition");
    let mut results = Results::open(&folder.join("results")).expect("results");
    let run = Run::new(&definition, folder, Setting::here());
    run.measure(&mut results, &|| true, &mut |_| {}).expect("a run");
    fs::write(&path, report::html(&results).expect("a page")).expect("written");
    path
}

#[test]
fn page_works_in_a_browser() {
    let Some(program) = chromium() else {
        assert!(std::env::var_os("CUTPOINT_REQUIRE_CHROMIUM").is_none(), "there is no Chromium");
        cutpoint_testing::skipped("there is no Chromium: the page of the lab was not looked at");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = page(folder.path());
    let mut browser = Browser::start(&program, folder.path());
    browser.size(1200, false);
    let url = format!("file://{}", path.display());
    browser.ask("Page.navigate", json!({ "url": url }));
    browser.wait_for("Page.loadEventFired");

    // The page loads completely, without network requests.
    assert_eq!(
        browser.evaluate("document.documentElement.dataset.ready"),
        "yes",
        "{:?}",
        browser.complaints
    );
    assert_eq!(browser.requested, [url], "one file");
    let claims =
        browser.evaluate("document.querySelectorAll('#claims-table tbody tr').length").as_u64();
    assert!(claims.is_some_and(|count| count > 200), "claims: {claims:?}");

    charts_have_lines(&mut browser);
    filters_change_tables_and_charts(&mut browser);
    keyboard_sorts_tables_and_reads_charts(&mut browser);
    page_fits_dark_phone_and_print(&mut browser);
    assert_eq!(browser.complaints, Vec::<String>::new(), "no complaint");
}

/// Charts have lines. A chart without its lines has fewer coloured pixels.
fn charts_have_lines(browser: &mut Browser) {
    let drawn = browser.drawn();
    assert_eq!(drawn.len(), 4, "charts");
    assert!(drawn.iter().all(|count| *count > 2000), "dots: {drawn:?}");
    browser.keep_screenshots("wide");
    browser.evaluate(
        "document.querySelectorAll('#speed-chart .series input').forEach((input) => input.checked && input.click())",
    );
    browser.size(1201, false);
    let without = browser.drawn();
    assert!(without[2] < drawn[2], "lines can be taken off: {without:?} of {drawn:?}");
    browser.evaluate(
        "document.querySelectorAll('#speed-chart .series input').forEach((input) => input.checked || input.click())",
    );
}

/// Filters change the tables and the charts.
fn filters_change_tables_and_charts(browser: &mut Browser) {
    browser.choose("claims-paper", "004");
    let papers = browser.evaluate("[...new Set([...document.querySelectorAll('#claims-table tbody tr')].map((row) => row.cells[1].textContent))].join()");
    assert_eq!(papers, "004", "only that paper");
    let first = browser.evaluate("document.querySelector('#savings-table tbody').textContent");
    browser.choose("savings-selection", "paper");
    assert_ne!(
        browser.evaluate("document.querySelector('#savings-table tbody').textContent"),
        first,
        "other parameters"
    );
    let level = browser.evaluate("document.querySelector('#speed-level').options[1].value");
    browser.choose("speed-level", level.as_str().expect("a level"));
    let levels = browser.evaluate("[...new Set([...document.querySelectorAll('#speed-table tbody tr')].map((row) => row.cells[1].textContent))]");
    assert_eq!(levels, json!([level]), "only that level");
}

/// Tables can be sorted by keyboard alone.
fn keyboard_sorts_tables_and_reads_charts(browser: &mut Browser) {
    browser.choose("claims-paper", "");
    browser.evaluate("document.querySelector('#savings-table th:nth-child(3) button').focus()");
    browser.press("Enter", 13);
    let sorted = "const cells = [...document.querySelectorAll('#savings-table tbody tr')].map((row) => parseFloat(row.cells[2].textContent) || 0)";
    let falls = browser
        .evaluate(&format!("{{ {sorted}; cells.every((cell, i) => !i || cells[i - 1] >= cell) }}"));
    assert_eq!(falls, true, "falling");
    browser.press("Enter", 13);
    let rises = browser
        .evaluate(&format!("{{ {sorted}; cells.every((cell, i) => !i || cells[i - 1] <= cell) }}"));
    assert_eq!(rises, true, "rising");
    assert_eq!(
        browser.evaluate(
            "document.querySelector('#savings-table th:nth-child(3)').getAttribute('aria-sort')"
        ),
        "ascending",
        "and says so"
    );
    // Charts can be read by keyboard alone.
    browser.evaluate("document.querySelector('#growth-chart .plot').focus()");
    browser.press("ArrowRight", 39);
    let value =
        browser.evaluate("document.querySelector('#growth-chart .u-legend .u-value').textContent");
    assert_eq!(value, "2", "the second version");
}

/// The page supports dark mode, small screens and print.
fn page_fits_dark_phone_and_print(browser: &mut Browser) {
    let light = browser.evaluate("getComputedStyle(document.body).backgroundColor");
    browser.ask(
        "Emulation.setEmulatedMedia",
        json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] }),
    );
    assert_ne!(browser.evaluate("getComputedStyle(document.body).backgroundColor"), light, "dark");
    browser.keep_screenshots("dark");
    browser.ask("Emulation.setEmulatedMedia", json!({ "features": [] }));
    browser.size(390, true);
    let wide = browser.evaluate(
        "[...document.querySelectorAll('body *')].filter((each) => !each.closest('.scroll, pre, .skip, .plot') \
         && each.getBoundingClientRect().right > 391).map((each) => each.tagName + '#' + each.id + '.' + each.className)",
    );
    assert_eq!(wide, json!([]), "nothing is wider than a phone");
    let widest = browser.evaluate("document.documentElement.scrollWidth").as_u64();
    assert!(widest.is_some_and(|width| width <= 390), "nor does it scroll: {widest:?}");
    let chart = browser
        .evaluate("document.querySelector('#savings-chart canvas').getBoundingClientRect().width")
        .as_f64();
    assert!(chart.is_some_and(|width| width <= 390.0), "charts neither: {chart:?}");
    browser.keep_screenshots("phone");
    browser.ask("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    assert_eq!(
        browser.evaluate("getComputedStyle(document.querySelector('.controls')).display"),
        "none",
        "no controls on paper"
    );
}
