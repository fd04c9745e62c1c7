//! Writers that break one rule, for tests: each must be caught. Nothing of this is compiled
//! without the feature `mutants`.

use std::cell::Cell;

/// One rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// W1: lists commits and prunes before the ticket is put.
    ListsBeforeTicket,
    /// W2: finds chunks in condemned containers as well.
    UsesCondemned,
    /// W3: takes over from snapshots that a prune has taken.
    TakesOverTaken,
    /// W5: does not look whether the containers that gave hits exist.
    TrustsHits,
    /// W6: takes "there is one already" for its own success.
    TakesExistsForOwn,
    /// W6: puts its commit in the place of another.
    Overwrites,
    /// P5: where others were faster, takes the next number without looking at what they have put.
    TakesNextNumber,
}

impl Mutant {
    /// Every one.
    pub const ALL: [Mutant; 7] = [
        Mutant::ListsBeforeTicket,
        Mutant::UsesCondemned,
        Mutant::TakesOverTaken,
        Mutant::TrustsHits,
        Mutant::TakesExistsForOwn,
        Mutant::Overwrites,
        Mutant::TakesNextNumber,
    ];
}

thread_local! {
    static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Breaks a rule in what this thread does from now on; `None` keeps them all.
pub fn activate(mutant: Option<Mutant>) {
    ACTIVE.set(mutant);
}

/// Whether this thread breaks the rule.
pub(crate) fn is_active(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}
