//! The cut-points are those of the originals: every list in `vectors/oracle`, however the data is
//! fed.

use std::path::Path;

use cutpoint_chunking::{Level, Spec};
use cutpoint_oracle::oracle::{Inputs, lists};

use crate::harness::checks::check_invariants;
use crate::harness::feeds::{Feed, fed_cuts};

#[test]
fn cut_points_match_oracle_lists() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/oracle");
    let lists = lists(&folder).expect("the lists can be read");
    assert!(lists.len() > 500, "{} lists", lists.len());
    let mut inputs = Inputs::default();
    for list in lists {
        let place = &list.place;
        let text = list.spec(&mut inputs).unwrap_or_else(|| panic!("{place}: has no spec"));
        let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{place}: {error}"));
        let data = inputs.get(&list.name.input).expect("the input is known");
        let data = &data[..list.prefix_size.unwrap_or(data.len())];
        let chunker = spec.chunker();
        // Large lists are checked by a few ways to feed; all ways agree on the small ones.
        let feeds: &[Feed] = if data.len() < 100_000 { &Feed::ALL } else { &Feed::LARGE };
        for &feed in feeds {
            let ends = list.ends_by(data, fed_cuts(&*chunker, data, feed));
            let first = ends.iter().zip(&list.ends).position(|(ours, theirs)| ours != theirs);
            assert!(
                ends == list.ends,
                "{place}, fed by {feed:?}: {} and {} cut-points, first difference: {:?}",
                ends.len(),
                list.ends.len(),
                first.map(|index| (index, ends[index], list.ends[index]))
            );
        }
        for level in Level::available() {
            let chunker = spec.chunker_at(level);
            if chunker.level() == level {
                let ends = list.ends_by(data, fed_cuts(&*chunker, data, Feed::Whole));
                assert!(ends == list.ends, "{place}, at level {}", level.name());
            }
        }
        check_invariants(&*chunker, data, &fed_cuts(&*chunker, data, Feed::Whole));
    }
}
