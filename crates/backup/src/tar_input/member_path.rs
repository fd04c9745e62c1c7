//! Names of members as paths in a snapshot.

use cutpoint_repository::format::tree::check_name;

/// Returns the path that the member `name` has below the root of the archive: its components,
/// joined by `/`, without `.` and without a `/` at the beginning or end; empty for the root. Returns
/// the reason if a snapshot cannot have that path.
pub(super) fn member_path(name: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut path = Vec::with_capacity(name.len());
    for component in name.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => continue,
            b".." => return Err("its name has the component `..`"),
            component if check_name(component).is_err() => {
                return Err("its name has a component that no file can have");
            }
            component => {
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(component);
            }
        }
    }
    Ok(path)
}

/// Returns the key by which paths are sorted so that each folder comes before everything in it, and
/// the names of a folder in the order of their bytes. No name has a zero byte.
pub(super) fn sort_key(path: &[u8]) -> Vec<u8> {
    path.iter().map(|&byte| if byte == b'/' { 0 } else { byte }).collect()
}

/// Returns the path of a sort key.
pub(super) fn path_of_key(key: &[u8]) -> Vec<u8> {
    key.iter().map(|&byte| if byte == 0 { b'/' } else { byte }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_root() {
        for (name, expected) in
            [("./a//b/./c/", "a/b/c"), ("/etc/x", "etc/x"), ("./", ""), ("/", ""), ("...", "...")]
        {
            assert_eq!(member_path(name.as_bytes()), Ok(expected.into()), "{name}");
        }
        let long = "x".repeat(5000);
        for name in ["..", "a/../b", "/..", "a/..", "a\0b", &long] {
            assert!(member_path(name.as_bytes()).is_err(), "{name:?} was accepted");
        }
    }

    #[test]
    fn keys_sort_folders_before_their_entries() {
        let mut paths = ["a-b", "a/z", "a", "a/b-", "a/b/c", "b", "a/b"];
        paths.sort_by_key(|path| sort_key(path.as_bytes()));
        assert_eq!(paths, ["a", "a/b", "a/b/c", "a/b-", "a/z", "a-b", "b"], "in order");
        assert_eq!(path_of_key(&sort_key(b"a/b-")), b"a/b-", "back");
    }
}
