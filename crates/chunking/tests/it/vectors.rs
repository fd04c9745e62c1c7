//! The files in `vectors/` hold the answers of the code. A change of cut-points shows here first.

use std::fs;
use std::path::Path;

use crate::harness::vector_files;

#[test]
fn vectors_are_up_to_date() {
    for (name, _) in vector_files::files() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../vectors/{name}.json"));
        let found =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}.json: {error}"));
        let made = vector_files::json(name).expect("the name is known");
        for (line, (found, made)) in found.lines().zip(made.lines()).enumerate() {
            assert_eq!(found, made, "{name}.json, line {}", line + 1);
        }
        assert_eq!(found.len(), made.len(), "size of {name}.json");
    }

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    for entry in fs::read_dir(folder).expect("the vectors are there") {
        let file = entry.expect("an entry of the folder").file_name();
        if let Some(name) = file.to_str().and_then(|name| name.strip_suffix(".json")) {
            assert!(vector_files::json(name).is_some(), "nothing prints {name}.json");
        }
    }
}
