//! The trees that snapshots have of one folder, and their items. `F` is what stands for a folder below
//! it.

use std::collections::HashMap;

use cutpoint_repository::Content;
use cutpoint_storage::Error;

use super::version::{Presence, Version};

/// An entry that matches, or a folder to search.
struct Item<F> {
    name: NamePlace,
    /// The version, if the entry matches.
    version: Option<Version>,
    /// The folder to search, with the number of its tree there.
    folder: Option<(F, u32)>,
    /// The trees that have the item, since one that was read before lacked it.
    stay: Stay,
}

/// The place of a name in [`Trees::names`].
#[derive(Clone, Copy)]
struct NamePlace {
    start: u32,
    len: u32,
}

/// Consecutive trees, by their positions in the order in which trees are read. Neighbours have most
/// items in common, so that an item has few stays, and usually one.
#[derive(Clone, Copy)]
struct Stay {
    first: u32,
    last: u32,
}

/// The trees of a folder, and what they contain. An item is known by its position.
pub(super) struct Trees<F> {
    items: Vec<Item<F>>,
    /// The names of the items, one behind the other.
    names: Vec<u8>,
    /// The items, by keys that their entries have.
    known: HashMap<u64, u32>,
    /// Contents of items, in addition to those in their versions.
    other_contents: Vec<(u32, u32)>,
    /// The stays of items that have a later one.
    earlier_stays: Vec<(u32, Stay)>,
    /// The numbers of the trees.
    numbers: HashMap<Content, u32>,
    /// The numbers of the trees that were read, in the order of reading.
    order: Vec<u32>,
    /// The damage of trees, by their numbers. What is before it in the tree is known.
    damage: Vec<(u32, Error)>,
}

impl<F> Default for Trees<F> {
    fn default() -> Trees<F> {
        Trees {
            items: Vec::new(),
            names: Vec::new(),
            known: HashMap::new(),
            other_contents: Vec::new(),
            earlier_stays: Vec::new(),
            numbers: HashMap::new(),
            order: Vec::new(),
            damage: Vec::new(),
        }
    }
}

impl<F> Trees<F> {
    /// Adds a tree. Returns its number, and `true` if it was not there before.
    pub(super) fn add(&mut self, tree: &Content) -> (u32, bool) {
        if let Some(&number) = self.numbers.get(tree) {
            return (number, false);
        }
        // There is a snapshot for each tree, so that their number has 32 bits.
        let number = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        self.numbers.insert(tree.clone(), number);
        (number, true)
    }

    /// Begins to read the tree of this number.
    pub(super) fn begin(&mut self, number: u32) {
        self.order.push(number);
    }

    /// Notes that the tree that is read has `item`.
    pub(super) fn note(&mut self, item: u32) {
        let position = self.position();
        let Some(known) = self.items.get_mut(item as usize) else { return };
        let stay = &mut known.stay;
        if position - stay.last > 1 {
            self.earlier_stays.push((item, *stay));
            stay.first = position;
        }
        stay.last = position;
    }

    /// Notes damage of the tree of this number.
    pub(super) fn note_damage(&mut self, number: u32, error: Error) {
        self.damage.push((number, error));
    }

    /// Returns the item with this key, to which `version` is added.
    pub(super) fn find(&mut self, key: u64, version: Option<&Version>) -> Option<u32> {
        let item = self.known.get(&key).copied()?;
        let first = self.items.get(item as usize).and_then(|item| item.version.as_ref());
        if let (Some(first), Some(version)) = (first, version)
            && first.content_hash() != version.content_hash()
        {
            self.other_contents.push((item, version.content_hash()));
        }
        Some(item)
    }

    /// Adds an item of the tree that is read, and returns its position. `like` is an item that may
    /// have the same name. Returns `None` if there is no place for more items.
    pub(super) fn add_item(
        &mut self,
        key: u64,
        name: &[u8],
        like: Option<u32>,
        version: Option<Version>,
        folder: Option<(F, u32)>,
    ) -> Option<u32> {
        // The highest number stands for no item.
        let item = u32::try_from(self.items.len()).ok().filter(|&item| item != u32::MAX)?;
        let like = like.and_then(|like| self.items.get(like as usize)).map(|like| like.name);
        let place = match like.filter(|&place| self.name_at(place) == name) {
            Some(place) => place,
            None => {
                let start = u32::try_from(self.names.len()).ok()?;
                self.names.extend_from_slice(name);
                NamePlace { start, len: u32::try_from(name.len()).ok()? }
            }
        };
        let position = self.position();
        let stay = Stay { first: position, last: position };
        self.items.push(Item { name: place, version, folder, stay });
        self.known.insert(key, item);
        Some(item)
    }

    /// The position of the tree that is read.
    fn position(&self) -> u32 {
        u32::try_from(self.order.len()).unwrap_or(u32::MAX).saturating_sub(1)
    }

    /// Returns the contents of an item in addition to that in its version, once they are sorted.
    fn other_contents_of(&self, item: u32) -> Vec<u32> {
        let start = self.other_contents.partition_point(|&(of, _)| of < item);
        let them = self.other_contents[start..].iter().take_while(|&&(of, _)| of == item);
        them.map(|&(_, content)| content).collect()
    }

    fn name_at(&self, place: NamePlace) -> &[u8] {
        let start = place.start as usize;
        self.names.get(start..start + place.len as usize).unwrap_or_default()
    }

    fn name(&self, item: u32) -> &[u8] {
        self.name_at(self.items[item as usize].name)
    }
}

/// The names in a folder, in ascending order.
pub(super) struct Listing<F> {
    trees: Trees<F>,
    /// The snapshots that have each item.
    presences: Vec<Presence>,
    /// The items that snapshots have: by their names, and those of one name by their first snapshots.
    items: std::iter::Peekable<std::vec::IntoIter<u32>>,
}

/// The versions and trees of one name in a folder.
pub(super) struct Node<F> {
    pub(super) name: Vec<u8>,
    /// The versions that match, in the order of their first snapshots.
    pub(super) versions: Vec<(Version, Presence)>,
    /// The folder to search, if there is one, and the numbers of its trees. A tree can be there
    /// several times, with different snapshots.
    pub(super) folder: Option<F>,
    pub(super) trees: Vec<(u32, Presence)>,
}

/// All contents of the versions in a [`Node`].
type Contents = Vec<Vec<u32>>;

impl<F> Node<F> {
    /// Adds a version with these contents that some snapshots have, none of which is counted yet.
    fn add_version(
        &mut self,
        version: Version,
        presence: Presence,
        contents: Vec<u32>,
        known_contents: &mut Contents,
    ) {
        let known = self.versions.iter_mut().zip(known_contents.iter_mut());
        let mut known = known.rev();
        match known.find(|((known, _), them)| known.is_same(them, &version, &contents)) {
            Some(((known, known_presence), them)) => {
                *known = version;
                known_presence.add(presence);
                them.extend(contents);
            }
            None => {
                self.versions.push((version, presence));
                known_contents.push(contents);
            }
        }
    }
}

impl<F> Listing<F> {
    /// Creates the listing of those of the `trees` that snapshots have. `found` has the numbers of
    /// the trees, some of them several times, with different snapshots. Also returns the damage of
    /// the trees, in the order of their first snapshots.
    pub(super) fn new(
        mut trees: Trees<F>,
        found: &[(u32, Presence)],
    ) -> (Listing<F>, Vec<(Presence, Error)>) {
        let mut of_trees = vec![Presence::NOWHERE; trees.numbers.len()];
        found.iter().for_each(|&(number, presence)| of_trees[number as usize].add(presence));
        let by_order: Vec<_> = trees.order.iter().map(|&at| of_trees[at as usize]).collect();
        let of = |stay: Stay| {
            let mut presence = Presence::NOWHERE;
            let trees = &by_order[stay.first as usize..=stay.last as usize];
            trees.iter().for_each(|&tree| presence.add(tree));
            presence
        };
        let mut presences: Vec<_> = trees.items.iter().map(|item| of(item.stay)).collect();
        for (item, stay) in std::mem::take(&mut trees.earlier_stays) {
            presences[item as usize].add(of(stay));
        }
        let mut items: Vec<u32> = (0..).take(trees.items.len()).collect();
        items.retain(|&item| !presences[item as usize].is_nowhere());
        let first = |item: u32| presences[item as usize].first;
        items.sort_unstable_by(|&one, &other| {
            let by_name = trees.name(one).cmp(trees.name(other));
            by_name.then_with(|| (first(one), one).cmp(&(first(other), other)))
        });
        let damage = std::mem::take(&mut trees.damage).into_iter();
        let damage = damage.map(|(number, error)| (of_trees[number as usize], error));
        let mut damage: Vec<_> = damage.filter(|(presence, _)| !presence.is_nowhere()).collect();
        damage.sort_by_key(|(presence, _)| presence.first);
        trees.other_contents.sort_unstable();
        trees.other_contents.dedup();
        // No more items are added.
        (trees.known, trees.numbers) = (HashMap::new(), HashMap::new());
        (Listing { trees, presences, items: items.into_iter().peekable() }, damage)
    }
}

impl<F: Clone> Iterator for Listing<F> {
    type Item = Node<F>;

    /// Returns the next name.
    fn next(&mut self) -> Option<Node<F>> {
        let name = self.trees.name(*self.items.peek()?).to_vec();
        let (versions, trees) = (Vec::new(), Vec::new());
        let mut node = Node { name, versions, folder: None, trees };
        let mut known_contents = Contents::new();
        while let Some(item) = self.items.next_if(|&item| self.trees.name(item) == node.name) {
            let presence = self.presences[item as usize];
            let mut contents = self.trees.other_contents_of(item);
            let item = &self.trees.items[item as usize];
            if let Some(version) = item.version {
                contents.push(version.content_hash());
                node.add_version(version, presence, contents, &mut known_contents);
            }
            if let Some((folder, number)) = &item.folder {
                node.folder = Some(folder.clone());
                node.trees.push((*number, presence));
            }
        }
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::hash::RandomState;
    use std::sync::Arc;

    use cutpoint_repository::{Entry, EntryKind};
    use cutpoint_testing::SplitMix64;

    use super::*;

    /// The entries of a tree: names, and sizes that distinguish the versions of a name.
    type Sizes = BTreeMap<Vec<u8>, u64>;

    fn random_tree(random: &mut SplitMix64) -> Sizes {
        let mut sizes = Sizes::new();
        for name in b'a'..b'k' {
            if random.below(4) > 0 {
                sizes.insert(vec![name, 0], random.below(3) as u64);
            }
        }
        sizes
    }

    /// Returns a version of a file with this size, ctime in seconds, and content.
    fn version(size: u64, seconds: i64, content: u8, hasher: &RandomState) -> Version {
        let mut entry = Entry::new(b"file".as_slice(), EntryKind::File);
        entry.size = size;
        entry.ctime.seconds = seconds;
        entry.content = Content::Raw(vec![content]);
        Version::new(&entry, hasher)
    }

    /// Reads a tree. An item with the same name is sometimes known. The content of a file differs
    /// from tree to tree.
    fn read(trees: &mut Trees<()>, number: u32, sizes: &Sizes, random: &mut SplitMix64) {
        trees.begin(number);
        let hasher = RandomState::new();
        let mut items = Vec::new();
        for (name, &size) in sizes {
            let key = size << 32 | u64::from(name[0]);
            let content = u8::try_from(random.below(4)).expect("a small number");
            let version = version(size, 0, content, &hasher);
            let item = trees.find(key, Some(&version)).or_else(|| {
                let like = u32::try_from(random.below(30)).ok();
                trees.add_item(key, name, like, Some(version), None)
            });
            items.push(item.expect("there is space"));
        }
        items.into_iter().for_each(|item| trees.note(item));
    }

    /// Returns what a listing has: the snapshots of each name and size.
    fn listed(listing: Listing<()>) -> BTreeMap<(Vec<u8>, u64), Presence> {
        let (mut names, mut found) = (Vec::new(), BTreeMap::new());
        for node in listing {
            let firsts = node.versions.iter().map(|(_, presence)| presence.first);
            assert!(firsts.is_sorted(), "versions by their first snapshots");
            for (version, presence) in node.versions {
                found.insert((node.name.clone(), version.size), presence);
            }
            names.push(node.name);
        }
        assert!(names.is_sorted_by(|one, other| one < other), "each name once, in order");
        found
    }

    #[test]
    fn listing_does_not_depend_on_the_order_of_reading() {
        for seed in 0..200 {
            let mut random = SplitMix64::new(seed);
            let mut trees = Trees::default();
            let (mut found, mut expected) = (Vec::new(), BTreeMap::new());
            let mut pending = Vec::new();
            for at in 0..1 + random.below(12) {
                let tree = Content::Raw(vec![u8::try_from(at).expect("a small number")]);
                let presence = Presence { count: 1, first: at, last: at };
                found.push((trees.add(&tree).0, presence));
                let sizes = random_tree(&mut random);
                for (name, &size) in &sizes {
                    let entry = expected.entry((name.clone(), size));
                    entry.or_insert(Presence::NOWHERE).add(presence);
                }
                pending.push((found[at].0, sizes));
            }
            while !pending.is_empty() {
                let (number, sizes) = pending.swap_remove(random.below(pending.len()));
                read(&mut trees, number, &sizes, &mut random);
            }
            assert_eq!(trees.items.len(), expected.len(), "one item of each version, seed {seed}");
            let (listing, damage) = Listing::new(trees, &found);
            assert!(damage.is_empty());
            assert_eq!(listed(listing), expected, "seed {seed}");
        }
    }

    /// Returns the numbers of snapshots of the versions of a file that trees have with these ctimes
    /// and contents, if the trees are read in this order.
    fn counts(states: &[(i64, u8)], order: &[usize]) -> Vec<u64> {
        let hasher = RandomState::new();
        let mut trees = Trees::<()>::default();
        let mut found = Vec::new();
        for at in 0..states.len() {
            let tree = Content::Raw(vec![u8::try_from(at).expect("a small number")]);
            found.push((trees.add(&tree).0, Presence { count: 1, first: at, last: at }));
        }
        for &at in order {
            trees.begin(found[at].0);
            let (seconds, content) = states[at];
            let version = version(1, seconds, content, &hasher);
            let key = version.key(b"file", &hasher);
            let item = trees.find(key, Some(&version));
            let item = item.or_else(|| trees.add_item(key, b"file", None, Some(version), None));
            trees.note(item.expect("there is space"));
        }
        let (listing, _) = Listing::new(trees, &found);
        let versions = listing.flat_map(|node| node.versions);
        versions.map(|(_, presence)| presence.count).collect()
    }

    #[test]
    fn file_with_another_ctime_is_the_same_if_it_has_a_content_of_before() {
        // The content changes, then only the ctime.
        let states = [(1, 1), (1, 2), (2, 2), (3, 3)];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2], [2, 0, 3, 1]] {
            assert_eq!(counts(&states, &order), [3, 1], "{order:?}");
        }
    }

    #[test]
    fn item_of_a_version_takes_few_bytes() {
        let len = size_of::<Item<Arc<()>>>();
        assert!(len <= 96, "{len} bytes");
    }
}
