//! Long copies are found among records that are almost equal.

use cutpoint_delta::{Aligner, Piece, Window, position_behind};
use cutpoint_testing::SplitMix64;
use proptest::prelude::*;

mod support;
use support::join;

/// Returns rows as a dump has them: a number, and a filler that all rows have.
fn rows(numbers: impl Iterator<Item = usize>) -> Vec<u8> {
    numbers.flat_map(|number| format!("{number}\t1\t0\t{:84}\n", "").into_bytes()).collect()
}

/// Returns the pieces of `new` before and after the second search.
fn pieces(aligner: &mut Aligner, old: &[u8], new: &[u8]) -> [Vec<Piece>; 2] {
    let mut window = Window::new(0);
    window.push(old);
    let mut first = Vec::new();
    window.find(new, 0, &mut first);
    let mut second = first.clone();
    aligner.improve(&window, new, 0, &mut second);
    assert_eq!(join(old, new, &second), new, "the pieces are the chunk");
    [first, second]
}

#[test]
fn removed_rows_cost_few_pieces() {
    let old = rows(100_000..102_000);
    let new = rows((100_000..102_000).filter(|number| number % 50 != 7));
    let [first, second] = pieces(&mut Aligner::new(), &old, &new);
    assert!(first.len() > 1000, "{}: each row is a copy of another one", first.len());
    assert!(second.len() < 400, "{}: each removed row ends a copy", second.len());
}

#[test]
fn long_pieces_are_left_as_they_are() {
    let old = SplitMix64::bytes(1, 100_000);
    let mut new = old.clone();
    new.iter_mut().step_by(1000).for_each(|byte| *byte ^= 1);
    let [first, second] = pieces(&mut Aligner::new(), &old, &new);
    assert_eq!(first, second);
}

#[test]
fn index_follows_the_window() {
    let mut aligner = Aligner::new();
    let mut window = Window::new(0);
    let is_kept = |number: &usize| number % 50 != 7;
    // The window moves on, restarts further behind, and moves back.
    for (position, first) in [(0, 100_000), (1 << 20, 300_000), (1 << 34, 500_000), (0, 100_000)] {
        let (old, new) = (rows(first..first + 2000), rows((first..first + 2000).filter(is_kept)));
        window.restart(position);
        window.push(&old);
        let mut pieces = Vec::new();
        window.find(&new, position, &mut pieces);
        aligner.improve(&window, &new, position, &mut pieces);
        assert!(pieces.len() < 400, "{} at {position}", pieces.len());
    }
}

#[test]
fn position_follows_the_longest_copy() {
    let copy = |position, len| Piece::Copy { position, len };
    let literal = |len| Piece::Literal { len };
    assert_eq!(position_behind(&[]), None);
    assert_eq!(position_behind(&[literal(7)]), None);
    assert_eq!(position_behind(&[copy(100, 50)]), Some(150));
    assert_eq!(position_behind(&[copy(100, 50), literal(5)]), Some(155));
    // 30 bytes were removed in between.
    assert_eq!(position_behind(&[copy(100, 50), copy(180, 20), literal(5)]), Some(205));
    // The last copy comes from afar, so the longest one decides.
    assert_eq!(position_behind(&[copy(100_000, 500), literal(5), copy(10, 40)]), Some(100_545));
    assert_eq!(position_behind(&[copy(10, 40), literal(5), copy(100_000, 500)]), Some(100_500));
    // Before the first position there is nothing, and nothing overflows.
    assert_eq!(position_behind(&[literal(1000), copy(0, 40)]), Some(40));
    assert_eq!(position_behind(&[copy(u64::MAX - 10, 10), literal(20)]), Some(19));
}

proptest! {
    #[test]
    fn pieces_join_to_the_chunk(
        numbers in prop::collection::vec(0_usize..300, 0..200),
        more in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let old = rows(0..300);
        let mut new = rows(numbers.into_iter());
        new.extend_from_slice(&more);
        pieces(&mut Aligner::new(), &old, &new);
    }
}
