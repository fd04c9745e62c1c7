//! What there is to know about an algorithm, as data: for help texts, and for parsing.

/// An algorithm, described. [`algorithms`](crate::algorithms) has all of them.
///
/// The texts are plain English in ASCII, without line ends but for [`About::rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct About {
    /// The name, as it stands before the colon of a [`Spec`](crate::Spec).
    pub name: &'static str,
    /// What it is, in a few words.
    pub title: &'static str,
    /// The rule in a paragraph.
    pub rule: &'static str,
    /// Who stated it, and where: paper, section, number of the algorithm.
    pub source: &'static str,
    /// Where ours differs from the source or from public code, and why; empty where it does not.
    pub differences: &'static str,
    /// What speaks for it.
    pub good_at: &'static str,
    /// What speaks against it, and what breaks it.
    pub bad_at: &'static str,
    /// What becomes of key material.
    pub key: KeyUse,
    /// The parameters of the written-out form, in its order.
    pub parameters: &'static [Parameter],
    /// What may stand instead of all parameters.
    pub short_forms: &'static [ShortForm],
    /// Other forms of the rule that go by the same name; empty where there is but one.
    pub dialects: &'static [Dialect],
}

/// A parameter of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameter {
    /// The key of the text.
    pub key: &'static str,
    /// What it says, with the papers' name for it.
    pub meaning: &'static str,
    /// The unit: `bytes`, `pairs`, `bits`; empty where it has none.
    pub unit: &'static str,
    /// The values that are allowed.
    pub allowed: &'static str,
    /// What holds where the key is left out; `None` where it must be given.
    pub default: Option<&'static str>,
}

/// A key that stands for all parameters, with the keys that may stand beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShortForm {
    /// The key: `avg`; `paper` for the settings of a paper, `paper-zhang` and the like where there are
    /// those of several.
    pub key: &'static str,
    /// The parameters that may be given with it.
    pub beside: &'static [&'static str],
    /// The values that are allowed.
    pub allowed: &'static str,
    /// What it stands for.
    pub meaning: &'static str,
}

/// A form of a rule that differs from the one that is meant by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dialect {
    /// The keys and values that choose it.
    pub keys: &'static str,
    /// What is different, and whose it is.
    pub meaning: &'static str,
}

/// What an algorithm does with [`KeyMaterial`](crate::KeyMaterial), which says how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyUse {
    /// Nothing: the cut-points say nothing of the bytes, and are those without a key.
    None,
    /// It is refused: the cut-points depend on the bytes in a way that no key can change.
    Refused,
    /// The rule sees each byte value as another one, by a secret permutation.
    Permutation,
    /// The rule's table is replaced by a secret one.
    Table,
    /// The rule is a hash and a cipher, whose keys it is.
    Cipher,
}

impl KeyUse {
    /// Returns `none`, `refused`, `permutation`, `table` or `cipher`.
    pub fn name(self) -> &'static str {
        match self {
            KeyUse::None => "none",
            KeyUse::Refused => "refused",
            KeyUse::Permutation => "permutation",
            KeyUse::Table => "table",
            KeyUse::Cipher => "cipher",
        }
    }
}

impl Parameter {
    pub(crate) const fn new(
        key: &'static str,
        unit: &'static str,
        allowed: &'static str,
        meaning: &'static str,
    ) -> Parameter {
        Parameter { key, meaning, unit, allowed, default: None }
    }

    /// The same, which may be left out.
    pub(crate) const fn or(self, default: &'static str) -> Parameter {
        Parameter { default: Some(default), ..self }
    }
}

impl ShortForm {
    pub(crate) const fn new(
        key: &'static str,
        beside: &'static [&'static str],
        allowed: &'static str,
        meaning: &'static str,
    ) -> ShortForm {
        ShortForm { key, beside, allowed, meaning }
    }
}

impl Dialect {
    pub(crate) const fn new(keys: &'static str, meaning: &'static str) -> Dialect {
        Dialect { keys, meaning }
    }
}
