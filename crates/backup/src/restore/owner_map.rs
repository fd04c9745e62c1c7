//! Rules that give restored files other owners.

use cutpoint_repository::Entry;

use crate::source::OwnerIds;

/// Rules that give restored files other owners. For each of user and group, the first rule that
/// matches counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerMap {
    users: Vec<(RecordedOwner, u32)>,
    groups: Vec<(RecordedOwner, u32)>,
}

/// An owner in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RecordedOwner {
    Id(u32),
    Name(String),
}

impl RecordedOwner {
    fn is(&self, id: u32, name: &str) -> bool {
        match self {
            RecordedOwner::Id(own) => *own == id,
            RecordedOwner::Name(own) => own == name,
        }
    }
}

impl OwnerMap {
    /// Parses rules of the form `user:OLD=NEW` or `group:OLD=NEW`. OLD is the name or the id that
    /// the snapshot has, and NEW a name that this system knows, or an id.
    ///
    /// # Errors
    ///
    /// Returns a message about the first rule of another form, or whose NEW is not known.
    pub fn parse<'a>(rules: impl IntoIterator<Item = &'a str>) -> Result<OwnerMap, String> {
        let mut map = OwnerMap::default();
        let mut ids = OwnerIds::default();
        for rule in rules {
            let form = || format!("{rule:?} (expected user:OLD=NEW or group:OLD=NEW)");
            let (class, owners) = rule.split_once(':').ok_or_else(form)?;
            let (old, new) = owners.split_once('=').ok_or_else(form)?;
            if old.is_empty() || new.is_empty() {
                return Err(form());
            }
            let old = match old.parse() {
                Ok(id) => RecordedOwner::Id(id),
                Err(_) => RecordedOwner::Name(old.to_owned()),
            };
            // For the system, the highest number means "leave the owner unchanged".
            let id = new.parse().ok().filter(|&id: &u32| id != u32::MAX);
            let (list, id) = match class {
                "user" => (&mut map.users, id.or_else(|| ids.user(new))),
                "group" => (&mut map.groups, id.or_else(|| ids.group(new))),
                _ => return Err(form()),
            };
            let id = id.ok_or_else(|| format!("{rule:?}: this system has no {class} {new:?}"))?;
            list.push((old, id));
        }
        Ok(map)
    }

    /// Returns the user and the group that the rules give to `entry`, as far as a rule matches.
    pub(super) fn of(&self, entry: &Entry) -> (Option<u32>, Option<u32>) {
        let first = |rules: &[(RecordedOwner, u32)], id, name: &str| {
            rules.iter().find(|(old, _)| old.is(id, name)).map(|&(_, new)| new)
        };
        (
            first(&self.users, entry.user_id, &entry.user),
            first(&self.groups, entry.group_id, &entry.group),
        )
    }
}

#[cfg(test)]
mod tests {
    use cutpoint_repository::EntryKind;

    use super::*;

    #[test]
    fn first_matching_rule_counts_for_user_and_group_separately() {
        let rules = ["user:alice=1001", "user:500=root", "user:alice=7", "group:500=0"];
        let map = OwnerMap::parse(rules).expect("valid rules");
        let mut entry = Entry::new("file", EntryKind::File);
        (entry.user_id, entry.group_id) = (500, 500);
        entry.user = "alice".to_owned();
        assert_eq!(map.of(&entry), (Some(1001), Some(0)), "by name");
        entry.user.clear();
        assert_eq!(map.of(&entry), (Some(0), Some(0)), "by number, to a name");
        (entry.user_id, entry.group_id) = (501, 501);
        assert_eq!(map.of(&entry), (None, None), "no rule");
    }

    #[test]
    fn rules_of_another_form_and_unknown_names_are_refused() {
        let no_user = "user:alice=no such user";
        for rule in ["alice=bob", "user:alice", "user:=0", "user:a=", "other:a=0", no_user] {
            let error = OwnerMap::parse([rule]).expect_err(rule);
            assert!(error.contains(rule), "{error}");
        }
        assert!(OwnerMap::parse(["user:a=4294967295"]).is_err(), "no id");
    }
}
