//! The answers of searches for parameters on one data set.

use std::cell::RefCell;
use std::collections::HashMap;

use cutpoint_chunking::Spec;

/// The question of a search for an equal mean on one data set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SearchKey {
    pub(crate) template: String,
    pub(crate) target: usize,
    pub(crate) drop_last: bool,
}

/// The parameters that a search found, or the reason why there are none.
type Answer = Result<Box<Spec>, String>;

/// The answers of searches on one data set. Several kinds of measurement ask the same question,
/// and a search cuts the whole data set up to ten times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Searched(RefCell<HashMap<SearchKey, Answer>>);

impl Searched {
    /// Returns the known answer, or that of `search`, which is known from then on.
    pub(crate) fn get_or_search(&self, key: SearchKey, search: impl FnOnce() -> Answer) -> Answer {
        if let Some(known) = self.0.borrow().get(&key) {
            return known.clone();
        }
        let found = search();
        self.put(key, found.clone());
        found
    }

    /// Enters the answer of an earlier search.
    pub(crate) fn put(&self, key: SearchKey, answer: Answer) {
        self.0.borrow_mut().insert(key, answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_searched_once_for_each_question() {
        let searched = Searched::default();
        let key = |template: &str, target, drop_last| SearchKey {
            template: template.to_owned(),
            target,
            drop_last,
        };
        let wanted = [
            key("fixed:size={target}", 4096, false),
            key("fixed:size={target}", 8192, false),
            key("fixed:size={target}", 4096, true),
            key("gear:avg={target}", 4096, false),
        ];
        let answer = |key: &SearchKey| Err(format!("{key:?}"));
        for key in &wanted {
            assert_eq!(searched.get_or_search(key.clone(), || answer(key)), answer(key));
        }
        for key in &wanted {
            let search = || unreachable!("{key:?} is known");
            assert_eq!(searched.get_or_search(key.clone(), search), answer(key));
        }
    }
}
