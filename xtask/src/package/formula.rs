//! The formula of Homebrew, for a tap of the project.

use std::path::Path;

use super::archive;
use super::release::{HOMEPAGE, Release, SUMMARY, TARGETS, read, sha256};
use crate::root;

/// The formula, with marks instead of values.
const TEMPLATE: &str = "packaging/cutpoint.rb";

/// Makes the formula. On Linux it installs the static programs, elsewhere it compiles the sources.
pub(super) fn package(release: &Release) -> Result<(), String> {
    let template = read(&Path::new(root()).join(TEMPLATE))?;
    let template = String::from_utf8_lossy(&template).into_owned();
    let folder = format!("{HOMEPAGE}/releases/download/v{}", release.version);
    let files = [
        ("SOURCE", archive::source_name(release)),
        ("X86_64", archive::file_name(release, &TARGETS[0])),
        ("AARCH64", archive::file_name(release, &TARGETS[1])),
    ];
    let mut values = vec![
        ("SUMMARY".to_owned(), SUMMARY.to_owned()),
        ("HOMEPAGE".to_owned(), HOMEPAGE.to_owned()),
        ("COMMIT".to_owned(), release.commit.clone()),
    ];
    for (mark, name) in files {
        let sum = sha256(&release.read(&name)?);
        values.push((format!("{mark}_URL"), format!("{folder}/{name}")));
        values.push((format!("{mark}_SUM"), sum));
    }
    release.write("cutpoint.rb", filled(template, &values)?.as_bytes())
}

/// Replaces each mark `@NAME@` of `template` by its value.
///
/// # Errors
///
/// Returns an error if a mark is not in the template, or has no value.
fn filled(template: String, values: &[(String, String)]) -> Result<String, String> {
    let mut text = template;
    for (name, value) in values {
        let mark = format!("@{name}@");
        if !text.contains(&mark) {
            return Err(format!("{TEMPLATE} does not contain {mark}"));
        }
        text = text.replace(&mark, value);
    }
    if text.contains('@') { Err(format!("{TEMPLATE} has an unknown mark")) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_without_values_and_values_without_marks_are_refused() {
        let values = [("A".to_owned(), "1".to_owned())];
        assert_eq!(filled("x @A@ y".to_owned(), &values), Ok("x 1 y".to_owned()));
        assert!(filled("x".to_owned(), &values).is_err());
        assert!(filled("@A@ @B@".to_owned(), &values).is_err());
    }
}
