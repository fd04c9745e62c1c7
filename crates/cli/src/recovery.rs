//! The recovery kit: a keyring on paper.
//!
//! Lines with data begin with `repository` or `epoch`. Each has sixteen bytes in groups of four
//! digits and, after `=`, a checksum of four digits over the label and the bytes of the line, so
//! that a typing mistake is found in its line. Case and spaces are ignored.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use cutpoint_repository::repo::remembered::create_private_file;
use cutpoint_repository::{Keyring, Repository, RepositoryId, Secret, Unlock};
use zeroize::Zeroizing;

use crate::exit::Failure;
use crate::report::Report;
use crate::{escape, interrupt};

/// The first line of a kit.
const TITLE: &str = "cutpoint recovery kit v1";

/// The number of bytes in a line.
const LINE_LEN: usize = 16;

/// The destination of a kit. A file is created before any step that would have to be undone if the
/// file could not be created.
pub(crate) struct Kit<'a> {
    /// The file and its path; `None` for standard output.
    file: Option<(&'a Path, fs::File)>,
}

impl<'a> Kit<'a> {
    /// Creates the file at `path`, which must not exist; `-` stands for standard output.
    pub(crate) fn create(path: &'a Path, report: &Report) -> Result<Kit<'a>> {
        if path == Path::new("-") {
            if report.is_json() {
                let message = "a recovery kit on standard output cannot be combined with --json";
                return Err(Failure::failed(message).into());
            }
            return Ok(Kit::at_standard_output());
        }
        let file = create_private_file(path)
            .with_context(|| format!("recovery kit {}", path.display()))?;
        Ok(Kit { file: Some((path, file)) })
    }

    /// Returns the destination standard output, for a kit on the terminal.
    pub(crate) fn at_standard_output() -> Kit<'static> {
        Kit { file: None }
    }

    /// Returns `true` if the kit goes to standard output.
    pub(crate) fn is_at_standard_output(&self) -> bool {
        self.file.is_none()
    }

    /// Removes the empty file.
    pub(crate) fn discard(&self) {
        if let Some((path, _)) = &self.file {
            fs::remove_file(path).ok();
        }
    }

    /// Writes the kit of `repository`, reads it back, opens the repository with it, and records the
    /// kit in the repository under `label`. Returns the id of the record.
    ///
    /// # Errors
    ///
    /// Fails if the kit cannot be written, or does not open the repository.
    pub(crate) fn write(
        mut self,
        repository: &Repository,
        label: &str,
        report: &Report,
    ) -> Result<[u8; 16]> {
        let keyring = repository.keys().keyring();
        let text = print(keyring);
        let written = match &mut self.file {
            Some((path, file)) => {
                let context = || format!("recovery kit {}", path.display());
                file.write_all(text.as_bytes())
                    .and_then(|()| file.sync_all())
                    .with_context(context)?;
                Zeroizing::new(fs::read_to_string(*path).with_context(context)?)
            }
            None => {
                report.secret(&text)?;
                text
            }
        };
        let fails =
            |why: String| Failure::failed(format!("recovery kit: verification failed: {why}"));
        let read = parse(&written).map_err(fails)?;
        if read != *keyring {
            return Err(fails("the kit does not hold the keys of the repository".to_owned()).into());
        }
        let kit = Unlock::Keyring(read);
        Repository::open(repository.storage().clone(), interrupt::environment(), &kit)
            .map_err(|error| fails(error.to_string()))?;
        let id = repository.add_key(&kit, label)?;
        if let Some((path, _)) = &self.file {
            report.note(&format!(
                "Wrote recovery kit {}; a test confirmed that it opens the repository.",
                path.display()
            ));
        }
        Ok(id)
    }
}

/// Formats the kit of `keyring`.
pub(crate) fn print(keyring: &Keyring) -> Zeroizing<String> {
    // The capacity is sufficient, because a string that grows leaves copies behind.
    let mut kit = Zeroizing::new(String::with_capacity(2048 + keyring.epochs.len() * 256));
    kit.push_str(TITLE);
    kit.push_str(
        "\n\n\
         This kit gives access to the whole repository, without a passphrase. Print the\n\
         kit, keep it away from the computer, and do not store it beside the repository.\n\
         After the next `cutpoint key rotate` the kit no longer opens the repository.\n\n\
         To use the kit, type it into a file (from the first line on, or only the first\n\
         line and the lines with digits) and give the file instead of a passphrase:\n\n\
         \x20   cutpoint snapshots --repo REPOSITORY --key-file FILE\n\n",
    );
    push_line(&mut kit, "repository", &keyring.repository.0);
    for (epoch, secret) in &keyring.epochs {
        for (part, bytes) in ["a", "b"].into_iter().zip(secret.0.chunks_exact(LINE_LEN)) {
            push_line(&mut kit, &format!("epoch {epoch}{part}"), bytes);
        }
    }
    kit
}

fn push_line(kit: &mut String, label: &str, bytes: &[u8]) {
    write!(kit, "{label:<11}").ok();
    for pair in bytes.chunks(2) {
        write!(kit, " {}", *Zeroizing::new(escape::hex(pair))).ok();
    }
    writeln!(kit, " = {}", checksum(label, bytes)).ok();
}

/// Returns four digits that change with the label or the bytes, except for one mistake in 65,536.
fn checksum(label: &str, bytes: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("cutpoint v1 recovery kit line");
    hasher.update(label.as_bytes()).update(&[0]).update(bytes);
    escape::hex(&hasher.finalize().as_bytes()[..2])
}

/// Returns `true` if `text` is meant to be a kit.
pub(crate) fn is_kit(text: &str) -> bool {
    Zeroizing::new(text.to_lowercase()).contains("cutpoint recovery kit")
}

/// Parses a kit.
///
/// # Errors
///
/// Returns a message that names the wrong line.
pub(crate) fn parse(text: &str) -> Result<Keyring, String> {
    let mut repository = None;
    let mut parts: Vec<(String, Zeroizing<Vec<u8>>)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some((left, sum)) = line.rsplit_once('=') else { continue };
        let left = Zeroizing::new(left.trim().to_lowercase());
        let mut words = left.split_whitespace();
        let label = match words.next() {
            Some("repository") => "repository".to_owned(),
            Some("epoch") => format!("epoch {}", words.next().unwrap_or_default()),
            _ => continue,
        };
        // The capacity is sufficient, because a string that grows leaves copies behind.
        let mut digits = Zeroizing::new(String::with_capacity(left.len()));
        words.for_each(|word| digits.push_str(word));
        let bytes = parse_hex(&digits)
            .filter(|bytes| bytes.len() == LINE_LEN)
            .ok_or_else(|| format!("line {number}: expected 32 hexadecimal digits"))?;
        let sum: String = sum.to_lowercase().split_whitespace().collect();
        if sum != checksum(&label, &bytes) {
            return Err(format!("line {number}: wrong checksum (mistyped line)"));
        }
        match label.strip_prefix("epoch ") {
            None => repository = <[u8; 16]>::try_from(&bytes[..]).ok().map(RepositoryId),
            Some(part) => parts.push((part.to_owned(), bytes)),
        }
    }
    let repository = repository.ok_or("line `repository` is missing")?;
    let mut epochs = Vec::new();
    for pair in parts.chunks(2) {
        let wrong = || "lines `epoch` are not in ascending pairs a and b".to_owned();
        let [(first, a), (second, b)] = pair else { return Err(wrong()) };
        let epoch: u32 = first.strip_suffix('a').and_then(|e| e.parse().ok()).ok_or_else(wrong)?;
        let is_rising = epochs.last().is_none_or(|(last, _)| *last < epoch);
        if *second != format!("{epoch}b") || !is_rising {
            return Err(wrong());
        }
        let mut secret = Secret([0; 32]);
        secret.0[..LINE_LEN].copy_from_slice(a);
        secret.0[LINE_LEN..].copy_from_slice(b);
        epochs.push((epoch, secret));
    }
    if epochs.is_empty() {
        return Err("lines `epoch` are missing".to_owned());
    }
    Ok(Keyring { repository, epochs })
}

/// Parses an even number of hexadecimal digits.
pub(crate) fn parse_hex(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len() / 2));
    for pair in text.as_bytes().chunks_exact(2) {
        bytes.push(digit(pair[0])? << 4 | digit(pair[1])?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyring() -> Keyring {
        Keyring {
            repository: RepositoryId([0xab; 16]),
            epochs: vec![(1, Secret([7; 32])), (2, Secret([0xfe; 32]))],
        }
    }

    #[test]
    fn kit_is_parsed_back() {
        let kit = print(&keyring());
        assert!(is_kit(&kit), "the title is known");
        assert_eq!(parse(&kit), Ok(keyring()), "as printed");
        let typed = kit.to_uppercase().replace(' ', "  ");
        assert_eq!(parse(&typed), Ok(keyring()), "typed differently");
    }

    #[test]
    fn every_mistake_is_found() {
        let kit = print(&keyring());
        let start = kit.find("repository  ").expect("the first line that counts");
        let mut slips = 0;
        for (at, character) in kit[start..].char_indices() {
            if !character.is_ascii_hexdigit()
                || kit[start..start + at].ends_with(char::is_alphabetic)
            {
                continue;
            }
            let mut typed = kit.to_string();
            let other = if character == '0' { "1" } else { "0" };
            typed.replace_range(start + at..start + at + 1, other);
            assert_ne!(parse(&typed), Ok(keyring()), "a slip at {at} was not seen");
            slips += 1;
        }
        assert!(slips > 100, "only {slips} slips were tried");
        let without: String = kit
            .lines()
            .filter(|line| !line.contains("epoch 1b"))
            .map(|l| format!("{l}\n"))
            .collect();
        assert!(parse(&without).is_err(), "a line is missing");
    }
}
