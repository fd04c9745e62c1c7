//! A real browser: headless Chromium, driven over its debugging pipe.
//!
//! Without Chromium a test prints `SKIPPED`. `CUTPOINT_REQUIRE_CHROMIUM=1` makes that a failure, and
//! `CUTPOINT_CHROMIUM` sets the program. `CUTPOINT_SCREENSHOTS=FOLDER` keeps screenshots.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// The errors of a script whose page was replaced by another.
const REPLACED: [&str; 3] = [
    "Inspected target navigated or closed",
    "Execution context was destroyed.",
    "Cannot find default execution context",
];

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    requests: File,
    answers: BufReader<File>,
    session: String,
    number: u64,
    /// The errors and warnings of the page.
    pub complaints: Vec<String>,
    /// The network requests of the page.
    pub requested: Vec<String>,
}

impl Browser {
    /// Starts Chromium with pipes, which a shell opens at the file descriptors that Chromium
    /// expects: requests at 3, answers at 4.
    pub fn start(program: &Path, folder: &Path) -> Browser {
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

    /// Sends a request and returns its result. Events of the page in between are kept.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.try_ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Sends a request and returns its result, or the error in the answer.
    fn try_ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
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
                return match &event["error"] {
                    Value::Null => Ok(event["result"].clone()),
                    error => Err(error.clone()),
                };
            }
        }
    }

    /// Waits for an event.
    pub fn wait_for(&mut self, method: &str) {
        while self.hear()["method"] != method {}
    }

    /// Takes the next event or answer.
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
    pub fn evaluate(&mut self, script: &str) -> Value {
        self.try_evaluate(script).unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// Runs a script in the page and tells if it returned `true`. A page that is being loaded lacks what
    /// the script looks for, or replaces the page in which the script runs.
    pub fn is_true(&mut self, script: &str) -> bool {
        let tried = format!("(() => {{ try {{ return {script}; }} catch {{ return false; }} }})()");
        self.try_evaluate(&tried).map_or_else(
            |error| {
                let message = error["message"].as_str().unwrap_or_default();
                assert!(REPLACED.contains(&message), "{script}: {error}");
                false
            },
            |value| value == Value::Bool(true),
        )
    }

    /// Runs a script in the page and returns its result, or the error if it could not run.
    fn try_evaluate(&mut self, script: &str) -> Result<Value, Value> {
        let params = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let result = self.try_ask("Runtime.evaluate", params)?;
        assert!(result["exceptionDetails"].is_null(), "{script}: {}", result["exceptionDetails"]);
        Ok(result["result"]["value"].clone())
    }

    /// Presses a key. `code` is its virtual key code.
    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let params = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": if key == "Enter" { "\r" } else { "" } });
            self.ask("Input.dispatchKeyEvent", params);
        }
    }

    /// Sets the size of the page.
    pub fn size(&mut self, width: u32, is_phone: bool) {
        let params =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": is_phone });
        self.ask("Emulation.setDeviceMetricsOverride", params);
        // Waits for two frames: one in which the new size is found, and one in which it is drawn.
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))");
    }

    /// Keeps a screenshot of the whole page, if `CUTPOINT_SCREENSHOTS` is set.
    pub fn keep_screenshot(&mut self, name: &str) {
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

/// Returns the program of the browser. Without one, says that `what` was not looked at, or fails if
/// `CUTPOINT_REQUIRE_CHROMIUM` is set.
pub fn chromium(what: &str) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CUTPOINT_CHROMIUM") {
        return Some(named.into());
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CUTPOINT_REQUIRE_CHROMIUM").is_none(), "there is no Chromium");
        crate::skipped(&format!("there is no Chromium: {what} was not looked at"));
    }
    found
}
