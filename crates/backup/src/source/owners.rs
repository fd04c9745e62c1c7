//! Names of users and groups. Each is looked up only once, because the answer may come over a
//! network.

use std::collections::HashMap;

use nix::unistd::{Gid, Group, Uid, User};

/// A cache of the names of users and groups by their ids.
#[derive(Debug, Default)]
pub(crate) struct OwnerNames {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl OwnerNames {
    /// Returns the name of the user `id`; empty if the system knows none.
    pub(crate) fn user(&mut self, id: u32) -> &str {
        self.users.entry(id).or_insert_with(|| {
            User::from_uid(Uid::from_raw(id)).ok().flatten().map_or_else(String::new, |u| u.name)
        })
    }

    /// Returns the name of the group `id`; empty if the system knows none.
    pub(crate) fn group(&mut self, id: u32) -> &str {
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
        let id = User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
        self.users.insert(name.to_owned(), id);
        id
    }

    /// Returns the id of the group `name`, if this system has one.
    pub(crate) fn group(&mut self, name: &str) -> Option<u32> {
        if let Some(&id) = self.groups.get(name) {
            return id;
        }
        let id = Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
        self.groups.insert(name.to_owned(), id);
        id
    }
}
