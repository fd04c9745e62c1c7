//! What an algorithm is, in words that a person can be shown.

/// An algorithm in words. [`descriptions`](crate::descriptions) has all of them.
///
/// The texts are for people: they may change from version to version. What the rule is to the bit
/// stands in the documentation of the algorithm's module.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Description {
    /// The name that a [`Spec`](crate::Spec) begins with.
    pub name: &'static str,
    /// The name that people know it by.
    pub title: &'static str,
    /// The rule, in a paragraph.
    pub rule: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Where papers and programs say something else, and what is done here.
    pub dialects: &'static str,
    /// What it is good at.
    pub good_at: &'static str,
    /// What it is bad at.
    pub bad_at: &'static str,
    /// What can be set, in the order in which it is written out.
    pub parameters: &'static [Parameter],
    /// Shorter ways to say all of it.
    pub short_forms: &'static [ShortForm],
}

/// One thing that can be set.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Parameter {
    /// The key in a spec.
    pub key: &'static str,
    /// What it means, with its unit.
    pub meaning: &'static str,
    /// What is allowed.
    pub allowed: &'static str,
    /// What holds where it is left out; `None` where it must be given. What says `absent` is not
    /// written out either.
    pub default: Option<&'static str>,
}

/// A short form of a spec: one key that stands for most others.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ShortForm {
    /// The key that shows which form it is.
    pub key: &'static str,
    /// The keys that may stand beside it.
    pub others: &'static [&'static str],
    /// What it means, and what is allowed.
    pub meaning: &'static str,
}

impl Parameter {
    /// One that must be given.
    pub(crate) const fn required(
        key: &'static str,
        meaning: &'static str,
        allowed: &'static str,
    ) -> Parameter {
        Parameter { key, meaning, allowed, default: None }
    }

    /// One that can be left out.
    pub(crate) const fn optional(
        key: &'static str,
        meaning: &'static str,
        allowed: &'static str,
        default: &'static str,
    ) -> Parameter {
        Parameter { key, meaning, allowed, default: Some(default) }
    }
}

impl ShortForm {
    pub(crate) const fn new(
        key: &'static str,
        others: &'static [&'static str],
        meaning: &'static str,
    ) -> ShortForm {
        ShortForm { key, others, meaning }
    }
}
