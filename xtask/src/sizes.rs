//! The sizes of functions and files: lines of a function, its parameters, and lines of code of a file.
//!
//! A table may be longer: `// sizes: table, REASON` directly above a function exempts the function, and
//! the same comment within the first 20 lines of a file, above no function, exempts the file.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::layers::is_test;
use crate::{output, root};

/// The maximum number of lines of a function, from its signature to its closing brace.
const FUNCTION_LINES_MAX: usize = 80;

/// The maximum number of parameters of a function; `self` is not counted.
const PARAMETERS_MAX: usize = 6;

/// The maximum number of lines of code of a file: without blank lines, comments and test modules.
const FILE_LINES_MAX: usize = 600;

/// The number of lines at the top of a file in which the file can be exempted.
const FILE_HEAD_LINES: usize = 20;

/// The beginning of a comment that exempts a function or a file. A reason follows.
const EXEMPTION: &str = "// sizes: table, ";

/// The folder of the crate that is not looked at.
const FUZZ: &str = "fuzz/";

/// Checks every Rust file that git tracks, except the fuzz targets.
pub(crate) fn check() -> Result<(), String> {
    let mut command = Command::new("git");
    command.args(["ls-files", "-z", "*.rs"]).current_dir(root());
    let Ok(files) = output(command) else {
        println!("xtask: not a git checkout: sizes were not checked");
        return Ok(());
    };
    let files = String::from_utf8_lossy(&files).into_owned();
    let mut violations = Vec::new();
    for name in files.split_terminator('\0').filter(|name| !name.starts_with(FUZZ)) {
        // A tracked file may be removed without a commit yet.
        let Ok(text) = std::fs::read_to_string(Path::new(root()).join(name)) else { continue };
        let found = violations_of(&text).map_err(|error| format!("{name}: {error}"))?;
        violations.extend(found.into_iter().map(|each| format!("{name}:{each}")));
    }
    if violations.is_empty() {
        return Ok(());
    }
    violations.iter().for_each(|each| println!("{each}"));
    Err(format!("{} functions and files are too large", violations.len()))
}

/// Returns the violations in the text of a file, each as `line: problem`, by line.
fn violations_of(text: &str) -> Result<Vec<String>, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let mut found = Found::default();
    found.visit_file(&file);
    let lines: Vec<&str> = text.lines().collect();
    let mut wrong: Vec<(usize, String)> = Vec::new();
    let mut exempting = BTreeSet::new();
    for function in &found.functions {
        if let Some(line) = function.exemption(&lines) {
            exempting.insert(line);
            continue;
        }
        let Function { name, first_line, line_count, parameter_count, .. } = function;
        if *line_count > FUNCTION_LINES_MAX {
            let problem = format!("fn {name}: {line_count} lines (maximum {FUNCTION_LINES_MAX})");
            wrong.push((*first_line, problem));
        }
        if *parameter_count > PARAMETERS_MAX {
            let problem =
                format!("fn {name}: {parameter_count} parameters (maximum {PARAMETERS_MAX})");
            wrong.push((*first_line, problem));
        }
    }
    let mut head = (1..).zip(lines.iter()).take(FILE_HEAD_LINES);
    let is_exempt = head.any(|(line, text)| is_exemption(text) && !exempting.contains(&line));
    let code = code_lines(text, &lines)?;
    let code_count = code.difference(&found.test_lines).count();
    if code_count > FILE_LINES_MAX && !is_exempt {
        let problem = format!("file: {code_count} lines of code (maximum {FILE_LINES_MAX})");
        wrong.push((1, problem));
    }
    wrong.sort();
    Ok(wrong.into_iter().map(|(line, problem)| format!("{line}: {problem}")).collect())
}

/// Returns `true` for a comment that exempts something and states a reason.
fn is_exemption(line: &str) -> bool {
    line.trim_start().strip_prefix(EXEMPTION).is_some_and(|reason| !reason.trim().is_empty())
}

/// A function of a file. Lines are counted from 1.
struct Function {
    name: String,
    /// The line of its first attribute or doc comment, or of its signature.
    head_line: usize,
    /// The line of its signature.
    first_line: usize,
    /// The number of lines from its signature to its closing brace; 0 without a body.
    line_count: usize,
    parameter_count: usize,
}

impl Function {
    /// Returns the line of the comment above the function that exempts it.
    fn exemption(&self, lines: &[&str]) -> Option<usize> {
        let above = self.head_line.saturating_sub(1).max(1)..self.first_line;
        above.into_iter().find(|line| lines.get(line - 1).is_some_and(|text| is_exemption(text)))
    }
}

/// The functions and the test modules of a file.
#[derive(Default)]
struct Found {
    functions: Vec<Function>,
    /// The lines of test modules.
    test_lines: BTreeSet<usize>,
}

impl Found {
    fn function(
        &mut self,
        attributes: &[syn::Attribute],
        visibility: Option<&syn::Visibility>,
        signature: &syn::Signature,
        body: Option<&syn::Block>,
    ) {
        let is_visible = |each: &&syn::Visibility| !matches!(each, syn::Visibility::Inherited);
        let first_span = visibility.filter(is_visible).map_or(signature.span(), Spanned::span);
        let first_line = first_span.start().line;
        let last_line = body.map(|block| block.brace_token.span.close().end().line);
        let is_counted = |each: &&syn::FnArg| matches!(each, syn::FnArg::Typed(_));
        self.functions.push(Function {
            name: signature.ident.to_string(),
            head_line: attributes.first().map_or(first_line, |each| each.span().start().line),
            first_line,
            line_count: last_line.map_or(0, |last| last + 1 - first_line),
            parameter_count: signature.inputs.iter().filter(is_counted).count(),
        });
    }

    /// Finds functions among the tokens of a macro, which have no other syntax.
    fn tokens(&mut self, stream: &TokenStream) {
        let tokens: Vec<TokenTree> = stream.clone().into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.tokens(&group.stream()),
                TokenTree::Ident(word) if word == "fn" => {
                    self.functions.extend(function_in_macro(word.span(), &tokens[at + 1..]));
                }
                _ => {}
            }
        }
    }
}

/// Returns the function whose tokens behind `fn`, at `span`, are `rest`. The name of the function may
/// be a variable of the macro.
fn function_in_macro(span: Span, rest: &[TokenTree]) -> Option<Function> {
    let name_len = match rest.first()? {
        TokenTree::Ident(_) => 1,
        TokenTree::Punct(punct) if punct.as_char() == '$' => 2,
        // A type such as `fn(u8)`.
        _ => return None,
    };
    let name: String = rest.iter().take(name_len).map(ToString::to_string).collect();
    let mut depth = 0_usize;
    let mut is_arrow = false;
    let mut parameters: Option<&Group> = None;
    for token in &rest[name_len..] {
        match token {
            TokenTree::Punct(punct) => {
                match punct.as_char() {
                    '<' => depth += 1,
                    '>' if !is_arrow => depth = depth.saturating_sub(1),
                    ';' => return None,
                    _ => {}
                }
                is_arrow = punct.as_char() == '-';
            }
            TokenTree::Group(group)
                if group.delimiter() == Delimiter::Parenthesis
                    && depth == 0
                    && parameters.is_none() =>
            {
                parameters = Some(group);
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let first_line = span.start().line;
                return Some(Function {
                    name,
                    head_line: first_line,
                    first_line,
                    line_count: group.span_close().end().line + 1 - first_line,
                    parameter_count: typed_count(parameters?.stream()),
                });
            }
            _ => {}
        }
    }
    None
}

/// Returns the number of parameters with a type, that is, of colons that are not part of a path.
fn typed_count(parameters: TokenStream) -> usize {
    let tokens: Vec<String> = parameters.into_iter().map(|token| token.to_string()).collect();
    let is_colon = |at: usize| tokens.get(at).is_some_and(|token| token == ":");
    (0..tokens.len())
        .filter(|&at| is_colon(at) && !is_colon(at + 1) && (at == 0 || !is_colon(at - 1)))
        .count()
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.attrs, Some(&item.vis), &item.sig, Some(&item.block));
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, Some(&item.vis), &item.sig, Some(&item.block));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(&item.attrs, None, &item.sig, item.default.as_ref());
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_foreign_item_fn(&mut self, item: &'ast syn::ForeignItemFn) {
        self.function(&item.attrs, Some(&item.vis), &item.sig, None);
        visit::visit_foreign_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if is_test(&item.attrs) {
            let span = item.span();
            self.test_lines.extend(span.start().line..=span.end().line);
        }
        visit::visit_item_mod(self, item);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(&item.tokens);
    }
}

/// Returns the lines that have code. Comments are no tokens, and doc comments are left out.
fn code_lines(text: &str, lines: &[&str]) -> Result<BTreeSet<usize>, String> {
    let stream: TokenStream =
        text.parse().map_err(|error: proc_macro2::LexError| error.to_string())?;
    let mut code = BTreeSet::new();
    add_lines(stream, &mut code);
    // A text in the code may have blank lines.
    code.retain(|line| lines.get(line - 1).is_some_and(|text| !text.trim().is_empty()));
    Ok(code)
}

fn add_lines(stream: TokenStream, code: &mut BTreeSet<usize>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut rest = tokens.as_slice();
    while let Some((first, after)) = rest.split_first() {
        if let Some(len) = doc_comment_len(rest) {
            rest = &rest[len..];
            continue;
        }
        rest = after;
        let (open, close) = match first {
            TokenTree::Group(group) => {
                add_lines(group.stream(), code);
                (group.span_open(), group.span_close())
            }
            other => (other.span(), other.span()),
        };
        for span in [open, close] {
            code.extend(span.start().line..=span.end().line);
        }
    }
}

/// Returns the number of tokens of the doc comment at the beginning of `tokens`, if there is one.
fn doc_comment_len(tokens: &[TokenTree]) -> Option<usize> {
    let is_punct = |at: usize, wanted: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == wanted);
    let at = if is_punct(1, '!') { 2 } else { 1 };
    let Some(TokenTree::Group(group)) = tokens.get(at).filter(|_| is_punct(0, '#')) else {
        return None;
    };
    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
    match &inner[..] {
        [TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Literal(_)] if name == "doc" => {
            Some(at + 1)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(text: &str) -> Vec<String> {
        violations_of(text).expect("it parses")
    }

    /// Returns a function with `line_count` lines.
    fn function(line_count: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(line_count - 2))
    }

    #[test]
    fn function_is_too_long_from_81_lines_on() {
        assert_eq!(violations(&function(80)), [""; 0]);
        assert_eq!(violations(&function(81)), ["1: fn f: 81 lines (maximum 80)"]);
        // Doc comments and attributes are not counted; comments and blank lines are.
        let text = format!("/// Doc.\n/// Doc.\n#[inline]\npub {}", function(80));
        assert_eq!(violations(&text), [""; 0]);
        let text = text.replacen("    g();\n", "    // Comment.\n\n    g();\n", 1);
        assert_eq!(violations(&text), ["4: fn f: 82 lines (maximum 80)"]);
    }

    #[test]
    fn functions_everywhere_are_found() {
        let long = function(81);
        for text in [
            format!("impl A {{\n{long}}}"),
            format!("impl B for A {{\n{long}}}"),
            format!("trait B {{\n{long}}}"),
            format!("mod m {{\n{long}}}"),
            format!("#[cfg(test)] mod tests {{\n{long}}}"),
            format!("const A: u8 = {{\n{long} 1 }};"),
            format!("macro_rules! m {{ () => {{\n{long}}} }}"),
            format!("m! {{\n{long}}}"),
        ] {
            assert_eq!(violations(&text), ["2: fn f: 81 lines (maximum 80)"], "{text}");
        }
        // A function within another one is counted by itself, and as a part of the other one.
        let text = format!("fn outer() {{\n{long}}}");
        let expected = ["1: fn outer: 83 lines (maximum 80)", "2: fn f: 81 lines (maximum 80)"];
        assert_eq!(violations(&text), expected);
    }

    #[test]
    fn seventh_parameter_is_too_many() {
        let six =
            "a: u8, b: u8, c: &[u8], d: std::io::Error, e: Box<dyn Fn(u8, u8)>, (f, g): (A, B)";
        let seven = format!("{six}, h: HashMap<u8, u8>");
        let kinds = |parameters: &str| {
            [
                format!("fn f({parameters}) {{}}"),
                format!("impl A {{ pub fn f(&self, {parameters}) {{}} }}"),
                format!("impl B for A {{ fn f(self, {parameters}) {{}} }}"),
                format!("trait B {{ fn f(&mut self, {parameters}); }}"),
                format!("extern \"C\" {{ fn f({parameters}); }}"),
                format!(
                    "macro_rules! m {{ () => {{ fn f<F: Fn(u8) -> u8>({parameters}) {{}} }} }}"
                ),
            ]
        };
        for text in kinds(six) {
            assert_eq!(violations(&text), [""; 0], "{text}");
        }
        for text in kinds(&seven) {
            assert_eq!(violations(&text), ["1: fn f: 7 parameters (maximum 6)"], "{text}");
        }
        assert_eq!(violations("fn f(g: fn(u8, u8, u8, u8, u8, u8, u8)) {}"), [""; 0], "a type");
    }

    #[test]
    fn file_is_too_long_from_601_lines_of_code_on() {
        let code = "const A: u8 = 1;\n".repeat(600);
        assert_eq!(violations(&code), [""; 0]);
        let more = format!("{code}const B: u8 = 1;\n");
        let expected = ["1: file: 601 lines of code (maximum 600)"];
        assert_eq!(violations(&more), expected);
        // Each line of a text is a line of code, even if it looks like a comment.
        assert_eq!(violations(&format!("{code}const B: &str = \"\n// Text.\n\n\";\n")).len(), 1);
    }

    #[test]
    fn comments_blank_lines_and_test_modules_are_no_code() {
        let code = "const A: u8 = 1;\n".repeat(600);
        for text in [
            format!("//! Doc.\n\n{code}"),
            format!("{code}// Comment.\n/* One.\nTwo. */\n\n"),
            format!("/// Doc.\n/** Doc. */\n{code}"),
            format!("{code}#[cfg(test)]\nmod tests {{\n    fn f() {{\n    }}\n}}\n"),
            format!("{code}#[cfg(all(test, unix))]\nmod tests {{\n    fn f() {{}}\n}}\n"),
        ] {
            assert_eq!(violations(&text), [""; 0]);
        }
        let text = format!("{code}mod tests {{\n    fn f() {{}}\n}}\n");
        assert_eq!(violations(&text), ["1: file: 603 lines of code (maximum 600)"]);
    }

    #[test]
    fn comment_with_a_reason_exempts_a_function() {
        let long = function(81);
        for above in [
            "// sizes: table, one row for each code\n",
            "// sizes: table, one row for each code\n/// Doc.\n#[inline]\n",
            "/// Doc.\n#[inline]\n// sizes: table, one row for each code\n",
        ] {
            assert_eq!(violations(&format!("{above}{long}")), [""; 0], "{above}");
        }
        for above in [
            "// sizes: table,\n",
            "// sizes: table, \n",
            "// sizes: one row for each code\n",
            "// table, one row for each code\n",
            "// sizes: table, one row for each code\n\n",
            "// sizes: table, one row for each code\nfn g() {}\n",
        ] {
            assert_eq!(violations(&format!("{above}{long}")).len(), 1, "{above}");
        }
    }

    #[test]
    fn comment_at_the_top_exempts_a_file() {
        let code = "const A: u8 = 1;\n".repeat(601);
        let exemption = "// sizes: table, one row for each code\n";
        assert_eq!(violations(&format!("//! Doc.\n\n{exemption}\n{code}")), [""; 0]);
        assert_eq!(violations(&format!("// sizes: table, \n{code}")).len(), 1, "no reason");
        let below = format!("{}{exemption}{code}", "\n".repeat(20));
        assert_eq!(violations(&below).len(), 1, "too far below");
        let above = format!("{exemption}fn f() {{}}\n{code}");
        assert_eq!(violations(&above).len(), 1, "the comment is that of a function");
        let long = format!("{exemption}\n{}", function(81));
        assert_eq!(violations(&long).len(), 1, "functions of the file are not exempt");
    }
}
