//! A value that cannot be: where it is, what was found and what is allowed.

use std::fmt::Display;

/// See the module. Prints as the one line that a user gets: `llc.dca_ways is 12: at most llc.ways, 8`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {found}: {allowed}")]
pub struct Invalid {
    /// A parameter by its dotted name, or an option in words.
    pub field: String,
    /// As it was given.
    pub found: String,
    /// What it may be.
    pub allowed: String,
}

impl Invalid {
    /// Of this field.
    pub fn new(field: impl Display, found: impl Display, allowed: impl Display) -> Self {
        Self { field: field.to_string(), found: found.to_string(), allowed: allowed.to_string() }
    }
}
