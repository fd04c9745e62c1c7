//! The program `borg serve`, which reads the objects of a repository.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cutpoint_storage::{Error, Kind, Result};
use rmpv::Value;

use super::message::{bytes, get, get_text, malformed, read};

/// The maximum number of lines of the program's messages that are kept.
const LINES_MAX: usize = 20;
/// The maximum length of such a line, in bytes.
const LINE_LEN_MAX: u64 = 64 << 10;

/// The maximum length of an answer, in bytes. Borg's objects have at most 20 MiB.
const ANSWER_LEN_MAX: u64 = 32 << 20;

/// The version that this client tells the program, which answers as to a client of that version: 1.2.0
/// and -1, in an encoded list.
const VERSION: [u8; 5] = [0x94, 1, 2, 0, 0xff];

/// The number of seconds for which the program waits for the lock of another one.
const LOCK_WAIT_S: u8 = 5;

/// The maximum wait for the messages of a program that has ended.
const MESSAGES_WAIT: Duration = Duration::from_secs(1);
/// The maximum wait for a program whose input has ended to remove its lock and to end.
const END_WAIT: Duration = Duration::from_secs(5);
/// The interval at which its end is looked for.
const END_EVERY: Duration = Duration::from_millis(5);

/// A running `borg serve`.
pub(super) struct Client {
    child: Child,
    /// `None` once the program is told to end.
    requests: Option<ChildStdin>,
    answers: Option<BufReader<ChildStdout>>,
    number: u64,
    /// The last lines that the program has printed.
    lines: Arc<Mutex<Vec<String>>>,
    /// Disconnected once the program's messages have ended.
    messages_end: Receiver<()>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("child", &self.child.id()).finish_non_exhaustive()
    }
}

impl Client {
    /// Starts the program `command`, the arguments of which end with `serve`. If `is_remote` is set, the
    /// program may ask at the terminal.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if the program cannot be started or does not answer.
    pub(super) fn start(command: &[OsString], is_remote: bool) -> Result<Client> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::new(Kind::Storage, "borg", format!("cannot be started: {error}"))
        };
        let (program, arguments) = command.split_first().ok_or_else(|| failed(&"no command"))?;
        let mut command = Command::new(program);
        if !is_remote {
            // Ctrl-C must reach it only after this process has ended its requests.
            command.process_group(0);
        }
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&error))?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (reads_messages, messages_end) = mpsc::channel();
        if let Some(messages) = child.stderr.take() {
            let lines = lines.clone();
            thread::spawn(move || {
                let _reads_messages = reads_messages;
                let mut messages = BufReader::new(messages);
                while let Some(line) = next_line(&mut messages) {
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
        let answers = Some(BufReader::with_capacity(1 << 18, answers));
        let mut client = Client { child, requests, answers, number: 0, lines, messages_end };
        client.call("negotiate", &[("client_data", Argument::Version)])?;
        Ok(client)
    }

    /// Opens the repository at `path`. Returns its identifier.
    ///
    /// # Errors
    ///
    /// Returns `Missing` if there is none, and any error of [`Client::call`].
    pub(super) fn open(&mut self, path: &[u8]) -> Result<Vec<u8>> {
        let arguments = [
            ("path", Argument::Text(path)),
            ("create", Argument::Flag(false)),
            ("lock_wait", Argument::Number(LOCK_WAIT_S)),
            ("lock", Argument::Flag(true)),
            ("exclusive", Argument::Flag(false)),
            ("append_only", Argument::Flag(false)),
        ];
        let id = self.call("open", &arguments)?;
        bytes(&id).map(<[u8]>::to_vec).ok_or_else(|| malformed("no identifier of the repository"))
    }

    /// Returns the text of the key that lies in the repository; empty if there is none.
    ///
    /// # Errors
    ///
    /// Returns any error of [`Client::call`].
    pub(super) fn key(&mut self) -> Result<Vec<u8>> {
        let key = self.call("load_key", &[])?;
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
            self.request("get", &[("id", Argument::Text(id))])?;
        }
        let numbers = first..first + ids.len() as u64;
        let mut answers = HashMap::new();
        while answers.len() < ids.len() {
            let (number, answer) = self.answer()?;
            if !numbers.contains(&number) || answers.insert(number, answer).is_some() {
                return Err(self.broken("an answer to another request"));
            }
        }
        let object = |number| {
            let answer = answers.remove(&number).unwrap_or_else(|| Err(malformed("no answer")));
            match answer? {
                Value::String(object) => Ok(object.into_bytes().into()),
                Value::Binary(object) => Ok(object.into()),
                _ => Err(malformed("an object is no string")),
            }
        };
        Ok(numbers.map(object).collect())
    }

    /// Calls a method.
    ///
    /// # Errors
    ///
    /// Returns `Storage` if the program ends, or refuses the request.
    fn call(&mut self, method: &str, arguments: &[(&str, Argument<'_>)]) -> Result<Value> {
        self.request(method, arguments)?;
        let (number, answer) = self.answer()?;
        match number == self.number {
            true => answer,
            false => Err(self.broken("an answer to another request")),
        }
    }

    fn request(&mut self, method: &str, arguments: &[(&str, Argument<'_>)]) -> Result<()> {
        self.number += 1;
        let message = message(self.number, method, arguments);
        let sent = self.requests.as_mut().map(|requests| requests.write_all(&message));
        match sent {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(self.ended(&error)),
            None => Err(self.ended(&"its input is closed")),
        }
    }

    /// Reads an answer: the number of the request, and the result.
    fn answer(&mut self) -> Result<(u64, Result<Value>)> {
        let Some(answers) = &mut self.answers else { return Err(self.ended(&"no answer")) };
        let mut limited = answers.take(ANSWER_LEN_MAX);
        let answer = read(&mut limited);
        if answer.is_err() && limited.limit() == 0 {
            return Err(self.broken(&format!("an answer of more than {ANSWER_LEN_MAX} B")));
        }
        let answer = answer.map_err(|error| self.ended(&error))?;
        let Some(number) = get(&answer, "i").and_then(Value::as_u64) else {
            return Err(self.broken("an answer without a number"));
        };
        if let Some(class) = get_text(&answer, "exception_class") {
            return Ok((number, Err(refusal(&class, &answer))));
        }
        let Value::Map(pairs) = answer else { return Err(self.broken("an answer is no map")) };
        match pairs.into_iter().find(|(key, _)| bytes(key) == Some(b"r")) {
            Some((_, result)) => Ok((number, Ok(result))),
            None => Err(self.broken("an answer without a result")),
        }
    }

    /// Returns the error of a program that does not answer any more.
    fn ended(&mut self, error: &dyn std::fmt::Display) -> Error {
        self.end();
        // A process that the program has started may keep its messages open.
        self.messages_end.recv_timeout(MESSAGES_WAIT).ok();
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let message = match lines.last() {
            Some(line) => format!("ended: {}", reason(line)),
            None => format!("ended: {error}"),
        };
        Error::new(Kind::Storage, "borg serve", message)
    }

    /// Returns the error of a program whose answers are not those of Borg, and ends it: later answers
    /// could be taken for those to other requests. No object counts as lost for that reason.
    fn broken(&mut self, what: &str) -> Error {
        self.end();
        Error::new(Kind::Storage, "borg serve", format!("malformed: {what}"))
    }

    /// Ends the program. The end of its input lets it remove its lock. One that does not end in time
    /// is killed.
    fn end(&mut self) {
        (self.requests, self.answers) = (None, None);
        let began = Instant::now();
        while began.elapsed() < END_WAIT {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(END_EVERY),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the next line of messages, or the beginning of a long one; `None` at their end.
fn next_line(messages: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    match messages.take(LINE_LEN_MAX).read_until(b'\n', &mut line) {
        Ok(1..) => Some(String::from_utf8_lossy(&line).trim_end().to_owned()),
        Ok(0) | Err(_) => None,
    }
}

/// An argument of a request.
#[derive(Clone, Copy)]
enum Argument<'a> {
    Flag(bool),
    Number(u8),
    Text(&'a [u8]),
    /// The version of this client, as a map.
    Version,
}

/// Encodes a request as Borg's clients do: in the MessagePack of 2010, in which a string can have any
/// bytes. The program refuses the newer types.
fn message(number: u64, method: &str, arguments: &[(&str, Argument<'_>)]) -> Vec<u8> {
    let mut out = vec![MAP | 3];
    push_text(&mut out, b"i");
    out.push(0xcf);
    out.extend(number.to_be_bytes());
    push_text(&mut out, b"m");
    push_text(&mut out, method.as_bytes());
    push_text(&mut out, b"a");
    // No method has more than 15 arguments.
    out.push(MAP | u8::try_from(arguments.len()).unwrap_or(0) & 0xf);
    for (name, argument) in arguments {
        push_text(&mut out, name.as_bytes());
        match argument {
            Argument::Flag(flag) => out.push(if *flag { 0xc3 } else { 0xc2 }),
            Argument::Number(number) => out.extend([0xcc, *number]),
            Argument::Text(text) => push_text(&mut out, text),
            Argument::Version => {
                out.push(MAP | 1);
                push_text(&mut out, b"client_version");
                out.extend(VERSION);
            }
        }
    }
    out
}

/// The code of a map with less than 16 pairs.
const MAP: u8 = 0x80;

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    match (u8::try_from(text.len()), u16::try_from(text.len())) {
        (Ok(len @ 0..32), _) => out.push(0xa0 | len),
        (_, Ok(len)) => {
            out.push(0xda);
            out.extend(len.to_be_bytes());
        }
        _ => {
            out.push(0xdb);
            out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
        }
    }
    out.extend_from_slice(text);
}

/// Returns the reason in a line that the program has printed: text, or a message in JSON with a
/// traceback, whose last line before the description of the system is the reason.
fn reason(line: &str) -> String {
    let text = serde_json::from_str::<serde_json::Value>(line).ok();
    let text = text.and_then(|value| Some(value.get("message")?.as_str()?.to_owned()));
    let text = text.unwrap_or_else(|| line.to_owned());
    let text = text.split("\n\nPlatform:").next().unwrap_or_default();
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_in_the_old_messagepack() {
        let id = [0xff; 32];
        let encoded =
            message(7, "get", &[("id", Argument::Text(&id)), ("x", Argument::Flag(true))]);
        let value = super::super::message::decode(&encoded).expect("it is a value");
        assert_eq!(get(&value, "i").and_then(Value::as_u64), Some(7));
        assert_eq!(get_text(&value, "m").as_deref(), Some("get"));
        let arguments = get(&value, "a").expect("arguments");
        assert_eq!(get(arguments, "id").and_then(bytes), Some(&id[..]));
        assert!(matches!(get(arguments, "id"), Some(Value::String(_))), "no binary");
        let mut long = Vec::new();
        push_text(&mut long, &[1; 70_000]);
        assert_eq!(long[..5], [0xdb, 0, 1, 0x11, 0x70]);
    }

    #[test]
    fn reason_is_the_last_line_of_a_traceback() {
        let line =
            r#"{"message": "Traceback:\n  File\nValueError: x\n\nPlatform: Linux\nPID: 1\n"}"#;
        assert_eq!(reason(line), "ValueError: x");
        assert_eq!(reason("ssh: no route"), "ssh: no route");
        assert_eq!(reason("{"), "{");
    }

    #[test]
    fn program_that_fails_is_named() {
        let start = |command: &[&str]| {
            let command: Vec<OsString> = command.iter().map(OsString::from).collect();
            Client::start(&command, false).expect_err("no Borg")
        };
        let error = start(&["/nowhere/borg", "serve"]);
        assert!(error.to_string().contains("cannot be started"), "{error}");
        let error = start(&["sh", "-c", "echo no route >&2", "serve"]);
        assert!(error.to_string().contains("ended: no route"), "{error}");
        let answers = [
            (r"\301", "an answer without a number"),
            (r"\200", "an answer without a number"),
            (r"\202\241i\002\241r\300", "an answer to another request"),
            (r"\201\241i\001", "an answer without a result"),
        ];
        for (answer, expected) in answers {
            // The program answers once the request is there.
            let script = format!("head -c 1 >/dev/null; printf '{answer}'");
            let error = start(&["sh", "-c", &script, "serve"]);
            assert!(error.to_string().contains(expected), "{answer}: {error}");
            assert!(!error.is_loss(), "no object is lost for that reason: {error}");
        }
    }

    /// Starts a program that waits for the first request, answers it, and then does what `script` says.
    fn started(script: &str) -> Client {
        let answer = r"head -c 1 >/dev/null; printf '\202\241i\001\241r\300'";
        let script = format!("{answer}; {script}");
        let command = ["sh", "-c", &script, "serve"].map(OsString::from);
        Client::start(&command, false).expect("it answers")
    }

    #[test]
    fn answer_to_another_request_ends_the_program() {
        for (answers, case) in [([2, 2], "one twice"), ([7, 2], "one to neither")] {
            let answers =
                answers.map(|number| format!("printf '\\202\\241i\\00{number}\\241r\\241x'"));
            let mut client = started(&format!("{}; exec cat >/dev/null", answers.join("; ")));
            let error = client.objects(&[[1; 32], [2; 32]]).expect_err(case);
            assert!(error.to_string().contains("another request"), "{case}: {error}");
            assert!(!error.is_loss(), "no object is lost for that reason: {error}");
            let error = client.objects(&[[1; 32]]).expect_err("no later answer counts");
            assert!(error.to_string().contains("ended"), "{case}: {error}");
        }
    }

    #[test]
    fn answer_without_end_is_not_kept() {
        // A binary that says it has 4 GiB, and an array of as many values.
        for head in [r"\202\241i\002\241r\306\377\377\377\377", r"\335\377\377\377\377"] {
            let mut client = started(&format!("printf '{head}'; exec cat /dev/zero"));
            let error = client.objects(&[[1; 32]]).expect_err("no end");
            assert!(error.to_string().contains("more than 33554432 B"), "{error}");
        }
    }

    #[test]
    fn program_that_does_not_end_is_killed() {
        let client = started("trap '' HUP INT TERM; while :; do sleep 1; done");
        let began = Instant::now();
        drop(client);
        assert!(began.elapsed() < 2 * END_WAIT, "{:?}", began.elapsed());
    }

    #[test]
    fn messages_of_any_bytes_are_read() {
        let mut client = started(r"printf 'caf\351\nlast\n' >&2");
        let error = client.objects(&[[1; 32]]).expect_err("it has ended");
        assert!(error.to_string().contains("ended: last"), "{error}");
    }
}
