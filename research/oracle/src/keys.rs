//! The text after the colon of a spec, and the key material.

/// The keys and values of a spec.
pub(crate) struct Keys<'a> {
    list: &'a str,
    material: Option<&'a [u8]>,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(list: &'a str, material: Option<&'a [u8]>) -> Keys<'a> {
        Keys { list, material }
    }

    /// Returns the text of a value, or `None` if the key is absent.
    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        let mut items = self.list.split(',').filter_map(|item| item.split_once('='));
        items.find(|&(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns a value that is a size in bytes or a count. The key must be present.
    pub(crate) fn size(&self, key: &str) -> usize {
        self.optional_size(key).unwrap_or_else(|| panic!("{}: no {key}", self.list))
    }

    /// Returns a value that is a size in bytes or a count, or `None` if the key is absent.
    pub(crate) fn optional_size(&self, key: &str) -> Option<usize> {
        let value = self.text(key)?;
        Some(value.parse().unwrap_or_else(|_| panic!("{key}={value} is no number")))
    }

    /// Returns a decimal number of 64 bits.
    pub(crate) fn bits(&self, key: &str) -> u64 {
        let value = self.text(key).unwrap_or_else(|| panic!("{}: no {key}", self.list));
        value.parse().unwrap_or_else(|_| panic!("{key}={value} is no number"))
    }

    /// Returns hexadecimal numbers that are separated by dots; no numbers for `none`.
    pub(crate) fn hex_list(&self, key: &str) -> Vec<u32> {
        let value = self.text(key).unwrap_or_else(|| panic!("{}: no {key}", self.list));
        let items = value.split('.').filter(|&item| item != "none");
        items.map(|item| u32::from_str_radix(item, 16).expect("a hexadecimal number")).collect()
    }

    /// Returns the key material, if any.
    pub(crate) fn material(&self) -> Option<&'a [u8]> {
        self.material
    }

    /// Returns the table of the key material, or `table` without key material.
    pub(crate) fn table(&self, table: impl FnOnce() -> [u64; 256]) -> [u64; 256] {
        let Some(material) = self.material else { return table() };
        let mut table = [0; 256];
        for (entry, bytes) in table.iter_mut().zip(material.as_chunks::<8>().0) {
            *entry = u64::from_le_bytes(*bytes);
        }
        table
    }
}
