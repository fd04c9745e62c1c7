//! Comparison of quotations with the texts of the papers.
//!
//! The papers are not in the repository. A test finds each quotation in their texts if
//! `CUTPOINT_PAPERS` names their folder, and compares the list of quotations with the digest of
//! those that were found, which is in [`QUOTATIONS`], in any case.

/// The digests of the quotations that were found in the papers, one a line.
pub const QUOTATIONS: &str = include_str!("quotations.txt");

/// Returns `text` without what extraction from a page changes: spaces, marks of Markdown and TeX,
/// links, and forms of dashes, quotation marks and multiplication signs.
pub fn squeezed(text: &str) -> String {
    let text = text
        .replace("\\,", "")
        .replace("\\times", "x")
        .replace("\\approx", "~")
        .replace("\\mu", "mu");
    let mut squeezed = String::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        // The target of a Markdown link: `](#page-6-0)`.
        if let Some(end) = rest.strip_prefix("](").and_then(|link| link.find(')')) {
            rest = &rest[end + 3..];
            continue;
        }
        rest = &rest[first.len_utf8()..];
        match first {
            '\u{d7}' => squeezed.push('x'),
            '\u{2212}' | '\u{2010}'..='\u{2015}' => squeezed.push('-'),
            '\u{2018}' | '\u{2019}' => squeezed.push('\''),
            '\u{201c}' | '\u{201d}' => squeezed.push('"'),
            '\u{2248}' => squeezed.push('~'),
            '\u{b5}' | '\u{3bc}' => squeezed.push_str("mu"),
            '\u{a7}' => {}
            '$' | '\\' | '{' | '}' | '*' | '_' | '[' | ']' => {}
            _ if first.is_whitespace() => {}
            _ => squeezed.push(first),
        }
    }
    squeezed
}
