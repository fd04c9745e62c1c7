//! Tables of Markdown.

/// Appends a row of a table, with special characters escaped.
pub(super) fn row(text: &mut String, cells: &[&str]) {
    *text += "|";
    for cell in cells {
        let cell = cell.replace('|', "\\|").replace('*', "\\*").replace('\n', " ");
        *text += &format!(" {cell} |");
    }
    *text += "\n";
}
