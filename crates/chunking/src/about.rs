//! Descriptions of the algorithms, as data for help texts and for parsing.

/// The description of an algorithm. [`algorithms`](crate::algorithms) returns all of them.
///
/// The texts are plain English in ASCII. Only [`About::rule`] contains line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct About {
    /// The name, the part of a [`Spec`](crate::Spec) before the colon.
    pub name: &'static str,
    /// A title of a few words.
    pub title: &'static str,
    /// The rule in a paragraph.
    pub rule: &'static str,
    /// The origin of the rule: author, paper, section, number of the algorithm.
    pub source: &'static str,
    /// The differences from the source or from public code, and their reasons; empty if there are
    /// none.
    pub differences: &'static str,
    /// The strengths.
    pub good_at: &'static str,
    /// The weaknesses, and the data that defeats the rule.
    pub bad_at: &'static str,
    /// The use of key material.
    pub key: KeyUse,
    /// The parameters of the written-out form, in the order in which they are written.
    pub parameters: &'static [Parameter],
    /// The short forms that may stand in place of all parameters.
    pub short_forms: &'static [ShortForm],
    /// Other forms of the rule that go by the same name; empty if there are none.
    pub dialects: &'static [Dialect],
}

/// A parameter of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameter {
    /// The key in the text.
    pub key: &'static str,
    /// The meaning, with the name that the papers use.
    pub meaning: &'static str,
    /// The unit: `bytes`, `pairs`, `bits`; empty if there is none.
    pub unit: &'static str,
    /// The allowed values.
    pub allowed: &'static str,
    /// The value if the key is left out; `None` if the key is required.
    pub default: Option<&'static str>,
}

/// A key that stands for all parameters, with the keys that may accompany it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShortForm {
    /// The key: `avg`; `paper` for the settings of a paper, or `paper-zhang` and the like if
    /// several papers have settings.
    pub key: &'static str,
    /// The parameters that may accompany it.
    pub beside: &'static [&'static str],
    /// The allowed values.
    pub allowed: &'static str,
    /// The meaning.
    pub meaning: &'static str,
    /// The text to write instead if this key is given with others that may not accompany it; empty
    /// if there is none.
    pub instead: &'static str,
}

/// A form of a rule that differs from the default one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dialect {
    /// The keys and values that select this form.
    pub keys: &'static str,
    /// The difference, and the origin of this form.
    pub meaning: &'static str,
}

/// The use that an algorithm makes of [`KeyMaterial`](crate::KeyMaterial), which defines each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyUse {
    /// The key is ignored: the cut-points reveal nothing of the bytes, and are the same without a
    /// key.
    None,
    /// A key is refused: the cut-points depend on the bytes in a way that no key can change.
    Refused,
    /// A secret permutation replaces each byte value before the rule sees it.
    Permutation,
    /// A secret table replaces the rule's table.
    Table,
    /// The rule consists of a hash and a cipher, which take the key material as their keys.
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

    /// Adds a default value, which makes the parameter optional.
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
        ShortForm { key, beside, allowed, meaning, instead: "" }
    }

    /// Adds the text to write instead.
    pub(crate) const fn instead(self, instead: &'static str) -> ShortForm {
        ShortForm { instead, ..self }
    }
}

impl Dialect {
    pub(crate) const fn new(keys: &'static str, meaning: &'static str) -> Dialect {
        Dialect { keys, meaning }
    }
}
