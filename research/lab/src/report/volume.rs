//! The table of the rows that `research/runs/volume.py` adds: BURST and others on a volume.

use super::table::row;
use crate::Row;
use crate::claims::Selector;
use crate::row::VOLUME;

/// The columns with numbers: title, metric, the variant of rows by `cp` into ext4, and the number of
/// decimals.
const COLUMNS: [(&str, &str, &str, usize); 13] = [
    ("ratio", "dedup_ratio", "ext4", 2),
    ("write, GB/s of CPU", "write_throughput", "ext4", 3),
    ("read, GB/s of CPU", "read_throughput", "ext4", 3),
    ("write, GB/s of wall", "write_wall_throughput", "ext4", 3),
    ("read, GB/s of wall", "read_wall_throughput", "ext4", 3),
    ("DT and BT, bytes", "table_bytes", "DT and BT", 0),
    ("HeadDT, bytes", "table_bytes", "HeadDT", 0),
    ("TailDT, bytes", "table_bytes", "TailDT", 0),
    ("DT, entries", "table_entries", "DT", 0),
    ("BT, entries", "table_entries", "BT", 0),
    ("checksums, % of a core", "checksum_share", "sampled", 1),
    ("locks, %", "lock_share", "sampled", 1),
    ("matching, %", "matching_share", "sampled", 1),
];

/// Appends the table, if there are rows for it.
pub(super) fn volume_table(text: &mut String, rows: &[Row]) {
    let mut lines: Vec<(&str, u64, &str, &str)> = Vec::new();
    for found in rows.iter().filter(|row| row.measure == VOLUME && row.metric != "growth") {
        if found.algorithm.is_empty() {
            continue;
        }
        let client = if found.variant == "nbdcopy" { "nbdcopy" } else { "ext4" };
        let line = (found.data.as_str(), found.target, found.algorithm.as_str(), client);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.is_empty() {
        return;
    }
    *text += "\n## BURST on a volume\n\nMedians of the repeats; of two, their mean. Speeds are bytes of the files over CPU time of the server, and over wall time, which has the kernel, \
              the client and what else the machine did. DT and BT are one table here, with one index more by fingerprint, so that their bytes are one \
              number; its entries have one size. A Raw variant has a raw head or tail in place of a checksum. Shares of a core are of a run of its own \
              with samples, on VM with blocks of 4 and 16 KiB. `nbdcopy` copies the files, each from a block on, without a file system. \
              The last block of a file is padded with zeros, which BURST finds. Ratios leave out blocks of zeros, and speeds count them: 45 % of VM.\n\n";
    let titles = COLUMNS.map(|(title, ..)| title);
    *text += &format!("| data set | blocks | algorithm | client | {} |\n", titles.join(" | "));
    *text += &format!("|{}\n", " --- |".repeat(4 + COLUMNS.len()));
    for (data, target, algorithm, client) in lines {
        let number = |(_, metric, variant, decimals): (&str, &str, &str, usize)| {
            let variant = match (client, variant) {
                ("nbdcopy", "ext4") => "nbdcopy",
                ("nbdcopy", _) => return String::new(),
                _ => variant,
            };
            let selector = Selector {
                measure: Some(VOLUME.to_owned()),
                metric: metric.to_owned(),
                data: Some(data.to_owned()),
                algorithm: Some(algorithm.to_owned()),
                target: Some(target),
                variant: Some(variant.to_owned()),
                ..Selector::default()
            };
            let found = selector.find(rows);
            found.map_or_else(String::new, |row| format!("{:.decimals$}", row.value))
        };
        let numbers = COLUMNS.map(number);
        let blocks = format!("{} KiB", target / 1024);
        let mut cells = vec![data, &blocks, algorithm, client];
        cells.extend(numbers.iter().map(String::as_str));
        row(text, &cells);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(metric: &str, value: f64, variant: &str) -> Row {
        Row {
            measure: VOLUME.to_owned(),
            data: "VM".to_owned(),
            algorithm: "BURST 255".to_owned(),
            target: 4096,
            variant: variant.to_owned(),
            ..Row::new(metric, value, "")
        }
    }

    fn table(rows: &[Row]) -> String {
        let mut text = String::new();
        volume_table(&mut text, rows);
        text
    }

    #[test]
    fn rows_of_a_contender_are_one_line_for_each_client() {
        let rows = [
            volume("dedup_ratio", 4.583, "ext4"),
            volume("write_wall_throughput", 0.25, "ext4"),
            volume("table_bytes", 98_304.0, "DT and BT"),
            volume("table_entries", 3769.0, "BT"),
            volume("matching_share", 12.34, "sampled"),
            volume("dedup_ratio", 4.5, "nbdcopy"),
            volume("growth", 5.0, "ext4"),
            Row { measure: VOLUME.to_owned(), ..Row::new("elapsed", 1.0, "s") },
        ];
        let text = table(&rows);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("| VM |")).collect();
        let expected = [
            "| VM | 4 KiB | BURST 255 | ext4 | 4.58 |  |  | 0.250 |  | 98304 |  |  |  | 3769 |  |  | 12.3 |",
            "| VM | 4 KiB | BURST 255 | nbdcopy | 4.50 |  |  |  |  |  |  |  |  |  |  |  |  |",
        ];
        assert_eq!(lines, expected, "every figure is in its column");
        let head = text.lines().find(|line| line.starts_with("| data set")).expect("a head");
        assert_eq!(head.matches(" |").count(), lines[0].matches(" |").count(), "{head}");
    }

    #[test]
    fn results_without_volumes_have_no_table() {
        assert_eq!(table(&[Row::new("dedup_ratio", 1.0, "")]), "", "another measure");
        assert_eq!(table(&[volume("growth", 5.0, "ext4")]), "", "the curves are with the claims");
    }
}
