//! Names of users and groups. Each is looked up only once, because the answer may come over a
//! network.

use std::collections::HashMap;

use nix::unistd::{Gid, Group, Uid, User};

/// The maximum number of users, and of groups, that are remembered. A machine has fewer, but a
/// snapshot that is not trusted may name any number.
const REMEMBERED_MAX: usize = 4096;
/// The maximum length of a name that is looked up and remembered, in bytes; more than any system
/// permits.
const NAME_LEN_MAX: usize = 256;

/// Makes room for one more in a cache.
fn make_room<K, V>(cache: &mut HashMap<K, V>) {
    if cache.len() >= REMEMBERED_MAX {
        cache.clear();
    }
}

/// A cache of the names of users and groups by their ids.
#[derive(Debug, Default)]
pub(crate) struct OwnerNames {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl OwnerNames {
    /// Returns the name of the user `id`; empty if the system knows none.
    pub(crate) fn user(&mut self, id: u32) -> &str {
        if !self.users.contains_key(&id) {
            make_room(&mut self.users);
        }
        self.users.entry(id).or_insert_with(|| {
            User::from_uid(Uid::from_raw(id)).ok().flatten().map_or_else(String::new, |u| u.name)
        })
    }

    /// Returns the name of the group `id`; empty if the system knows none.
    pub(crate) fn group(&mut self, id: u32) -> &str {
        if !self.groups.contains_key(&id) {
            make_room(&mut self.groups);
        }
        self.groups.entry(id).or_insert_with(|| {
            Group::from_gid(Gid::from_raw(id)).ok().flatten().map_or_else(String::new, |g| g.name)
        })
    }
}

/// A cache of the ids of users and groups by their names.
#[derive(Debug, Default)]
pub(crate) struct OwnerIds {
    users: HashMap<String, Option<u32>>,
    groups: HashMap<String, Option<u32>>,
}

impl OwnerIds {
    /// Returns the id of the user `name`, if this system has one.
    pub(crate) fn user(&mut self, name: &str) -> Option<u32> {
        if let Some(&id) = self.users.get(name) {
            return id;
        }
        if name.len() > NAME_LEN_MAX {
            return None;
        }
        make_room(&mut self.users);
        let id = User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
        self.users.insert(name.to_owned(), id);
        id
    }

    /// Returns the id of the group `name`, if this system has one.
    pub(crate) fn group(&mut self, name: &str) -> Option<u32> {
        if let Some(&id) = self.groups.get(name) {
            return id;
        }
        if name.len() > NAME_LEN_MAX {
            return None;
        }
        make_room(&mut self.groups);
        let id = Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
        self.groups.insert(name.to_owned(), id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_of_owners_are_bounded() {
        let mut ids = OwnerIds::default();
        assert_eq!(ids.user("root"), Some(0));
        for number in 0..REMEMBERED_MAX + 10 {
            ids.users.insert(format!("no-such-user-{number}"), None);
        }
        assert_eq!(ids.user("no-such-user"), None);
        assert!(ids.users.len() <= REMEMBERED_MAX, "{} users", ids.users.len());
        assert_eq!(ids.user(&"x".repeat(NAME_LEN_MAX + 1)), None);
        assert_eq!(ids.users.len(), 1, "a name that is too long is not remembered");
        let mut names = OwnerNames::default();
        names.groups.extend((1..=5000).map(|id| (id, String::new())));
        assert_eq!(names.group(0), "root");
        assert_eq!(names.groups.len(), 1, "the others were forgotten");
    }
}
