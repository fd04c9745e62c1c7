//! The page in a real browser: headless Chromium, driven over its debugging pipe.
//!
//! Without Chromium the test prints `SKIPPED`. `CUTPOINT_REQUIRE_CHROMIUM=1` makes that a failure,
//! and `CUTPOINT_CHROMIUM` sets the program. `CUTPOINT_SCREENSHOTS=FOLDER` keeps screenshots.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cutpoint_lab::claims::{Claim, Test};
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

    /// Returns the number of drawn shapes of each chart that can be seen.
    fn drawn(&mut self) -> Vec<u64> {
        let counts = self.evaluate(
            "[...document.querySelectorAll('.chart')].filter((chart) => chart.clientWidth) \
             .map((chart) => chart.querySelectorAll('svg .line, svg circle, svg rect, svg path').length)",
        );
        counts.as_array().expect("charts").iter().filter_map(Value::as_u64).collect()
    }

    /// Keeps a screenshot of the whole page, if `CUTPOINT_SCREENSHOTS` is set.
    fn keep_screenshot(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("CUTPOINT_SCREENSHOTS") else { return };
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.ask("Page.captureScreenshot", params);
        let bytes = decoded(picture["data"].as_str().expect("a picture"));
        let path = Path::new(&folder).join(format!("{name}.png"));
        fs::write(path, bytes).expect("the picture is kept");
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
    browser.size(1400, false);
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
    let size = fs::metadata(&path).expect("the page").len();
    assert!(size < 1_000_000, "the page has {size} bytes");

    every_claim_has_a_square_and_a_passage(&mut browser);
    charts_are_drawn(&mut browser);
    frontier_has_lines_limits_and_advice(&mut browser);
    filters_change_tables(&mut browser);
    keyboard_sorts_tables(&mut browser);
    page_fits_dark_phone_and_print(&mut browser);
    assert_eq!(browser.complaints, Vec::<String>::new(), "no complaint");
}

/// Every claim has a square in the overview, which leads to its passage below the paper.
fn every_claim_has_a_square_and_a_passage(browser: &mut Browser) {
    let claims = cutpoint_lab::claims::all();
    let is_counted = |claim: &&Claim| claim.test != Test::Contradiction;
    let expected = claims.iter().filter(is_counted).count() as u64;
    let squares = browser.evaluate("document.querySelectorAll('.square').length").as_u64();
    assert_eq!(squares, Some(expected), "a square for each claim");
    let lost = browser.evaluate(
        "[...document.querySelectorAll('.square')].filter((square) => \
         !document.getElementById(decodeURIComponent(square.hash.slice(1)))).map((square) => square.title)",
    );
    assert_eq!(lost, json!([]), "every square leads somewhere");
    browser.evaluate("location.hash = '#claim-H15.8'");
    browser.evaluate("new Promise((done) => setTimeout(done, 50))");
    let is_open = browser.evaluate("document.getElementById('claims-001').open");
    assert_eq!(is_open, true, "a link opens the list of claims");
    browser.evaluate("document.getElementById('claims-001').open = false; scrollTo(0, 0)");
}

/// There are ten findings, and charts have content, at most six colours, and a description.
fn charts_are_drawn(browser: &mut Browser) {
    let findings = browser.evaluate("document.querySelectorAll('.finding').length").as_u64();
    assert_eq!(findings, Some(10), "ten findings");
    let drawn = browser.drawn();
    assert!(drawn.len() >= 8, "charts: {}", drawn.len());
    assert!(drawn.iter().all(|count| *count > 0), "each has content: {drawn:?}");
    let unlabelled = browser.evaluate(
        "[...document.querySelectorAll('.chart')].filter((chart) => !chart.getAttribute('aria-label')).length",
    );
    assert_eq!(unlabelled, 0, "each has a description");
    let colours = browser.evaluate(
        "Math.max(...[...document.querySelectorAll('.chart')].map((chart) => new Set([...chart.querySelectorAll('.line')].map((line) => line.style.stroke)).size))",
    );
    assert!(colours.as_u64().is_some_and(|count| count <= 6), "colours: {colours}");
    browser.size(1400, false);
    browser.keep_screenshot("wide");
}

/// The frontier has a line for each algorithm, the limits, and the sentences that follow.
fn frontier_has_lines_limits_and_advice(browser: &mut Browser) {
    let count = |browser: &mut Browser, selector: &str| {
        let script = format!("document.querySelectorAll('#frontier-section {selector}').length");
        browser.evaluate(&script).as_u64().unwrap_or(0)
    };
    let timed = browser.evaluate(
        "new Set(given.frontier.points.filter((point) => point.speed).map((point) => point.algorithm)).size",
    );
    assert!(timed.as_u64().is_some_and(|count| count >= 2), "algorithms: {timed}");
    assert_eq!(Some(count(browser, "svg .line")), timed.as_u64(), "a line for each");
    assert!(count(browser, "svg .limit") >= 2, "fingerprints and a read");
    let advice = browser.evaluate("document.getElementById('frontier-advice').textContent");
    assert!(advice.as_str().is_some_and(|text| text.contains("as little as possible")), "{advice}");
    let order = browser.evaluate(
        "[...document.querySelectorAll('section')].map((section) => section.id).slice(0, 4)",
    );
    let expected = json!(["findings-section", "strip-section", "frontier-section", "wall-section"]);
    assert_eq!(order, expected, "behind the headline numbers");
}

/// Filters change the tables.
fn filters_change_tables(browser: &mut Browser) {
    browser.evaluate("document.querySelectorAll('#rows-section details').forEach((each) => { each.open = true; })");
    let first = browser.evaluate("document.querySelector('#savings-table tbody').textContent");
    browser.choose("savings-selection", "equal");
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
fn keyboard_sorts_tables(browser: &mut Browser) {
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
}

/// The page supports dark mode, small screens and print.
fn page_fits_dark_phone_and_print(browser: &mut Browser) {
    let light = browser.evaluate("getComputedStyle(document.body).backgroundColor");
    browser.ask(
        "Emulation.setEmulatedMedia",
        json!({ "features": [{ "name": "prefers-color-scheme", "value": "dark" }] }),
    );
    assert_ne!(browser.evaluate("getComputedStyle(document.body).backgroundColor"), light, "dark");
    browser.keep_screenshot("dark");
    browser.ask("Emulation.setEmulatedMedia", json!({ "features": [] }));
    browser.size(400, true);
    let wide = browser.evaluate(
        "[...document.querySelectorAll('body *')].filter((each) => !each.closest('.scroll, pre, .skip, svg') \
         && each.getBoundingClientRect().right > 401).map((each) => each.tagName + '#' + each.id + '.' + each.className)",
    );
    assert_eq!(wide, json!([]), "nothing is wider than a phone");
    let widest = browser.evaluate("document.documentElement.scrollWidth").as_u64();
    assert!(widest.is_some_and(|width| width <= 400), "nor does it scroll: {widest:?}");
    let cut = browser.evaluate(
        "[...document.querySelectorAll('.chart svg text')].filter((text) => text.closest('svg').clientWidth \
         && text.getBoundingClientRect().right > 401).map((text) => text.textContent)",
    );
    assert_eq!(cut, json!([]), "no label is cut");
    browser.keep_screenshot("phone");
    browser.size(1400, false);
    browser.ask("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    assert_eq!(
        browser.evaluate("getComputedStyle(document.querySelector('.controls')).display"),
        "none",
        "no controls on paper"
    );
    browser.keep_screenshot("print");
}
