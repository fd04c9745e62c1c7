//! Tables derived from a label, so that anyone can recompute them.
//!
//! `examples/tables.rs` defines the derivation and prints the tables.

pub(crate) mod buzhash;
pub(crate) mod gear;

#[cfg(test)]
mod tests {
    use std::format;
    use std::path::Path;

    use super::*;

    /// The list: one line for each table.
    const ALL: &[(&str, &[u64; 256])] = &[("gear", &gear::TABLE), ("buzhash", &buzhash::TABLE)];

    #[test]
    fn tables_follow_from_labels() {
        for (name, table) in ALL {
            let mut bytes = [0; 2048];
            let mut hasher = blake3::Hasher::new();
            hasher.update(format!("cutpoint {name} v1").as_bytes()).finalize_xof().fill(&mut bytes);
            for (value, (entry, bytes)) in table.iter().zip(bytes.as_chunks::<8>().0).enumerate() {
                assert_eq!(*entry, u64::from_le_bytes(*bytes), "{name}, entry {value}");
            }
        }
    }

    #[test]
    fn files_hold_the_same_tables() {
        for (name, table) in ALL {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/tables");
            let text = std::fs::read_to_string(folder.join(format!("{name}.csv")));
            let text = text.expect("the file is there");
            let mut lines = text.lines().skip(1);
            for (index, value) in table.iter().enumerate() {
                let expected = format!("{index},{value:#018x}");
                assert_eq!(lines.next(), Some(&*expected), "{name}.csv");
            }
            assert_eq!(lines.next(), None, "{name}.csv");
        }
    }
}
