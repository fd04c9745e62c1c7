//! Members of an archive, on their way into the trees of a snapshot.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;

use cutpoint_repository::{Entry, EntryKind, KeyedRecord, RecordSort, SortedRecords};
use cutpoint_storage::{Error, Result};

use super::member_path::{path_of_key, sort_key};

/// The memory for entries that are not in temporary files, in bytes.
const MEMORY_LEN: usize = 32 << 20;

/// The tag of a record that is an entry.
const ENTRY: u8 = 0;
/// The tag of a record that is a further name of another.
const LINK: u8 = 1;

/// Collects the entries of members in the order of the archive. Memory is bounded, except for the
/// names of hard links and, in the end, the entries of their targets.
#[derive(Debug)]
pub(crate) struct MemberSpool {
    sort: RecordSort,
    /// The number of members.
    count: u64,
    /// The target of each name that is a hard link at present.
    links: HashMap<Vec<u8>, Target>,
}

/// The member that a hard link is a further name of: the last one with this name before the link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    key: Vec<u8>,
    /// The number of the link.
    before: u64,
}

/// A step of the walk through the tree.
#[derive(Debug)]
pub(crate) enum MemberStep {
    /// A folder begins.
    Enter(Box<Entry>),
    /// The folder that began last ends.
    Leave,
    /// An entry that is no folder.
    Entry(Box<Entry>),
    /// A further name of an entry that came before.
    Link(Box<Entry>),
    /// The member at this path is not saved.
    Problem(Vec<u8>, &'static str),
}

impl MemberSpool {
    /// Creates a spool with temporary files in `folder`, if there is one.
    pub(crate) fn new(folder: Option<PathBuf>) -> MemberSpool {
        MemberSpool { sort: RecordSort::new(folder, MEMORY_LEN), count: 0, links: HashMap::new() }
    }

    /// Adds the complete entry of the member at `path`.
    ///
    /// # Errors
    ///
    /// Returns any error of [`RecordSort::push`].
    pub(crate) fn push(&mut self, path: &[u8], entry: &Entry) -> Result<()> {
        let key = sort_key(path);
        self.links.remove(&key);
        let mut record = vec![ENTRY];
        entry.encode_into(&mut record);
        self.add(&key, &record)
    }

    /// Adds a further name `path` of the member at `target`.
    ///
    /// # Errors
    ///
    /// Returns any error of [`RecordSort::push`].
    pub(crate) fn link(&mut self, path: &[u8], target: &[u8]) -> Result<()> {
        let (key, target) = (sort_key(path), sort_key(target));
        if key == target {
            return Ok(());
        }
        let found = self.links.get(&target).cloned();
        let found = found.unwrap_or(Target { key: target, before: self.count });
        let mut record = vec![LINK];
        record.extend_from_slice(&found.before.to_le_bytes());
        record.extend_from_slice(&found.key);
        self.links.insert(key.clone(), found);
        self.add(&key, &record)
    }

    fn add(&mut self, key: &[u8], record: &[u8]) -> Result<()> {
        let mut value = self.count.to_le_bytes().to_vec();
        value.extend_from_slice(record);
        self.count += 1;
        self.sort.push(key, &value)
    }

    /// Ends the archive. `inode` returns the inode number of a file with several names, given a key
    /// of one of them. `above` creates the entry of a folder that no member describes.
    ///
    /// # Errors
    ///
    /// Returns any error of [`RecordSort::sorted`].
    pub(crate) fn finish(
        &mut self,
        inode: impl Fn(&[u8]) -> u64,
        above: fn(&[u8]) -> Entry,
    ) -> Result<SpooledMembers<'_>> {
        let links = std::mem::take(&mut self.links);
        let linked = LinkedMembers::find(self.sort.sorted()?, &links, inode)?;
        Ok(SpooledMembers {
            records: self.sort.sorted()?,
            ahead: None,
            linked,
            above,
            steps: VecDeque::new(),
            folders: Vec::new(),
            not_folder: None,
            is_over: false,
        })
    }
}

/// A member, as it was spooled.
struct Spooled {
    number: u64,
    record: Vec<u8>,
}

impl Spooled {
    fn parse(value: &[u8]) -> Result<Spooled> {
        let (number, record) = value.split_first_chunk::<8>().ok_or_else(malformed)?;
        Ok(Spooled { number: u64::from_le_bytes(*number), record: record.to_vec() })
    }

    /// Returns the entry; `None` for a link.
    fn entry(&self) -> Result<Option<Entry>> {
        match self.record.split_first() {
            Some((&ENTRY, encoded)) => Entry::from_bytes(encoded).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the target; `None` for an entry.
    fn target(&self) -> Option<Target> {
        let (&tag, rest) = self.record.split_first()?;
        let (before, key) = rest.split_first_chunk::<8>()?;
        (tag == LINK).then(|| Target { key: key.to_vec(), before: u64::from_le_bytes(*before) })
    }
}

fn malformed() -> Error {
    Error::corrupt("temporary file", "malformed record of a member")
}

/// The members that have several names.
#[derive(Debug, Default)]
struct LinkedMembers {
    /// The numbers of the members that links refer to.
    targets: HashMap<Target, u64>,
    /// These members by their numbers.
    members: HashMap<u64, LinkedMember>,
}

/// A member that has several names.
#[derive(Debug)]
struct LinkedMember {
    entry: Entry,
    /// Set if one of the names was delivered.
    is_delivered: bool,
}

impl LinkedMembers {
    /// Finds the targets of `links` in `records`.
    fn find(
        mut records: SortedRecords<'_>,
        links: &HashMap<Vec<u8>, Target>,
        inode: impl Fn(&[u8]) -> u64,
    ) -> Result<LinkedMembers> {
        let mut linked = LinkedMembers::default();
        // The targets by their keys, in the order of the archive.
        let mut wanted: HashMap<&[u8], BTreeMap<u64, u64>> = HashMap::new();
        for target in links.values() {
            *wanted.entry(&target.key).or_default().entry(target.before).or_default() += 1;
        }
        if wanted.is_empty() {
            return Ok(linked);
        }
        // The last record of the current key.
        let mut last: Option<(Vec<u8>, Spooled)> = None;
        loop {
            let next = records.next_record()?;
            let next = next.map(|(key, value)| Ok::<_, Error>((key, Spooled::parse(&value)?)));
            let next = next.transpose()?;
            if let Some((key, member)) = &last
                && let Some(of_key) = wanted.get(key.as_slice())
            {
                let until = match &next {
                    Some((next_key, next)) if next_key == key => Some(next.number),
                    _ => None,
                };
                // The links before the next member of this name.
                let links = of_key.range(member.number..until.unwrap_or(u64::MAX));
                let links: Vec<(u64, u64)> =
                    links.map(|(before, count)| (*before, *count)).collect();
                linked.add(key, member, &links, until.is_none(), &inode)?;
            }
            if next.is_none() {
                return Ok(linked);
            }
            last = next;
        }
    }

    /// Adds a member that `links` refer to: their places in the archive, and how many there are.
    fn add(
        &mut self,
        key: &[u8],
        member: &Spooled,
        links: &[(u64, u64)],
        is_last: bool,
        inode: &impl Fn(&[u8]) -> u64,
    ) -> Result<()> {
        let Some(mut entry) = member.entry()? else { return Ok(()) };
        if links.is_empty() || entry.kind == EntryKind::Folder {
            return Ok(());
        }
        entry.links = links.iter().map(|(_, count)| count).sum::<u64>() + u64::from(is_last);
        if entry.links > 1 {
            entry.inode = inode(key);
        }
        self.members.insert(member.number, LinkedMember { entry, is_delivered: false });
        for (before, _) in links {
            let target = Target { key: key.to_vec(), before: *before };
            self.targets.insert(target, member.number);
        }
        Ok(())
    }

    /// Returns the entry of the member `number` under the name `name`, and `true` if it has been
    /// delivered under another name; `None` if it has only one name.
    fn deliver(&mut self, number: u64, name: &[u8]) -> Option<(Entry, bool)> {
        let member = self.members.get_mut(&number)?;
        let was_delivered = std::mem::replace(&mut member.is_delivered, true);
        Some((Entry { name: name.to_vec(), ..member.entry.clone() }, was_delivered))
    }
}

/// The members of an archive as the steps of a walk through the tree.
#[derive(Debug)]
pub(crate) struct SpooledMembers<'a> {
    records: SortedRecords<'a>,
    /// The record after the last one that was taken.
    ahead: Option<KeyedRecord>,
    linked: LinkedMembers,
    above: fn(&[u8]) -> Entry,
    /// The next steps.
    steps: VecDeque<MemberStep>,
    /// The names of the open folders.
    folders: Vec<Vec<u8>>,
    /// The key and the number of the last member that is not a folder.
    not_folder: Option<(Vec<u8>, u64)>,
    is_over: bool,
}

impl SpooledMembers<'_> {
    /// Returns the next step; `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns any error of [`SortedRecords::next_record`].
    pub(crate) fn next_step(&mut self) -> Result<Option<MemberStep>> {
        while self.steps.is_empty() && !self.is_over {
            match self.next_name()? {
                Some((key, member)) => self.take(key, &member)?,
                None => {
                    self.is_over = true;
                    self.leave_to(0);
                }
            }
        }
        Ok(self.steps.pop_front())
    }

    /// Returns the next name with its last member.
    fn next_name(&mut self) -> Result<Option<(Vec<u8>, Spooled)>> {
        let next = match self.ahead.take() {
            Some(record) => Some(record),
            None => self.records.next_record()?,
        };
        let Some((key, mut value)) = next else { return Ok(None) };
        while let Some((next_key, next_value)) = self.records.next_record()? {
            if next_key != key {
                self.ahead = Some((next_key, next_value));
                break;
            }
            value = next_value;
        }
        Ok(Some((key, Spooled::parse(&value)?)))
    }

    /// Turns the last member of a name into steps.
    fn take(&mut self, key: Vec<u8>, member: &Spooled) -> Result<()> {
        if let Some((place, number)) = &self.not_folder
            && key.starts_with(place)
            && key.get(place.len()) == Some(&0)
        {
            // Members before it are replaced by it.
            if member.number > *number {
                let reason = "below a member that is not a folder";
                self.steps.push_back(MemberStep::Problem(path_of_key(&key), reason));
            }
            return Ok(());
        }
        let mut names: Vec<&[u8]> = key.split(|&byte| byte == 0).collect();
        let name = names.pop().unwrap_or_default();
        let number = match member.target() {
            None => member.number,
            Some(target) => match self.linked.targets.get(&target) {
                Some(number) => *number,
                None => {
                    let reason = "hard link to a name that no member before it has";
                    self.steps.push_back(MemberStep::Problem(path_of_key(&key), reason));
                    return Ok(());
                }
            },
        };
        let (entry, is_further_name) = match self.linked.deliver(number, name) {
            Some(delivered) => delivered,
            None => (member.entry()?.ok_or_else(malformed)?, false),
        };
        self.open(&names);
        let entry = Box::new(entry);
        match entry.kind {
            EntryKind::Folder => {
                self.folders.push(name.to_vec());
                self.steps.push_back(MemberStep::Enter(entry));
                return Ok(());
            }
            EntryKind::File if is_further_name => self.steps.push_back(MemberStep::Link(entry)),
            _ => self.steps.push_back(MemberStep::Entry(entry)),
        }
        self.not_folder = Some((key, member.number));
        Ok(())
    }

    /// Leaves and enters folders until `names` are open.
    fn open(&mut self, names: &[&[u8]]) {
        let common = self.folders.iter().zip(names).take_while(|(open, name)| open == *name);
        let common = common.count();
        self.leave_to(common);
        for name in &names[common..] {
            self.folders.push(name.to_vec());
            self.steps.push_back(MemberStep::Enter(Box::new((self.above)(name))));
        }
    }

    fn leave_to(&mut self, depth: usize) {
        while self.folders.len() > depth {
            self.folders.pop();
            self.steps.push_back(MemberStep::Leave);
        }
    }
}
