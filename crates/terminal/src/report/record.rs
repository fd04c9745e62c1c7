//! What a command reports, as far as another command that runs it needs it.

use serde_json::Value;

/// The maximum number of messages that are kept.
const MESSAGES_MAX: usize = 20;

/// The summary and the first messages of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The summary event; `None` if the command has failed before.
    pub summary: Option<Value>,
    /// The first 20 problems, warnings, findings and errors, each as a line.
    pub messages: Vec<String>,
    /// The number of all messages.
    pub message_count: u64,
}

impl Record {
    /// Adds a message, or counts it if there are many.
    pub(super) fn add(&mut self, message: impl FnOnce() -> String) {
        self.message_count += 1;
        if self.messages.len() < MESSAGES_MAX {
            self.messages.push(message());
        }
    }
}
