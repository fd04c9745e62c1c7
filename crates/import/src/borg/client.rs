//! The program `borg serve`, which reads the objects of a repository.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, Result};
use rmpv::Value;

use super::message::{bytes, get, get_text, malformed, read};

/// The maximum number of lines of the program's messages that are kept.
const LINES_MAX: usize = 20;

/// The version that this client tells the program, which answers as to a client of that version.
const VERSION: [i64; 4] = [1, 2, 0, -1];

/// A running `borg serve`.
pub(super) struct Client {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    number: u64,
    /// The last lines that the program has printed.
    lines: Arc<Mutex<Vec<String>>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("child", &self.child.id()).finish_non_exhaustive()
    }
}

impl Client {
    /// Starts the program `command`, the arguments of which end with `serve`.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if the program cannot be started or does not answer.
    pub(super) fn start(command: &[OsString]) -> Result<Client> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::new(Kind::Storage, "borg", format!("cannot be started: {error}"))
        };
        let (program, arguments) = command.split_first().ok_or_else(|| failed(&"no command"))?;
        let mut child = Command::new(program)
            .args(arguments)
            // Ctrl-C must reach it only after this process has ended its requests.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&error))?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        if let Some(messages) = child.stderr.take() {
            let lines = lines.clone();
            thread::spawn(move || {
                for line in BufReader::new(messages).lines().map_while(std::result::Result::ok) {
                    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                    if lines.len() == LINES_MAX {
                        lines.remove(0);
                    }
                    lines.push(line);
                }
            });
        }
        let requests = child.stdin.take();
        let answers = child.stdout.take().ok_or_else(|| failed(&"no output"))?;
        let answers = BufReader::with_capacity(1 << 18, answers);
        let mut client = Client { child, requests, answers, number: 0, lines };
        let version = Value::Array(VERSION.map(Value::from).to_vec());
        let data = Value::Map(vec![("client_version".into(), version)]);
        client.call("negotiate", vec![("client_data", data)])?;
        Ok(client)
    }

    /// Opens the repository at `path`. Returns its identifier.
    ///
    /// # Errors
    ///
    /// Returns `Missing` if there is none, and any error of [`Client::call`].
    pub(super) fn open(&mut self, path: &[u8]) -> Result<Vec<u8>> {
        let arguments = vec![
            ("path", text(path)),
            ("create", false.into()),
            ("lock_wait", 5.into()),
            ("lock", true.into()),
            ("exclusive", false.into()),
            ("append_only", false.into()),
        ];
        let id = self.call("open", arguments)?;
        bytes(&id).map(<[u8]>::to_vec).ok_or_else(|| malformed("no identifier of the repository"))
    }

    /// Returns the text of the key that lies in the repository; empty if there is none.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Client::call`].
    pub(super) fn key(&mut self) -> Result<Vec<u8>> {
        let key = self.call("load_key", Vec::new())?;
        Ok(bytes(&key).unwrap_or_default().to_vec())
    }

    /// Returns objects in the same order.
    ///
    /// # Errors
    ///
    /// The outer error ends all requests. Each result is `Missing` if there is no such object, and
    /// `Corrupt` if it is damaged.
    pub(super) fn objects(&mut self, ids: &[[u8; 32]]) -> Result<Vec<Result<Bytes>>> {
        let first = self.number + 1;
        for id in ids {
            self.request("get", vec![("id", text(id))])?;
        }
        let mut answers = HashMap::new();
        while answers.len() < ids.len() {
            let (number, answer) = self.answer()?;
            answers.insert(number, answer);
        }
        let object = |number| {
            let answer = answers.remove(&number).unwrap_or_else(|| Err(malformed("no answer")));
            match answer? {
                Value::String(object) => Ok(object.into_bytes().into()),
                Value::Binary(object) => Ok(object.into()),
                _ => Err(malformed("an object is no string")),
            }
        };
        Ok((first..first + ids.len() as u64).map(object).collect())
    }

    /// Calls a method.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if the program ends, or refuses the request.
    fn call(&mut self, method: &str, arguments: Vec<(&str, Value)>) -> Result<Value> {
        self.request(method, arguments)?;
        let (number, answer) = self.answer()?;
        match number == self.number {
            true => answer,
            false => Err(malformed("an answer to another request")),
        }
    }

    fn request(&mut self, method: &str, arguments: Vec<(&str, Value)>) -> Result<()> {
        self.number += 1;
        let arguments =
            arguments.into_iter().map(|(name, value)| (Value::from(name), value)).collect();
        let request = Value::Map(vec![
            ("i".into(), self.number.into()),
            ("m".into(), method.into()),
            ("a".into(), Value::Map(arguments)),
        ]);
        let mut message = Vec::new();
        let encoded = rmpv::encode::write_value(&mut message, &request);
        encoded.map_err(|error| malformed(&error.to_string()))?;
        let sent = self.requests.as_mut().map(|requests| requests.write_all(&message));
        match sent {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(self.ended(&error)),
            None => Err(self.ended(&"its input is closed")),
        }
    }

    /// Reads an answer: the number of the request, and the result.
    fn answer(&mut self) -> Result<(u64, Result<Value>)> {
        let answer = read(&mut self.answers).map_err(|error| self.ended(&error))?;
        let number = get(&answer, "i").and_then(Value::as_u64);
        let number = number.ok_or_else(|| malformed("an answer without a number"))?;
        if let Some(class) = get_text(&answer, "exception_class") {
            return Ok((number, Err(refusal(&class, &answer))));
        }
        match answer {
            Value::Map(pairs) => {
                let result = pairs.into_iter().find(|(key, _)| bytes(key) == Some(b"r"));
                let result = result.map(|(_, value)| value);
                Ok((number, result.ok_or_else(|| malformed("an answer without a result"))))
            }
            _ => Err(malformed("an answer is no map")),
        }
    }

    /// Returns the error of a program that does not answer any more.
    fn ended(&mut self, error: &dyn std::fmt::Display) -> Error {
        self.requests = None;
        self.child.kill().ok();
        self.child.wait().ok();
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let message = match lines.last() {
            Some(line) => format!("ended: {line}"),
            None => format!("ended: {error}"),
        };
        Error::new(Kind::Storage, "borg serve", message)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The end of its input lets the program remove its lock.
        self.requests = None;
        self.child.wait().ok();
    }
}

/// Returns bytes as Borg's clients send them: as a string, which need not be UTF-8.
fn text(bytes: &[u8]) -> Value {
    Value::Binary(bytes.to_vec())
}

/// Returns the error that the program reports.
fn refusal(class: &str, answer: &Value) -> Error {
    let lines = get(answer, "exception_short").and_then(Value::as_array);
    let lines: Vec<_> = lines.into_iter().flatten().filter_map(bytes).collect();
    let message = String::from_utf8_lossy(&lines.concat()).trim().to_owned();
    let message = if message.is_empty() { class.to_owned() } else { message };
    match class {
        "ObjectNotFound" => Error::missing("object", message),
        "IntegrityError" => Error::corrupt("object", message),
        "DoesNotExist" | "InvalidRepository" | "PathNotAllowed" => Error::missing("borg", message),
        "LockTimeout" => Error::new(
            Kind::Storage,
            "borg",
            format!("{message}; another run of borg has locked the repository"),
        ),
        _ => Error::new(Kind::Storage, "borg", message),
    }
}
