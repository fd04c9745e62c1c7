//! The permutation of key material, implemented a second time from the description of
//! `KeyMaterial`.

pub(crate) fn permutation(material: &[u8]) -> Vec<u8> {
    let mut permutation: Vec<u8> = (0..=255).collect();
    let mut next = 0;
    for i in (1..256u32).rev() {
        let r = loop {
            if next == material.len() {
                return permutation;
            }
            let r = u32::from(material[next]) + 256 * u32::from(material[next + 1]);
            next += 2;
            if r < 65536 - 65536 % (i + 1) {
                break r;
            }
        };
        permutation.swap(i as usize, (r % (i + 1)) as usize);
    }
    permutation
}
