//! Questions that a user answers with yes or no.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anyhow::{Context as _, Result};

/// True if a question can be shown and answered: standard input and standard error are terminals.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks `question` on standard error. The answer is true for `y` and `yes` in any case, and false
/// for anything else, the end of the input among it.
///
/// # Errors
///
/// Fails if standard input cannot be read.
pub(crate) fn ask(question: &str) -> Result<bool> {
    write!(io::stderr(), "{question} [y/N] ").ok();
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
