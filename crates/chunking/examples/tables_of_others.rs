//! Prints a derivable table of another program, as in `src/algorithm`: `cargo run -p
//! cutpoint-chunking --example tables_of_others ronomon|repmaxcdc`.

use cutpoint_testing::stream;

fn main() {
    match std::env::args().nth(1).as_deref() {
        // 256 big-endian numbers of the key stream of AES-256 with a key and a counter of zeros,
        // without their highest bit.
        Some("ronomon") => {
            let stream = stream::aes256_ctr_of_zeros(1024);
            let entries = stream
                .as_chunks::<4>()
                .0
                .iter()
                .map(|&bytes| format!("{:#010x},", u32::from_be_bytes(bytes) & 0x7fff_ffff));
            print("u32", "ronomon", &entries.collect::<Vec<_>>(), 8);
        }
        // 256 little-endian numbers of cSHAKE128.
        Some("repmaxcdc") => {
            let label = b"c647d5de-0fff-40e6-963c-814bc404a64d";
            let stream = stream::cshake128_of_nothing(label, 2048);
            let entries = stream.as_chunks::<8>().0.iter();
            let entries = entries.map(|&bytes| format!("{:#018x},", u64::from_le_bytes(bytes)));
            print("u64", "repmaxcdc", &entries.collect::<Vec<_>>(), 4);
        }
        _ => {
            eprintln!("usage: tables_of_others ronomon|repmaxcdc");
            std::process::exit(2);
        }
    }
}

fn print(number: &str, name: &str, entries: &[String], columns: usize) {
    println!("//! The table of {name}.\n");
    println!("/// Printed by `cargo run -p cutpoint-chunking --example tables_of_others {name}`.");
    println!("#[rustfmt::skip]");
    println!("pub(super) const TABLE: [{number}; 256] = [");
    for row in entries.chunks(columns) {
        println!("    {}", row.join(" "));
    }
    println!("];");
}
