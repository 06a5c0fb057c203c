//! Transmit descriptors as the path understands them, whatever their format in memory.

use super::controller::DESCRIPTOR;
use crate::nic::blocks::offload::{Context, Wants};

/// What a data descriptor says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Where the bytes are.
    pub buffer: u64,
    /// How many.
    pub length: u32,
    /// End of packet.
    pub eop: bool,
    /// What is to be done to its packet, where it is the first of it.
    pub wants: Wants,
    /// Which of the queue's two contexts applies.
    pub slot: u8,
}

/// A transmit descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tx {
    /// Sets one of the queue's two contexts.
    Context(Context, u8),
    /// Carries bytes.
    Data(Data),
}

/// A transmit descriptor as fetched: what it says, and whether it wants its status written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxDescriptor {
    /// What it says.
    pub kind: Tx,
    /// Report status (RS).
    pub report: bool,
    /// The interrupt may wait for the transmit timers (IDE).
    pub delay: bool,
    /// Second half, for the write-back.
    pub upper: u64,
}

impl TxDescriptor {
    /// The second half with DD set: what the NIC writes back. Both formats have it in the same place.
    #[must_use]
    pub fn done(&self) -> [u8; 8] {
        (self.upper | 1 << 32).to_le_bytes()
    }
}

/// The little-endian word at `at`.
pub(crate) fn word(d: &[u8], at: usize) -> u32 {
    d.get(at..at + 4).map_or(0, |w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
}

/// The little-endian half word at `at`.
pub(crate) fn half(d: &[u8], at: usize) -> u16 {
    d.get(at..at + 2).map_or(0, |w| u16::from_le_bytes([w[0], w[1]]))
}

/// The first eight bytes: a buffer's address in every format.
pub(crate) fn buffer(d: &[u8]) -> u64 {
    u64::from(word(d, 0)) | u64::from(word(d, 4)) << 32
}

/// A descriptor's bytes, of whatever length they come.
pub(crate) fn whole(d: &[u8]) -> [u8; DESCRIPTOR as usize] {
    let mut bytes = [0; DESCRIPTOR as usize];
    let n = d.len().min(bytes.len());
    bytes[..n].copy_from_slice(&d[..n]);
    bytes
}
