//! The pieces of a chunk join to the chunk, and copies are found where there are any.

use cutpoint_delta::{COPY_LEN_MIN, Piece, Window};
use cutpoint_testing::SplitMix64;
use proptest::prelude::*;

mod support;
use support::join;

fn literal_len(pieces: &[Piece]) -> usize {
    let len = |piece: &Piece| if let Piece::Literal { len } = piece { *len } else { 0 };
    pieces.iter().map(len).sum()
}

fn taken_apart(window: &Window, old: &[u8], new: &[u8], expected: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    window.find(new, expected, &mut pieces);
    assert_eq!(join(old, new, &pieces), new, "the pieces are the chunk");
    for piece in &pieces {
        if let Piece::Copy { position, len } = *piece {
            assert!(len > 0 && position >= window.start(), "{piece:?}");
            assert!(position + len as u64 <= window.end(), "{piece:?}");
        }
    }
    pieces
}

#[test]
fn unchanged_bytes_are_one_copy() {
    let old = SplitMix64::bytes(1, 10_000);
    let mut window = Window::new(0);
    window.push(&old);
    for (start, end) in [(0, 10_000), (0, 24), (5000, 5024), (9976, 10_000), (17, 9999)] {
        let pieces = taken_apart(&window, &old, &old[start..end], start as u64);
        assert_eq!(pieces, [Piece::Copy { position: start as u64, len: end - start }]);
    }
    assert_eq!(taken_apart(&window, &old, &[], 0), []);
    assert_eq!(taken_apart(&window, &old, &old[..5], 0), [Piece::Literal { len: 5 }]);
}

#[test]
fn moved_bytes_are_found_wherever_they_were() {
    let old = SplitMix64::bytes(2, 5000);
    let mut window = Window::new(0);
    window.push(&old);
    for start in 0..200 {
        let moved = &old[start..start + COPY_LEN_MIN];
        let pieces = taken_apart(&window, &old, moved, 4000);
        assert_eq!(pieces, [Piece::Copy { position: start as u64, len: COPY_LEN_MIN }]);
    }
}

#[test]
fn replaced_byte_costs_one_literal_byte() {
    let old = SplitMix64::bytes(3, 4000);
    let mut window = Window::new(0);
    window.push(&old);
    let mut new = old.clone();
    new[1000] ^= 1;
    new[3000] ^= 1;
    let pieces = taken_apart(&window, &old, &new, 0);
    assert_eq!((pieces.len(), literal_len(&pieces)), (5, 2));
}

#[test]
fn moved_window_finds_only_held_bytes() {
    let old = SplitMix64::bytes(4, 100_000);
    let mut window = Window::new(0);
    for (number, part) in old.chunks(777).enumerate() {
        window.push(part);
        let end = (number as u64 * 777 + part.len() as u64).min(100_000);
        window.drop_before(end.saturating_sub(5000));
        assert_eq!((window.start(), window.end()), (end.saturating_sub(5000), end));
        let start = usize::try_from(window.start()).expect("small");
        let held = &old[start..usize::try_from(end).expect("small")];
        assert_eq!(literal_len(&taken_apart(&window, &old, held, window.start())), 0);
        // Dropped bytes are not found any more.
        if start > 1000 {
            let gone = &old[start - 1000..start];
            assert_eq!(literal_len(&taken_apart(&window, &old, gone, window.start())), 1000);
        }
    }
}

#[test]
fn restarted_window_finds_bytes_pushed_after_it() {
    let old = SplitMix64::bytes(5, 50_000);
    let mut window = Window::new(0);
    window.push(&old[..20_000]);
    // Forward, back, forward again, and to positions that are no multiples of anything.
    for start in [30_001, 7, 30_002, 20_000, 0] {
        window.restart(start as u64);
        window.push(&old[start..start + 9000]);
        let held = &old[start..start + 9000];
        let pieces = taken_apart(&window, &old, held, start as u64 + 50);
        assert_eq!(pieces, [Piece::Copy { position: start as u64, len: 9000 }]);
        let gone = if start > 15_000 { &old[..5000] } else { &old[40_000..45_000] };
        assert_eq!(literal_len(&taken_apart(&window, &old, gone, 0)), 5000);
    }
    // Positions so far apart that the table is cleared, also in the middle of a push.
    window.restart((1 << 36) - 100_000);
    (0..5).for_each(|_| window.push(&old));
    window.drop_before(1 << 40);
    window.restart(1 << 40);
    window.push(&old);
    let mut pieces = Vec::new();
    window.find(&old, 0, &mut pieces);
    assert_eq!(pieces, [Piece::Copy { position: 1 << 40, len: old.len() }]);
}

proptest! {
    /// Bytes of few values, so that there are many short matches, cut and inserted at random.
    #[test]
    fn pieces_of_any_change_join_to_the_chunk(
        old in prop::collection::vec(0_u8..3, 0..2000),
        edits in prop::collection::vec(
            (0_usize..2000, 0_usize..60, prop::collection::vec(0_u8..3, 0..60)),
            0..6,
        ),
        expected in 0_u64..3000,
        parts in 1_usize..5,
    ) {
        let mut new = old.clone();
        for (at, removed, inserted) in edits {
            let at = at.min(new.len());
            let end = (at + removed).min(new.len());
            new.splice(at..end, inserted);
        }
        let mut window = Window::new(0);
        for part in old.chunks(old.len() / parts + 1) {
            window.push(part);
        }
        taken_apart(&window, &old, &new, expected);
        let middle = old.len() as u64 / 2;
        window.drop_before(middle);
        taken_apart(&window, &old, &new, expected);
    }
}

/// Of several equal texts, the copy near the expected position is found instead of the one that
/// entered the table last, because the bytes that follow are there as well and near positions are
/// cheap to encode.
#[test]
fn nearest_copy_is_taken() {
    let mut random = SplitMix64::new(5);
    let (repeated, own) = (random.take(200), random.take(3000));
    let old = [&own[..1000], &repeated, &own[1000..], &repeated, &random.take(500)].concat();
    let mut window = Window::new(0);
    window.push(&old);
    // Bytes are inserted before, so that no byte is at its expected position.
    let new = [&own[..990], &random.take(30), &old[1000..2000]].concat();
    let mut pieces = Vec::new();
    window.find(&new, 0, &mut pieces);
    let copies = [
        Piece::Copy { position: 0, len: 990 },
        Piece::Literal { len: 30 },
        Piece::Copy { position: 1000, len: 1000 },
    ];
    assert_eq!(pieces, copies);
}
