//! What is wrong with a capture file, and where.

use crate::link::UnknownLink;

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum Damage {
    #[error("the file is empty")]
    Empty,
    #[error("the file cannot be read")]
    Unreadable,
    #[error("the file ends inside its header")]
    EndsInHeader,
    #[error("this is neither pcap nor pcapng")]
    NoCapture,
    #[error("the file ends inside it")]
    EndsInside,
    #[error("its length is impossible: the file is damaged")]
    Length,
    #[error("the file is damaged")]
    Damaged,
    #[error("resolution {0} of its time stamps")]
    Resolution(u8),
    #[error(transparent)]
    Link(#[from] UnknownLink),
    #[error("interface {0} is not described: the file is damaged")]
    Interface(usize),
    #[error("{0} B are too few, or no packet of its link type")]
    TooShort(usize),
    #[error("{bytes} B with FCS are more than the {most} B of the longest frame")]
    TooLong { bytes: usize, most: usize },
}

impl Damage {
    /// Whether reading can go on behind it.
    #[must_use]
    pub fn harmless(&self) -> bool {
        matches!(self, Self::TooShort(_) | Self::TooLong { .. })
    }
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packet {packet} at byte {offset}: {what}")]
pub struct Problem {
    /// The packet at or before which it is, from 1.
    pub packet: u64,
    /// Where that starts in the file.
    pub offset: u64,
    /// What.
    pub what: Damage,
}
