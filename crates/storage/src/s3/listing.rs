//! Listings of a bucket: page after page, or large folders by several requests at a time.

use futures_util::StreamExt;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as StorePath;

use super::S3;
use super::bounds::ListBounds;
use super::failure::Failure;
use crate::kind::ObjectKind;
use crate::storage::count_max;

/// The first characters of the names of containers and commits, which are hexadecimal numbers. Each
/// is a prefix that is listed for itself.
const FIRST_DIGITS: &str = "0123456789abcdef";
/// The number of these prefixes.
pub(super) const DIGIT_COUNT: usize = FIRST_DIGITS.len();
/// Number of pages of commits that are listed one after the other. Listing by prefixes takes up to
/// [`FIRST_DIGITS`] requests more, which fewer pages are not worth.
const COMMIT_PAGES: usize = 8;

/// An object in a listing.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) len: u64,
    pub(super) stamp_ns: Option<i64>,
}

/// The objects of one page or of several.
type Names = Vec<Listed>;

/// A page of a listing, and the token of the next one.
pub(super) type Page = (Names, Option<String>);

impl S3 {
    /// Lists the objects below `prefix`.
    ///
    /// The names of containers and commits are evenly distributed, and there may be millions of
    /// them. If they do not fit into the first pages, the objects of each first digit are listed
    /// separately, all digits at a time. A name that begins with no digit is not that of such an
    /// object, and is then only listed if it is in the first pages.
    pub(super) fn list_once(&self, prefix: &str) -> Result<Names, Failure> {
        let folder = format!("{}/", self.path(prefix));
        let mut names = self.link.block_on(async {
            let first_pages = pages_in_order(prefix);
            let (mut names, token) = self.pages(prefix, &folder, first_pages).await?;
            if token.is_none() {
                return Ok(names);
            }
            // The first pages are listed again, because not every storage lists in order.
            let folders: Vec<String> =
                FIRST_DIGITS.chars().map(|digit| format!("{folder}{digit}")).collect();
            let listings = folders.iter().map(|folder| self.pages(prefix, folder, usize::MAX));
            let mut listings = futures_util::stream::iter(listings).buffered(DIGIT_COUNT);
            while let Some(listed) = listings.next().await {
                names.extend(listed?.0);
            }
            Ok(names)
        })?;
        names.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        names.dedup_by(|object, kept| object.name == kept.name);
        Ok(names)
    }

    /// Lists up to `page_count_max` pages. Also returns the token of the next page, if there is one.
    async fn pages(
        &self,
        prefix: &str,
        folder: &str,
        page_count_max: usize,
    ) -> Result<Page, Failure> {
        let mut bounds = ListBounds::new(count_max(prefix), self.link.patience.now_ns());
        let (mut names, mut token) = (Names::new(), None);
        for _ in 0..page_count_max {
            let (page, next) = self.page(folder, token).await?;
            let count = page.len();
            names.extend(page);
            let Some(next) = next else { return Ok((names, None)) };
            bounds.page(count, &next, self.link.patience.now_ns())?;
            token = Some(next);
        }
        Ok((names, token))
    }

    /// Returns one page of the objects whose paths begin with `folder`.
    pub(super) async fn page(
        &self,
        folder: &str,
        page_token: Option<String>,
    ) -> Result<Page, Failure> {
        let options = PaginatedListOptions { page_token, ..PaginatedListOptions::default() };
        let page = self.store.list_paginated(Some(folder), options);
        let page = self.within(self.limits.silence, page).await.map_err(Failure::of_place)?;
        let names = page.result.objects.into_iter().filter_map(|meta| {
            let name: StorePath = meta.location.prefix_match(&self.root)?.collect();
            let stamp_ns = meta.last_modified.timestamp_nanos_opt();
            Some(Listed { name: String::from(name), len: meta.size, stamp_ns })
        });
        Ok((names.collect(), page.page_token))
    }
}

/// Returns the number of pages of `prefix` that are listed in order.
fn pages_in_order(prefix: &str) -> usize {
    match prefix {
        _ if is_folder_of_containers(prefix) => 1,
        _ if prefix == ObjectKind::Commit.folder() => COMMIT_PAGES,
        _ => usize::MAX,
    }
}

/// Returns `true` if the objects below `prefix` are containers.
pub(super) fn is_folder_of_containers(prefix: &str) -> bool {
    [ObjectKind::Data, ObjectKind::Meta].iter().any(|kind| kind.folder() == prefix)
}
