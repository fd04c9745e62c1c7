//! Every decoder of the format, by one signature: for `tests/decoders.rs` and for the fuzz target
//! `decoders`.

use bytes::Bytes;
use cutpoint_repository::crypto::{
    Header, KeyAbout, Trailer, object_is_intact, open_object, unwrap_keyring,
};
use cutpoint_repository::format::commit::Commit;
use cutpoint_repository::format::config::Config;
use cutpoint_repository::format::edges::SimilarityObject;
use cutpoint_repository::format::extents::{self, Extent};
use cutpoint_repository::format::parity::ParityTable;
use cutpoint_repository::format::prune::Prune;
use cutpoint_repository::format::recipe::RecipeChunk;
use cutpoint_repository::format::segment::Segment;
use cutpoint_repository::format::ticket::Ticket;
use cutpoint_repository::format::toc::Toc;
use cutpoint_repository::format::view_part::ViewPart;
use cutpoint_repository::verify::check::Coverage;
use cutpoint_repository::{
    CipherSuite, Content, Entry, KdfLimits, KeyMethod, Keyring, Keys, ObjectName, RepositoryId,
    Secret, Unlock,
};
use minicbor::{Decoder, Encoder};

pub(crate) const REGIONS_END: u64 = 1 << 20;

/// Decodes `bytes` and encodes the result; `None` if the decoder refuses.
pub(crate) type Recode = fn(&[u8]) -> Option<Vec<u8>>;

fn entry(bytes: &[u8]) -> Option<Vec<u8>> {
    let d = &mut Decoder::new(bytes);
    let entry = Entry::decode(d).ok().filter(|_| d.position() == bytes.len())?;
    let mut out = Vec::new();
    entry.encode_into(&mut out);
    Some(out)
}

fn content(bytes: &[u8]) -> Option<Vec<u8>> {
    let d = &mut Decoder::new(bytes);
    let content = Content::decode(d).ok().filter(|_| d.position() == bytes.len())?;
    Some(encode_content(&content))
}

pub(crate) fn encode_content(content: &Content) -> Vec<u8> {
    let mut e = Encoder::new(Vec::new());
    content.encode(&mut e);
    e.into_writer()
}

/// Recodes the payload of a delta chunk, behind the length of its chunk and the number of
/// references.
fn delta_chunk(bytes: &[u8]) -> Option<Vec<u8>> {
    let (head, payload) = bytes.split_first_chunk::<6>()?;
    let [a, b, c, d, e, f] = *head;
    let chunk_len = u32::from_le_bytes([a, b, c, d]);
    let reference_count = usize::from(u16::from_le_bytes([e, f]));
    let extents = extents::decode(payload, chunk_len, reference_count).ok()?;
    let len: u64 = extents.iter().map(|extent| u64::from(extent.len)).sum();
    assert_eq!(len, u64::from(chunk_len), "the extents are the chunk");
    let are_there = extents.iter().all(|extent| usize::from(extent.reference) < reference_count);
    assert!(are_there, "{extents:?} of {reference_count} references");
    Some(encode_delta_chunk(*head, &extents))
}

pub(crate) fn encode_delta_chunk(head: [u8; 6], list: &[Extent]) -> Vec<u8> {
    let mut out = head.to_vec();
    extents::encode(list, &mut out);
    out
}

pub(crate) const DECODERS: [(&str, Recode); 13] = [
    ("config", |bytes| Config::decode(bytes).ok().map(|config| config.encode())),
    ("ticket", |bytes| Ticket::decode(bytes).ok().map(|ticket| ticket.encode())),
    ("commit", |bytes| Commit::decode(bytes).ok().map(|commit| commit.encode())),
    ("prune", |bytes| Prune::decode(bytes).ok().map(|prune| prune.encode())),
    ("segment", |bytes| Segment::decode(bytes).ok().map(|segment| segment.encode())),
    ("table of contents", |bytes| Toc::decode(bytes, REGIONS_END).ok().map(|d| d.encode())),
    ("recipe", |bytes| RecipeChunk::decode(bytes).ok().map(|recipe| recipe.encode())),
    ("entry", entry),
    ("content", content),
    ("parity", |bytes| ParityTable::decode(bytes).ok().map(|table| table.encode())),
    ("delta chunk", delta_chunk),
    ("similarity", |bytes| SimilarityObject::decode(bytes).ok().map(|hints| hints.encode())),
    ("view part", |bytes| {
        ViewPart::decode(&Bytes::copy_from_slice(bytes)).ok().map(|part| part.encode())
    }),
];

/// Returns a keyring of two epochs.
pub(crate) fn keyring() -> Keyring {
    let epochs = vec![(1, Secret([3; 32])), (7, Secret([4; 32]))];
    Keyring { repository: RepositoryId([5; 16]), epochs }
}

/// Gives `bytes`, which were not sealed, to every decoder.
pub(crate) fn anything(bytes: &[u8]) {
    for (name, recode) in DECODERS {
        // An accepted encoding need not be the canonical one (numbers may be longer than
        // necessary), but its re-encoding is stable.
        if let Some(again) = recode(bytes) {
            assert_eq!(recode(&again), Some(again.clone()), "{name}");
        }
    }
    let name = ObjectName::Config { number: 0, copy: false };
    let _ = Keyring::decode(bytes);
    let _ = Header::decode(&name, bytes);
    let _ = Trailer::decode(&name, bytes, bytes.len() as u64);
    let _ = open_object(&Keys::derive(&keyring(), CipherSuite::None), name, bytes);
    let _ = unwrap_keyring(name, bytes, &Unlock::Nothing, KdfLimits::default());
    let _ = KeyMethod::of_object(name, bytes);
    let _ = KeyAbout::of_object(&Keys::derive(&keyring(), CipherSuite::None), name, bytes);
    let _ = object_is_intact(bytes);
    let _ = Coverage::decode(RepositoryId([5; 16]), bytes);
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(name) = ObjectName::parse(text)
    {
        assert_eq!(name.to_string(), text, "an object's name");
    }
}
