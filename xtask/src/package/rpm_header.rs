//! The headers of RPM packages: tables of tagged values (RPM package format, version 4).

/// The first bytes of a header: a magic number, the version, and four reserved bytes.
const MAGIC: [u8; 8] = [0x8e, 0xad, 0xe8, 0x01, 0, 0, 0, 0];

/// The length of an entry of the index, in bytes.
const ENTRY_LEN: usize = 16;

/// A value of a header.
#[derive(Debug)]
pub(super) enum Value {
    U16s(Vec<u16>),
    U32s(Vec<u32>),
    Text(String),
    Texts(Vec<String>),
    /// A text in one language, which a table of the header names.
    Localized(String),
}

impl Value {
    /// Returns the number of the type, and the size to a multiple of which a value is aligned.
    fn kind(&self) -> (u32, usize) {
        match self {
            Value::U16s(_) => (3, 2),
            Value::U32s(_) => (4, 4),
            Value::Text(_) => (6, 1),
            Value::Texts(_) => (8, 1),
            Value::Localized(_) => (9, 1),
        }
    }

    fn count(&self) -> usize {
        match self {
            Value::U16s(numbers) => numbers.len(),
            Value::U32s(numbers) => numbers.len(),
            Value::Text(_) | Value::Localized(_) => 1,
            Value::Texts(texts) => texts.len(),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let terminated = |text: &String| [text.as_bytes(), &[0]].concat();
        match self {
            Value::U16s(numbers) => numbers.iter().flat_map(|each| each.to_be_bytes()).collect(),
            Value::U32s(numbers) => numbers.iter().flat_map(|each| each.to_be_bytes()).collect(),
            Value::Text(text) | Value::Localized(text) => terminated(text),
            Value::Texts(texts) => texts.iter().flat_map(terminated).collect(),
        }
    }
}

/// A header, whose values are sorted by tag.
#[derive(Debug)]
pub(super) struct Header {
    /// The tag of the region, which covers all values.
    region: u32,
    values: std::collections::BTreeMap<u32, Value>,
}

impl Header {
    /// Creates a header without values. `region` is the tag of the region that covers all values.
    pub(super) fn new(region: u32) -> Header {
        Header { region, values: std::collections::BTreeMap::new() }
    }

    pub(super) fn set(&mut self, tag: u32, value: Value) {
        self.values.insert(tag, value);
    }

    pub(super) fn text(&mut self, tag: u32, text: impl Into<String>) {
        self.set(tag, Value::Text(text.into()));
    }

    pub(super) fn texts(&mut self, tag: u32, texts: &[&str]) {
        self.set(tag, Value::Texts(texts.iter().map(|&text| text.to_owned()).collect()));
    }

    /// Returns the bytes of the header.
    ///
    /// # Errors
    ///
    /// Returns an error if a length does not fit into 32 bits.
    pub(super) fn encode(&self) -> Result<Vec<u8>, String> {
        let mut index = Vec::new();
        let mut store = Vec::new();
        for (tag, value) in &self.values {
            let (kind, alignment) = value.kind();
            store.resize(store.len().next_multiple_of(alignment), 0);
            for word in [*tag, kind, to_u32(store.len())?, to_u32(value.count())?] {
                index.extend_from_slice(&word.to_be_bytes());
            }
            store.extend_from_slice(&value.encode());
        }
        // The region is the first entry. Its value, the last one, leads back to the beginning of the index.
        let index_len = to_u32(index.len() + ENTRY_LEN)?;
        let mut region = Vec::new();
        for word in [self.region, 7, to_u32(store.len())?, to_u32(ENTRY_LEN)?] {
            region.extend_from_slice(&word.to_be_bytes());
        }
        for word in [self.region, 7, index_len.wrapping_neg(), to_u32(ENTRY_LEN)?] {
            store.extend_from_slice(&word.to_be_bytes());
        }
        let count = to_u32(self.values.len() + 1)?.to_be_bytes();
        let store_len = to_u32(store.len())?.to_be_bytes();
        Ok([&MAGIC[..], &count, &store_len, &region, &index, &store].concat())
    }
}

/// Returns a length as a number of 32 bits.
pub(super) fn to_u32(len: usize) -> Result<u32, String> {
    u32::try_from(len).map_err(|_| format!("{len} bytes do not fit into an RPM package"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_of_two_values_has_region_and_alignment() {
        let mut header = Header::new(63);
        header.set(1001, Value::U32s(vec![7]));
        header.text(1000, "a");
        let expected = [
            &MAGIC[..],
            &[0, 0, 0, 3, 0, 0, 0, 24],
            &[0, 0, 0, 63, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 16],
            &[0, 0, 3, 0xe8, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 1],
            &[0, 0, 3, 0xe9, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 1],
            &[b'a', 0, 0, 0, 0, 0, 0, 7],
            &[0, 0, 0, 63, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xd0, 0, 0, 0, 16],
        ];
        assert_eq!(header.encode(), Ok(expected.concat()));
    }
}
