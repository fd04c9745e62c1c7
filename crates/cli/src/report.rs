//! The output of a run, with the messages about objects of a repository.

use std::path::Path;

use cutpoint_repository::ObjectName;
use cutpoint_repository::verify::check::Remedy;
use cutpoint_storage::Error as StoreError;
pub(crate) use cutpoint_terminal::Report;
use cutpoint_terminal::report::Program;

use crate::event::{Event, Finding};
use crate::remedy::remedy;

/// This program, as its messages name it.
pub(crate) const PROGRAM: Program = Program { name: "cutpoint", remedy };

/// Messages about objects of a repository.
pub(crate) trait ReportObjects {
    /// Reports, as a problem, an object that cannot be read. The run continues without it.
    fn unreadable(&self, name: &ObjectName, error: &StoreError);

    /// Warns that the storage has lost objects that it had acknowledged, which are stored again.
    fn lost(&self);

    /// Reports a finding of a check.
    fn finding(&self, kind: &str, object: &str, message: &str, remedies: &[Remedy]);
}

impl ReportObjects for Report {
    fn unreadable(&self, name: &ObjectName, error: &StoreError) {
        // For settings and keyrings, the error may be about the copy.
        let of_copy = error.object().strip_prefix(&name.to_string());
        let name = format!("{name}{}", of_copy.unwrap_or_default());
        // Two listings may report the same error in different words.
        if !self.is_new("unreadable", Some(Path::new(&name)), "") {
            return;
        }
        let message = error.to_string();
        let message = message.strip_prefix(&format!("{name}: ")).unwrap_or(&message);
        self.problem(
            Path::new(&name),
            &format!("{message}; skipped (`cutpoint check` shows the consequences)"),
        );
    }

    fn lost(&self) {
        self.warn(
            "the storage has lost objects that it had acknowledged before its connection failed: \
             they are stored again; run `cutpoint check --read-data`, and look at the server",
        );
    }

    fn finding(&self, kind: &str, object: &str, message: &str, remedies: &[Remedy]) {
        if self.is_json() {
            self.keep(kind, object.as_bytes(), message);
            let remedies = remedies.iter().map(ToString::to_string).collect();
            self.tell(&Event::Finding(Finding { kind, object, message, remedies }));
        } else {
            self.say_of(kind, object.as_bytes(), message);
        }
    }
}
