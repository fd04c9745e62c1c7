//! Prints a table derived from a label: `cargo run -p cutpoint-chunking --example tables NAME
//! rust|csv`.
//!
//! The 256 entries are the extended output of BLAKE3 over the ASCII text `cutpoint NAME v1`, read
//! as key material is: entry `v` is the 8 bytes from byte `8 * v`, little-endian, of which a table
//! of 32 bits takes the lower 4. `rust` prints the file `src/table/NAME.rs`, and `csv` prints
//! `vectors/tables/NAME.csv`.

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [name, form @ ("rust" | "csv")] = arguments[..] else {
        eprintln!("usage: tables NAME rust|csv");
        std::process::exit(2);
    };
    let table = table(name);
    if form == "csv" {
        println!("index,value");
        for (index, value) in table.iter().enumerate() {
            println!("{index},{value:#018x}");
        }
        return;
    }
    println!("//! The table of the label `cutpoint {name} v1`.\n");
    println!(
        "/// Printed by `cargo run -p cutpoint-chunking --example tables {name} rust`, which says how"
    );
    println!("/// it is derived.\n#[rustfmt::skip]");
    println!("pub(crate) const TABLE: [u64; 256] = [");
    for row in table.chunks(4) {
        let row: Vec<String> = row.iter().map(|value| format!("{value:#018x},")).collect();
        println!("    {}", row.join(" "));
    }
    println!("];");
}

fn table(name: &str) -> [u64; 256] {
    let mut bytes = [0; 2048];
    let mut hasher = blake3::Hasher::new();
    hasher.update(format!("cutpoint {name} v1").as_bytes()).finalize_xof().fill(&mut bytes);
    let mut table = [0; 256];
    for (entry, bytes) in table.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *entry = u64::from_le_bytes(*bytes);
    }
    table
}
