//! The language of doc comments, comments and test names. CONTRIBUTING.md has the rules; these are the
//! ones that can be counted.

use std::path::Path;
use std::process::Command;

use crate::{output, root};

/// First words of a doc block that ask instead of naming something.
const QUESTIONS: [&str; 9] =
    ["what", "how", "whether", "which", "who", "whose", "where", "when", "why"];

/// First words of a doc block that stand for a noun which is elsewhere.
const PRONOUNS: [&str; 8] = ["it", "its", "their", "that", "those", "these", "this", "they"];

/// Words for a quantity that name no role.
const VAGUE: [&str; 2] = ["so many", "so much"];

/// The maximum share of doc blocks that begin with a question word, in percent.
const QUESTIONS_MAX: usize = 3;

/// The maximum share of doc blocks that begin with a pronoun, in percent.
const PRONOUNS_MAX: usize = 2;

/// The minimum number of words of an `# Errors` or `# Panics` section.
const SECTION_WORDS_MIN: usize = 4;

/// First words of a test's name that name no subject.
const TEST_WORDS: [&str; 2] = ["what_", "who_"];

/// Checks every Rust file that git tracks.
pub(crate) fn check() -> Result<(), String> {
    let mut command = Command::new("git");
    command.args(["ls-files", "-z", "*.rs"]).current_dir(root());
    let Ok(files) = output(command) else {
        println!("xtask: not a git checkout: prose was not checked");
        return Ok(());
    };
    let files = String::from_utf8_lossy(&files).into_owned();
    let mut found = Found::default();
    for file in files.split_terminator('\0') {
        // Files that were removed and not committed yet.
        if let Ok(text) = std::fs::read_to_string(Path::new(root()).join(file)) {
            found.look(file, &text);
        }
    }
    println!(
        "xtask: {} doc blocks, {} begin with a question word, {} with a pronoun",
        found.block_count,
        found.questions.len(),
        found.pronouns.len()
    );
    found.report()
}

/// The findings, each with its place.
#[derive(Debug, Default)]
struct Found {
    /// The number of doc blocks outside of test folders.
    block_count: usize,
    questions: Vec<String>,
    pronouns: Vec<String>,
    /// Findings of which none is allowed.
    wrong: Vec<String>,
}

impl Found {
    fn look(&mut self, file: &str, text: &str) {
        let is_test = file.contains("/tests/");
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let mut was_doc = false;
        for (index, line) in lines.iter().enumerate() {
            let at = || format!("{file}:{}: {line}", index + 1);
            let doc = doc(line);
            if let Some(doc) = doc.filter(|_| !was_doc && !is_test) {
                self.block_count += 1;
                let first =
                    doc.split(' ').next().unwrap_or_default().trim_matches('`').to_lowercase();
                if QUESTIONS.contains(&first.as_str()) {
                    self.questions.push(at());
                } else if PRONOUNS.contains(&first.as_str()) {
                    self.pronouns.push(at());
                }
            }
            was_doc = doc.is_some();
            let is_comment = line.starts_with("//");
            if is_comment && VAGUE.iter().any(|vague| line.to_lowercase().contains(vague)) {
                self.wrong.push(format!("{}\n  name the quantity: maximum, number of", at()));
            }
            if matches!(doc, Some("# Errors" | "# Panics")) {
                let section = lines[index + 1..].iter().map_while(|line| self::doc(line));
                let section = section.skip_while(|line| line.is_empty());
                let words: usize = section
                    .take_while(|line| !line.is_empty())
                    .map(|it| it.split(' ').count())
                    .sum();
                if words < SECTION_WORDS_MIN {
                    self.wrong.push(format!(
                        "{}\n  the section has {words} words: say which errors, and when",
                        at()
                    ));
                }
            }
            let is_test_fn = index > 0
                && lines[..index]
                    .iter()
                    .rev()
                    .take_while(|it| it.starts_with("#["))
                    .any(|it| *it == "#[test]");
            if let Some(name) = line.strip_prefix("fn ").filter(|_| is_test_fn)
                && TEST_WORDS.iter().any(|word| name.starts_with(word))
            {
                self.wrong
                    .push(format!("{}\n  name the subject, the condition, the outcome", at()));
            }
        }
    }

    fn report(self) -> Result<(), String> {
        let mut wrong = self.wrong;
        for (places, percent_max, word) in [
            (self.questions, QUESTIONS_MAX, "a question word"),
            (self.pronouns, PRONOUNS_MAX, "a pronoun"),
        ] {
            if places.len() * 100 > self.block_count * percent_max {
                wrong.push(format!(
                    "{} of {} doc blocks begin with {word}; {percent_max} % may:\n{}",
                    places.len(),
                    self.block_count,
                    places.join("\n")
                ));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }
}

/// The text of a line of a doc comment.
fn doc(line: &str) -> Option<&str> {
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    (!text.starts_with('/')).then(|| text.strip_prefix(' ').unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(text: &str) -> Found {
        let mut found = Found::default();
        found.look("src/lib.rs", text);
        found
    }

    #[test]
    fn only_first_line_of_a_block_counts() {
        let found =
            look("/// Whether a\n/// what b\nfn f() {}\n\n/// Its c\nfn g() {}\n//! Reads d");
        assert_eq!((found.block_count, found.questions.len(), found.pronouns.len()), (3, 1, 1));
    }

    #[test]
    fn share_above_the_limit_is_refused() {
        let block = |text: &str| format!("/// {text}\nfn f() {{}}\n");
        let good = block("Returns").repeat(97);
        assert_eq!(look(&(good.clone() + &block("What").repeat(3))).report(), Ok(()));
        assert!(look(&(good.clone() + &block("What").repeat(4))).report().is_err());
        assert!(look(&(good + &block("It").repeat(3))).report().is_err());
    }

    #[test]
    fn vague_quantity_is_refused_in_comments_only() {
        assert!(look("// So many bytes.").report().is_err());
        assert_eq!(look("let text = \"so many bytes\";").report(), Ok(()));
    }

    #[test]
    fn short_section_is_refused() {
        let section =
            |text: &str| look(&format!("/// # Errors\n///\n/// {text}\nfn f() {{}}")).report();
        assert!(section("As the medium.").is_err());
        assert_eq!(section("Returns any error of [`X`]."), Ok(()));
    }

    #[test]
    fn test_without_a_subject_is_refused() {
        assert!(look("#[test]\nfn what_is_lost() {}").report().is_err());
        assert!(look("#[test]\n#[ignore]\nfn who_slept() {}").report().is_err());
        assert_eq!(look("fn what_is_lost() {}").report(), Ok(()));
    }
}
