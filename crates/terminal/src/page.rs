//! Self-contained HTML pages, for light and dark displays, paper and telephones. They are also
//! valid XML.

/// Returns a page with this title and `body` below it.
pub fn page(title: &str, body: &str) -> String {
    styled(title, "", body)
}

/// Returns a page with this title and `body` below it. `style` is added to the style of all pages.
pub fn styled(title: &str, style: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n\
         <meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{title}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Escapes text for use between tags and in attributes.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const STYLE: &str = "\
:root { color-scheme: light dark; --ground: #fff; --ink: #222; --faint: #777; --line: #ddd;
  --one: #9db8d6; --two: #e3bd84; --three: #2f6fb5; --four: #c27a1c; }
@media (prefers-color-scheme: dark) { :root { --ground: #16181c; --ink: #e4e6ea; --faint: #9aa0a8;
  --line: #3a3f47; --one: #47617f; --two: #80632f; --three: #6aa5e6; --four: #e0a24c; } }
@media print { :root { --ground: #fff; --ink: #000; } }
body { background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 0; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; }
svg { width: 100%; max-width: 48rem; height: auto; }
text { fill: var(--ink); font: 14px system-ui, sans-serif; } .number { fill: var(--faint); font-size: 12px; }
.one { fill: var(--one); background: var(--one); } .two { fill: var(--two); background: var(--two); }
.three { fill: var(--three); background: var(--three); }
.four { fill: var(--four); background: var(--four); }
.axis { stroke: var(--line); } .front { stroke: var(--four); fill: none; stroke-width: 1.5; }
.key { display: inline-block; width: 0.8em; height: 0.8em; margin: 0 0.3em 0 0.8em; }
.legend { font-size: 0.9rem; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
td, th { padding: 0.2em 0.6em; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
td:first-child, th:first-child { text-align: left; }
";
