//! The rule of BURST: the texts of options, and the tables.

use cutpoint_delta::burst::{Options, Side, SubChunks, Tau, Views};
use cutpoint_delta::{common_edges, common_prefix};

#[test]
fn options_parse_from_their_texts() {
    let cases = [
        ("burst", Options::BURST, "burst:tau=1/8,c_max=255,variant=burst"),
        ("burst:variant=head", Options::HEAD, "burst:tau=1/8,c_max=255,variant=head"),
        ("burst:variant=raw", Options::RAW, "burst:c_max=255,variant=raw"),
        ("burst:variant=head-raw", Options::HEAD_RAW, "burst:c_max=255,variant=head-raw"),
        ("burst:variant=legacy", Options::LEGACY, "burst:tau=1/8,c_max=255,variant=legacy"),
        (
            "burst:c_max=1,tau=1/4",
            Options { tau: Tau::Fraction(4), c_max: 1, ..Options::BURST },
            "burst:tau=1/4,c_max=1,variant=burst",
        ),
        (
            "burst:variant=head,tau=2k,c_max=0",
            Options { tau: Tau::Bytes(2048), c_max: 0, ..Options::HEAD },
            "burst:tau=2048,c_max=0,variant=head",
        ),
    ];
    for (text, options, written) in cases {
        assert_eq!(text.parse(), Ok(options), "{text}");
        assert_eq!(options.to_string(), written, "{text}");
        assert_eq!(written.parse(), Ok(options), "{written}");
    }
}

#[test]
fn invalid_texts_are_refused() {
    let cases = [
        ("", "must begin with burst"),
        ("fixed:size=4k", "must begin with burst"),
        ("burst:", ""),
        ("burst:tau=1/2", "1/3 or less"),
        ("burst:tau=0", "1 to 1024k"),
        ("burst:tau=1025k", "1 to 1024k"),
        ("burst:tau=+5", "1 to 1024k"),
        ("burst:tau=2/8", "1/3 or less"),
        ("burst:c_max=4294967296", "whole number"),
        ("burst:c_max=-1", "whole number"),
        ("burst:c_max=1,c_max=2", "given twice"),
        ("burst:variant=Head", "head-raw or legacy"),
        ("burst:tau=32,variant=raw", "no other tau"),
        ("burst:size=4k", "allowed: tau, c_max, variant"),
        ("burst:tau=1/8,", "allowed: tau, c_max, variant"),
    ];
    for (text, expected) in cases {
        match text.parse::<Options>() {
            Ok(options) => assert_eq!((options, expected), (Options::BURST, ""), "{text}"),
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains(expected) && !expected.is_empty(), "{text}: {error}");
            }
        }
    }
}

#[test]
fn sub_chunks_leave_bytes_between_them() {
    for (tau, chunk_len, len) in [
        (Tau::Fraction(8), 4096, Some(512)),
        (Tau::Fraction(8), 7, None),
        (Tau::Fraction(2), 8, None),
        (Tau::Fraction(2), 9, Some(4)),
        (Tau::Bytes(256), 512, None),
        (Tau::Bytes(256), 513, Some(256)),
        (Tau::Raw, 65, Some(32)),
        (Tau::Raw, 64, None),
    ] {
        assert_eq!(tau.len(chunk_len), len, "{tau:?} of {chunk_len}");
    }
    let chunk = b"hhaaaatt";
    let of = |options: Options, side| options.sub_chunk(side, chunk);
    let quarter = Options { tau: Tau::Fraction(4), ..Options::BURST };
    assert_eq!(of(quarter, Side::Head), Some(&b"hh"[..]));
    assert_eq!(of(quarter, Side::Tail), Some(&b"tt"[..]));
    assert_eq!(of(Options { sub_chunks: SubChunks::Head, ..quarter }, Side::Tail), None);
    assert_eq!(of(Options { sub_chunks: SubChunks::None, ..quarter }, Side::Head), None);
    assert_eq!(quarter.tau.sub_chunk(Side::Tail, b"hat"), None);
}

#[test]
fn common_ends_overlap_in_neither() {
    assert_eq!(common_edges(b"bandage", b"badge"), (2, 2));
    assert_eq!(common_edges(b"deduplication", b"dedtion"), (3, 4));
    assert_eq!(common_edges(b"word", b"world"), (3, 1));
    assert_eq!(common_edges(&[0; 1024], &[0; 512]), (512, 0));
    assert_eq!(common_edges(&[0; 512], &[0; 1024]), (512, 0));
    assert_eq!(common_prefix(b"abcabc", b"abc"), 3);
}

/// Returns the reference chunk for these keys, with every candidate accepted.
fn find(views: &mut Views<u32, char>, keys: [Option<u32>; 2]) -> Option<(Side, char)> {
    let found = views.find(&keys, |_, reference| Ok::<_, ()>(Some(reference)));
    found.expect("nothing goes wrong")
}

#[test]
fn head_precedes_tail_and_exhausted_entries_are_skipped() {
    let mut views = Views::new(1);
    views.replace(&[Some(1), Some(2)], 'a');
    views.replace(&[Some(3), Some(4)], 'b');
    assert_eq!(find(&mut views, [Some(1), Some(4)]), Some((Side::Head, 'a')));
    assert_eq!(
        find(&mut views, [Some(1), Some(4)]),
        Some((Side::Tail, 'b')),
        "its head is used up"
    );
    assert_eq!(find(&mut views, [Some(1), Some(4)]), None, "so is its tail");
    assert_eq!(find(&mut views, [Some(2), Some(1)]), None, "a head is no tail");
    let [head, tail] = Side::ALL.map(|side| views.statistics(side));
    assert_eq!((head.hit_count, tail.hit_count), (1, 1));
    assert_eq!((head.exhausted_count, tail.exhausted_count), (2, 1));
    views.replace(&[Some(1), Some(4)], 'c');
    assert_eq!(find(&mut views, [Some(1), None]), Some((Side::Head, 'c')), "it was replaced");
    let [head, tail] = Side::ALL.map(|side| views.statistics(side));
    assert_eq!((head.entry_count, head.replaced_count), (2, 1));
    assert_eq!((tail.entry_count, tail.replaced_count), (2, 1));
}

#[test]
fn rejected_reference_is_not_counted() {
    let mut views = Views::new(1);
    views.replace(&[Some(1), Some(2)], 'a');
    views.replace(&[Some(3), Some(2)], 'b');
    let keys = [Some(1), Some(2)];
    let found = views.find(&keys, |_, reference| Ok::<_, ()>((reference == 'b').then_some(5)));
    assert_eq!(found, Ok(Some((Side::Tail, 5))), "the head's was refused");
    assert_eq!(views.find(&keys, |_, _| Err::<Option<()>, _>("lost")), Err("lost"));
    assert_eq!(find(&mut views, keys), Some((Side::Head, 'a')), "its counter is as it was");
}

#[test]
fn removed_burst_makes_room_unless_its_reference_was_replaced() {
    let mut views = Views::new(1);
    let keys = [Some(1), Some(2)];
    views.replace(&keys, 'a');
    assert_eq!(find(&mut views, keys), Some((Side::Head, 'a')));
    views.remove_burst(Side::Head, 1, 'b');
    views.remove_burst(Side::Tail, 2, 'a');
    assert_eq!(find(&mut views, [Some(1), None]), None, "it was a burst of the head of another");
    views.remove_burst(Side::Head, 1, 'a');
    assert_eq!(find(&mut views, keys), Some((Side::Head, 'a')));
    views.replace(&[Some(1), Some(9)], 'b');
    views.remove_full_chunk(&keys, 'a');
    assert_eq!(find(&mut views, keys), Some((Side::Head, 'b')), "the younger one stays");
    assert!(!views.has(Side::Tail, 2), "the entry of its own goes");
}

#[test]
fn entry_taken_up_never_replaces_an_existing_one() {
    let mut views = Views::new(2);
    views.replace(&[Some(1), None], 'b');
    assert!(!views.take_up(Side::Head, 1, 'a', 0), "there is a younger one");
    assert!(views.take_up(Side::Head, 5, 'a', 1));
    assert_eq!(find(&mut views, [Some(5), None]), Some((Side::Head, 'a')), "one was left");
    assert_eq!(find(&mut views, [Some(5), None]), None, "it counts from where it was");
    let mut entries: Vec<_> = views.entries(Side::Head).collect();
    entries.sort_unstable();
    assert_eq!(entries, [(1, 'b', 0), (5, 'a', 2)]);
}
