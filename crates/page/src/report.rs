//! What takes the space, as one file to keep or to send. It has no script, and loads nothing.

use std::fmt::Write as _;

use cutpoint_terminal::page::escaped;
use cutpoint_terminal::units;

use crate::chart::{self, Frame};
use crate::space::{Node, Sizes, SnapshotSize, Space, Totals};

/// The widths of drawings: one for a screen and for paper, one for a telephone.
const WIDTHS: [(usize, &str); 2] = [(960, "on-wide"), (360, "on-narrow")];
/// The number of levels of folders that can be opened.
const LEVELS: usize = 5;
/// The maximum number of files and folders of a level.
const ROWS_MAX: usize = 15;

/// The style of the drawings and of the lists, in addition to that of the page.
pub const STYLE: &str = include_str!("assets/report.css");

/// Returns the page of a repository. `about` describes the repository.
pub fn page(space: &Space, about: &str) -> String {
    let mut body = format!("<p>{}</p>\n", escaped(about));
    figures(&mut body, space);
    sections(&mut body, space);
    let style = format!("{}{STYLE}", chart::STYLE);
    cutpoint_terminal::page::styled("cutpoint stats", &style, &body)
}

/// Appends what takes the space by path, over time and by step.
pub fn sections(body: &mut String, space: &Space) {
    body.push_str("<h3>By path</h3>\n");
    map(body, start(&space.root).1);
    if space.sample_rate > 1 {
        writeln!(body, "<p>Estimated from one chunk in {}.</p>", space.sample_rate).ok();
    }
    list(body, &space.root);
    if space.snapshots.len() > 1 {
        body.push_str("<h3>Over time</h3>\n");
        growth(body, &space.snapshots);
    }
    body.push_str("<h3>By step</h3>\n");
    steps(body, &space.totals);
    if space.unreadable_count > 0 {
        let count = units::count(space.unreadable_count, "object");
        writeln!(body, "<p>{count} could not be read; <code>cutpoint check</code> names them.</p>")
            .ok();
    }
}

/// Appends a map of what is below `node`.
fn map(body: &mut String, node: &Node) {
    drawn(body, |frame| chart::treemap(node, frame, None));
    body.push_str(
        "<p class=\"legend\"><span class=\"key dark\"></span>only in older snapshots</p>\n",
    );
}

/// Appends the steps from files to stored bytes.
fn steps(body: &mut String, totals: &Totals) {
    drawn(body, |frame| chart::steps(totals, frame));
}

fn growth(body: &mut String, snapshots: &[SnapshotSize]) {
    drawn(body, |frame| chart::growth(snapshots, frame));
    body.push_str(
        "<p class=\"legend\"><span class=\"key warm\"></span>files of the newest snapshots \
         <span class=\"key accent\"></span>added to the repository</p>\n",
    );
}

/// Appends a drawing in each width.
fn drawn(body: &mut String, draw: impl Fn(Frame) -> String) {
    for (width, class) in WIDTHS {
        let svg = draw(Frame::of_width(width));
        writeln!(body, "<div class=\"{class}\">{svg}</div>").ok();
    }
}

fn figures(body: &mut String, space: &Space) {
    let Totals { logical_bytes, stored_bytes, .. } = space.totals;
    let ratio = match stored_bytes {
        0 => "-".to_owned(),
        stored => format!("{:.1} : 1", logical_bytes as f64 / stored as f64),
    };
    let snapshots = units::count(space.snapshots.len() as u64, "snapshot");
    let figures = [
        (units::size(stored_bytes), "stored".to_owned()),
        (units::size(logical_bytes), format!("files in {snapshots}")),
        (ratio, "saved".to_owned()),
    ];
    body.push_str("<div class=\"figures\">");
    for (value, name) in figures {
        write!(body, "<div><b>{value}</b><span>{name}</span></div>").ok();
    }
    body.push_str("</div>\n");
}

/// Returns the first folder with more than one child, and its path.
fn start(root: &Node) -> (Vec<&[u8]>, &Node) {
    let (mut path, mut node) = (Vec::new(), root);
    while let (1, Some((name, child))) = (node.children.len(), node.children.iter().next()) {
        if !child.is_folder || child.children.is_empty() {
            break;
        }
        path.push(&**name);
        node = child;
    }
    (path, node)
}

/// Appends a list of the files and folders that take most. Folders can be opened.
fn list(body: &mut String, root: &Node) {
    let (path, node) = start(root);
    let name = match path.split_first() {
        None => "all hosts".to_owned(),
        Some((host, below)) => {
            let names = below.iter().map(|name| format!("/{}", shown(name)));
            format!("{}: {}", shown(host), names.collect::<String>())
        }
    };
    body.push_str(
        "<div class=\"wide\"><div class=\"sizes\">\n<div class=\"line head\"><span>name</span>\
         <span>stored</span><span>of it older</span><span>files</span><span>duplicate</span>\
         <span>delta, compressed</span></div>\n",
    );
    line(body, &name, &node.sizes);
    level(body, node, 1);
    body.push_str(
        "</div></div>\n<p><b>stored</b>: space in the repository. <b>older</b>: only in older \
         snapshots. <b>files</b>: size in the newest snapshots. <b>duplicate</b>: saved because the \
         same bytes are stored elsewhere. <b>delta, compressed</b>: saved by storing only what \
         differs, and by compression.</p>\n",
    );
}

fn level(body: &mut String, node: &Node, depth: usize) {
    let (children, mut rest) = node.largest();
    for (number, (name, child)) in children.into_iter().enumerate() {
        if number >= ROWS_MAX {
            rest += child.sizes;
            continue;
        }
        let name = shown(name);
        if child.is_folder && !child.children.is_empty() && depth < LEVELS {
            body.push_str("<details><summary>");
            line(body, &format!("{name}/"), &child.sizes);
            body.push_str("</summary>\n");
            level(body, child, depth + 1);
            body.push_str("</details>\n");
        } else {
            line(body, &name, &child.sizes);
        }
    }
    if rest.stored() > 0 {
        line(body, "everything else", &rest);
    }
}

/// Appends a line with a name, which is markup already, and sizes.
fn line(body: &mut String, name: &str, sizes: &Sizes) {
    let saved = |from: u64, to: u64| match from.checked_sub(to) {
        Some(bytes) if bytes > 0 => units::size(bytes),
        _ => "-".to_owned(),
    };
    writeln!(
        body,
        "<div class=\"line\"><span>{name}</span><span>{}</span><span>{}</span><span>{}</span>\
         <span>{}</span><span>{}</span></div>",
        units::size(sizes.stored()),
        units::size(sizes.older),
        units::size(sizes.logical),
        saved(sizes.logical, sizes.unique),
        saved(sizes.unique, sizes.current),
    )
    .ok();
}

fn shown(name: &[u8]) -> String {
    escaped(&cutpoint_terminal::escape::for_terminal(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_no_script_and_escapes_names() {
        let sizes = Sizes { current: 2048, logical: 4096, unique: 4096, ..Sizes::default() };
        let mut root = Node { sizes, is_folder: true, ..Node::default() };
        let mut host = Node { sizes, is_folder: true, ..Node::default() };
        for name in ["<script>alert(1)</script>", "b"] {
            host.children.insert(name.as_bytes().into(), Node { sizes, ..Node::default() });
        }
        root.children.insert(b"host".as_slice().into(), host);
        let space = Space { root, ..Space::default() };
        let page = page(&space, "repository <1>");
        assert!(!page.contains("<script"), "no script");
        assert!(page.contains("&lt;script&gt;alert(1)"), "the name is text");
        assert!(page.contains("repository &lt;1&gt;"), "and so is the repository");
        let places = page.matches("://").count() - page.matches("http://www.w3.org/").count();
        assert_eq!(places, 0, "it names no other place");
    }
}
