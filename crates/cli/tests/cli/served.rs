//! A process that serves something and tells its events.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::schema;

/// A process with `--json`. It is killed with the value.
pub(crate) struct Served {
    child: Child,
    events: BufReader<ChildStdout>,
}

impl Served {
    pub(crate) fn new(command: &mut Command) -> Served {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
        let events = BufReader::new(child.stdout.take().expect("a pipe"));
        Served { child, events }
    }

    /// Waits for the next event.
    pub(crate) fn event(&mut self) -> Value {
        let mut line = String::new();
        self.events.read_line(&mut line).expect("a line");
        let event: Value = serde_json::from_str(&line).expect("an event");
        schema::validate(&event).expect("an event of the schema");
        event
    }

    /// Asks the process to end by a signal, and returns its last event and its exit code.
    pub(crate) fn end(mut self, signal: &str) -> (Value, Option<i32>) {
        self.send(signal);
        let event = self.event();
        (event, self.child.wait().expect("its end").code())
    }

    /// Kills the process.
    pub(crate) fn kill(mut self) {
        self.send("-KILL");
        self.child.wait().expect("its end");
    }

    fn send(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().expect("kill");
        assert!(sent.success(), "the process runs");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
