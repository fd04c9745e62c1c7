//! The inputs have the SHA-256 sums of the published lists.

use cutpoint_testing::digest::sha256;
use cutpoint_testing::input;

/// The name, the size in bytes and the SHA-256 of each input, as published with the lists.
const SUMS: [(&str, usize, &str); 15] = [
    ("rand", 4194304, "ad6bc3def4bc89adb670062bb9b9f48cd0aa748258f31a304d1df877d46cc6fe"),
    ("text", 3145728, "3bc4be32ab68135463c0487bb5d0d78b6dbf115860cd5f0a517b4975b0d3f527"),
    ("zeros", 1048576, "30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58"),
    ("period", 1048576, "51ee0011767fbbac579e863cf9a4f2326967ecabf2fb2bcb18ada766c49aeb4c"),
    ("saw", 262144, "2312394bd99545d9de131c24efb781e765ac1aec243f2ed9347597a793a415e9"),
    ("mixed", 2097152, "b41ab7e5a8ee77fc73fd44f06d483196274f14c4d483ed433b1c7049b4401479"),
    ("edge32", 16224, "4bd81130c63f286ca6f1db0d006d1e388d50381690525c068869a57d547b5439"),
    ("edge48", 16240, "cf78b6fcff6ce70c6691169de4676d2ffb6e6241845940f6e6b26e3e47381f4d"),
    ("edge64", 16256, "8640cdc60454692ca0c90d1b1bf99607f7d4e6e50bc7ad0fde1db2e73c691e0a"),
    ("edits2m", 2098146, "9359482d8c2842b0b42f7f0046ed53dc8081069404770d191bc1846911fa3d3b"),
    ("lowent1m", 1048576, "35be0a487395820347bbcbb9f7e8ad15c535f2e40c063a0b4e30f9336317aedd"),
    ("period1m", 1048576, "25b6b27a3b1b907c8809eb619cd7bba59f21b037bc62259715ac5941f8f734f0"),
    ("ramps1m", 1048576, "61ffdf403d57ac23d764297ed82a1ca8a20366a281798cc0e7bab646edb5b4c1"),
    ("rand2m", 2097152, "5bc3146930b4831f7e6d5cd538919e3c5da964702131de80bd84b915eb3f8626"),
    ("text2m", 2097152, "12e304677867e56392310ac7f648698515f299c74169ca971a0069b04b94439b"),
];

#[test]
fn inputs_have_their_published_sums() {
    for (name, size, sum) in SUMS {
        let data = input::by_name(name).unwrap_or_else(|| panic!("{name} is not known"));
        assert_eq!(data.len(), size, "size of {name}");
        assert_eq!(hex(&sha256(&data)), sum, "sum of {name}");
    }
    let mut named: Vec<_> = SUMS.map(|(name, ..)| name).to_vec();
    let mut known = input::NAMES.to_vec();
    named.sort_unstable();
    known.sort_unstable();
    assert_eq!(named, known, "every input has a sum");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
