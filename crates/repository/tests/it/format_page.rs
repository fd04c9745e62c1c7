//! The example of `docs/format.md` is what this program writes, byte for byte.

use std::fmt::Write;
use std::path::Path;

use cutpoint_repository::crypto::{HEADER_LEN, TAG_LEN, open_object, seal_object};
use cutpoint_repository::format::commit::{Commit, Outcome, ViewRecord};
use cutpoint_repository::format::extents::{self, Extent};
use cutpoint_repository::{
    CipherSuite, Class, Keyring, Keys, ObjectName, RepositoryId, Secret, TicketId,
};
use cutpoint_storage::ObjectKind;

fn page() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    std::fs::read_to_string(page).expect("the page is there")
}

/// Returns the section of the page that has the example.
fn example() -> String {
    let page = page();
    let (_, example) = page.split_once("\n## 13. An example\n").expect("the section is there");
    example.split("\n## ").next().expect("a first part").to_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes all");
        text
    })
}

/// Returns `N` ascending bytes, beginning with `first`.
fn rising<const N: usize>(first: u8) -> [u8; N] {
    std::array::from_fn(|place| first + u8::try_from(place).expect("a short array"))
}

fn keys(suite: CipherSuite) -> Keys {
    let keyring =
        Keyring { repository: RepositoryId([0; 16]), epochs: vec![(1, Secret(rising(0)))] };
    Keys::derive(&keyring, suite)
}

/// Returns the example's object, sealed with `suite`.
fn object(suite: CipherSuite) -> (ObjectName, Vec<u8>, Vec<u8>) {
    let void = Commit {
        outcome: Outcome::Void { is_own: false },
        segments: Vec::new(),
        embedded: None,
        view: ViewRecord::default(),
        time_ns: 0,
        extra: Vec::new(),
    };
    let name = ObjectName::Commit(TicketId(rising(0x10)));
    let body = void.encode();
    let bytes = seal_object(&keys(suite), name, rising(0x20), &body);
    (name, body, bytes.to_vec())
}

/// Returns the object's key by the rule of the page: keyed BLAKE3 over the first 48 bytes of the
/// header.
fn object_key(header: &[u8]) -> [u8; 48] {
    let class_key = blake3::derive_key("cutpoint v1 commit", &rising::<32>(0));
    let mut derived = [0; 48];
    blake3::Hasher::new_keyed(&class_key).update(&header[..48]).finalize_xof().fill(&mut derived);
    derived
}

/// Parses the lines `    OFFSET  BYTES` of the page into an object; `...` stands for zero bytes.
fn dumped(example: &str, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut count = 0;
    for line in example.lines().filter_map(|line| line.strip_prefix("    ")) {
        let Some((offset, rest)) = line.split_once("  ") else { continue };
        let Ok(offset) = usize::from_str_radix(offset, 16) else { continue };
        for (place, byte) in rest.split(' ').take_while(|byte| *byte != "...").enumerate() {
            let Ok(byte) = u8::from_str_radix(byte, 16) else { break };
            bytes[offset + place] = byte;
            count += 1;
        }
    }
    assert_eq!(count, 0x80 + 1 + 0x20, "bytes that the page shows");
    bytes
}

/// Parses the body that the page lists field by field; `...` stands for zeros up to `len` bytes.
fn listed(example: &str, len: usize) -> Vec<u8> {
    let (_, list) = example.split_once("    a6 ").expect("the list starts with its map");
    let mut bytes = vec![0xa6];
    for line in list.lines().skip(1).map_while(|line| line.strip_prefix("    ")) {
        let (field, _) = line.split_once("  ").expect("bytes, then words");
        let (field, dots) = match field.split_once(" 00 ... 00") {
            Some((field, _)) => (field, true),
            None => (field, false),
        };
        bytes.extend(
            field.split(' ').map(|byte| u8::from_str_radix(byte, 16).expect("a byte in hex")),
        );
        if dots {
            // A byte string has its length before it.
            bytes.resize(bytes.len() + usize::from(bytes[bytes.len() - 1]), 0);
        }
    }
    assert_eq!(bytes.len(), len, "bytes that the list stands for");
    bytes
}

#[test]
fn object_matches_the_page() {
    let example = example();
    let (name, body, bytes) = object(CipherSuite::None);
    assert_eq!(listed(&example, body.len()), body, "the body, field by field");
    // Texts on the page are broken into lines anywhere.
    let words = example.split_whitespace().collect::<Vec<_>>().join(" ");
    let (secret, salt) = (rising::<32>(0), rising::<16>(0x20));
    let inputs = format!(
        "The void of ticket `{}`, suite 0, epoch 1; the epoch's secret is the bytes {:02x}, {:02x}, \
         ... {:02x}, the salt {:02x}, {:02x}, ... {:02x}.",
        hex(&rising::<12>(0x10)),
        secret[0],
        secret[1],
        secret[31],
        salt[0],
        salt[1],
        salt[15],
    );
    assert!(words.starts_with(&inputs), "{inputs}");
    assert!(words.contains(&format!("The body, {} bytes:", body.len())), "the body's length");
    let places = format!(
        "body (from {HEADER_LEN:x}), tag (from {:x}), zeros, trailer (from {:x}: {} bytes at {})",
        HEADER_LEN + body.len(),
        bytes.len() - 32,
        body.len() + TAG_LEN,
        HEADER_LEN,
    );
    assert!(words.contains(&places), "{places}");
    assert_eq!(bytes, dumped(&example, bytes.len()), "{name}, {} bytes", bytes.len());
    assert!(example.contains(&format!("`{name}`, {} bytes", bytes.len())), "name and length");
    let keys = keys(CipherSuite::None);
    assert_eq!(open_object(&keys, name, &bytes).expect("it opens"), body, "the body");
    let class_key = blake3::derive_key("cutpoint v1 commit", &rising::<32>(0));
    assert!(example.contains(&hex(&class_key)), "class key {}", hex(&class_key));
    let key = object_key(&bytes);
    assert!(example.contains(&hex(&key[..32])), "object key {}", hex(&key[..32]));
    assert_eq!(key[32..], bytes[48..HEADER_LEN], "commitment");
    let tag = blake3::Hasher::new_keyed(key[..32].try_into().expect("32 bytes"))
        .update(&bytes[..HEADER_LEN])
        .update(&[0; 5])
        .update(&body)
        .finalize();
    let end = HEADER_LEN + body.len();
    assert_eq!(tag.as_bytes()[..TAG_LEN], bytes[end..end + TAG_LEN], "tag");
}

#[test]
fn other_suites_match_the_page() {
    let example = example();
    for suite in [CipherSuite::Aes256Gcm, CipherSuite::ChaCha20Poly1305] {
        let (_, body, bytes) = object(suite);
        let key = object_key(&bytes);
        let end = HEADER_LEN + body.len();
        let row = format!(
            "| {} | `{}` | `{}` | `{}` |",
            suite.code(),
            hex(&key[..32]),
            hex(&bytes[48..HEADER_LEN]),
            hex(&bytes[end..end + TAG_LEN])
        );
        assert!(example.contains(&row), "{row}");
    }
}

#[test]
fn other_values_match_the_page() {
    let example = example();
    let keys = keys(CipherSuite::None);
    let values = [
        hex(&keys.fingerprint(Class::Data, b"hello").0),
        hex(&keys.fingerprint(Class::Meta, b"hello").0),
        hex(&keys.cut_material::<16>()),
        hex(&keys.name_hash(b"hello").to_le_bytes()),
    ];
    let shown: Vec<&str> = example.trim_end().lines().rev().take(4).map(str::trim).collect();
    assert_eq!(shown.into_iter().rev().collect::<Vec<_>>(), values, "the last lines of the page");
}

/// The payload of a delta chunk, byte by byte, and the extents that it stands for.
#[test]
fn delta_chunk_matches_the_page() {
    let page = page();
    let (_, section) = page.split_once("\n### Delta chunks\n").expect("the section is there");
    let (_, example) = section.split_once("A chunk of 5302 bytes").expect("the example is there");
    let example = example.split("\n### ").next().expect("a first part");
    let numbers = |row: &str| -> Option<Vec<u32>> {
        row.trim_matches('|').split('|').map(|cell| cell.trim().parse().ok()).collect()
    };
    let rows: Vec<_> = example.lines().filter(|line| line.starts_with('|')).collect();
    let list: Vec<Extent> = rows
        .into_iter()
        .filter_map(numbers)
        .map(|row| Extent {
            reference: u16::try_from(row[0]).expect("small"),
            offset: row[1],
            len: row[2],
        })
        .collect();
    assert_eq!(list.len(), 3, "extents that the page lists");
    let mut shown = Vec::new();
    for line in example.lines().filter_map(|line| line.strip_prefix("    ")) {
        let (bytes, _) = line.split_once("  ").expect("bytes, then words");
        shown.extend(
            bytes.split(' ').map(|byte| u8::from_str_radix(byte, 16).expect("a byte in hex")),
        );
    }
    let mut payload = Vec::new();
    extents::encode(&list, &mut payload);
    assert_eq!(hex(&shown), hex(&payload), "the bytes of the page");
    assert_eq!(extents::decode(&shown, 5302, 4).expect("it is well"), list, "what they stand for");
}

/// The program enforces the maxima in the table of the page.
#[test]
fn maxima_match_the_page() {
    let page = page();
    let (_, section) = page.split_once("\n**Maxima.**").expect("the table is there");
    let rows: Vec<(String, u64, u64)> = section
        .lines()
        .skip_while(|line| !line.starts_with("| `"))
        .take_while(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let number = |cell: &str| cell.replace(',', "").parse().expect("a number");
            (cells[1].trim_matches('`').to_owned(), number(cells[2]), number(cells[3]))
        })
        .collect();
    let kinds = ObjectKind::ALL
        .map(|kind| (format!("{}/", kind.folder()), kind.len_max(), kind.count_max() as u64));
    assert_eq!(rows, kinds, "folder, length, number of names");
}
