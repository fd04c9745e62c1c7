//! The limit of the number of printed messages of each kind.

use std::collections::BTreeMap;

use crate::units;

/// The maximum number of printed messages of one kind.
const PRINTED_MAX: u64 = 20;
/// The maximum number of kinds that are distinguished. All others share one count.
const KINDS_MAX: usize = 256;
/// The text in place of the words that differ between messages of one kind.
const ANY: &str = "...";

/// The numbers of messages of each kind. A kind is a class and a text, without the words that name
/// an object or a quantity: those with a digit or a slash.
#[derive(Debug, Default)]
pub(crate) struct MessageKinds(BTreeMap<(String, String), Count>);

#[derive(Debug, Default)]
struct Count {
    printed: u64,
    /// The number of messages withheld since their number was last printed.
    withheld: u64,
}

impl MessageKinds {
    /// Counts a message. Returns `true` if it is to be printed.
    pub(crate) fn may_print(&mut self, class: &str, message: &str) -> bool {
        let mut kind = (class.to_owned(), kind_of(message));
        if self.0.len() >= KINDS_MAX && !self.0.contains_key(&kind) {
            kind.1 = ANY.to_owned();
        }
        let count = self.0.entry(kind).or_default();
        let may_print = count.printed < PRINTED_MAX;
        if may_print {
            count.printed += 1;
        } else {
            count.withheld += 1;
        }
        may_print
    }

    /// Returns a class and a line for each kind with withheld messages, and forgets their number.
    pub(crate) fn take_withheld(&mut self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        for ((class, kind), count) in &mut self.0 {
            let withheld = std::mem::take(&mut count.withheld);
            if withheld > 0 {
                let number = units::grouped(withheld);
                let line = format!("... and {number} more of this kind: {kind} (`-v` lists all)");
                lines.push((class.clone(), line));
            }
        }
        lines
    }
}

/// Returns the kind of `message`. Adjacent words that are left out count as one.
fn kind_of(message: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in message.split(' ') {
        let is_variable =
            word.contains(|character: char| character.is_ascii_digit()) || word.contains('/');
        match (is_variable, words.last()) {
            (true, Some(&ANY)) => {}
            (true, _) => words.push(ANY),
            (false, _) => words.push(word),
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_kind_are_printed_twenty_times_and_then_counted() {
        let mut kinds = MessageKinds::default();
        let printed = (0..2377)
            .filter(|number| {
                kinds.may_print("problem", &format!("chunk {number:x}0: is {number} bytes long"))
            })
            .count();
        assert_eq!(printed, 20, "of one kind");
        assert!(kinds.may_print("warning", "chunk 5: is 5 bytes long"), "another class");
        assert!(kinds.may_print("problem", "exists; not overwritten"), "another text");
        let line = "... and 2,357 more of this kind: chunk ... is ... bytes long (`-v` lists all)";
        assert_eq!(kinds.take_withheld(), [("problem".to_owned(), line.to_owned())]);
        assert_eq!(kinds.take_withheld(), [], "the number is told once");
        assert!(!kinds.may_print("problem", "chunk 1: is 2 bytes long"), "still too many");
        assert_eq!(kinds.take_withheld().len(), 1, "one more");
    }

    #[test]
    fn number_of_kinds_is_limited() {
        let mut kinds = MessageKinds::default();
        let text = |number: usize| "x".repeat(number);
        let printed =
            (0..2 * KINDS_MAX).filter(|&number| kinds.may_print("p", &text(number))).count();
        assert_eq!(printed as u64, KINDS_MAX as u64 + PRINTED_MAX);
        assert_eq!(kinds.0.len(), KINDS_MAX + 1, "and one for all others");
    }
}
