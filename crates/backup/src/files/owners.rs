//! Names of users and groups, each asked for once: the answer may come over a network.

use std::collections::HashMap;

use nix::unistd::{Gid, Group, Uid, User};

/// From ids to names.
#[derive(Debug, Default)]
pub(crate) struct OwnerNames {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl OwnerNames {
    /// The user's name; empty where the system knows none.
    pub(crate) fn user(&mut self, id: u32) -> &str {
        self.users.entry(id).or_insert_with(|| {
            User::from_uid(Uid::from_raw(id)).ok().flatten().map_or_else(String::new, |u| u.name)
        })
    }

    /// The group's name; empty where the system knows none.
    pub(crate) fn group(&mut self, id: u32) -> &str {
        self.groups.entry(id).or_insert_with(|| {
            Group::from_gid(Gid::from_raw(id)).ok().flatten().map_or_else(String::new, |g| g.name)
        })
    }
}

/// From names to ids.
#[derive(Debug, Default)]
pub(crate) struct OwnerIds {
    users: HashMap<String, Option<u32>>,
    groups: HashMap<String, Option<u32>>,
}

impl OwnerIds {
    /// The id of the user `name`, where this system has one.
    pub(crate) fn user(&mut self, name: &str) -> Option<u32> {
        if let Some(&id) = self.users.get(name) {
            return id;
        }
        let id = User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
        self.users.insert(name.to_owned(), id);
        id
    }

    /// The id of the group `name`, where this system has one.
    pub(crate) fn group(&mut self, name: &str) -> Option<u32> {
        if let Some(&id) = self.groups.get(name) {
            return id;
        }
        let id = Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
        self.groups.insert(name.to_owned(), id);
        id
    }
}
