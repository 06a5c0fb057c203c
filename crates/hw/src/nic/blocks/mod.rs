//! What NICs are made of. Each block is alone testable and knows no register, no format and no other block.
//!
//! - `fifo`: frames in bytes. `fetcher`: descriptors into the device. `completion`: entries back to memory, coalesced.
//! - `dma_engine`: transfers under way; `requester`: the interface that they are asked for by. `round_robin`: whose turn it is. `moderation`: when causes become interrupts.
//! - `checks`, `offload`, `toeplitz`, `vlan`: the function: what is in a frame, checksums and segmentation, hashes, tags.

pub mod checks;
pub mod completion;
pub mod dma_engine;
pub mod fetcher;
pub mod fifo;
pub mod messages;
pub mod moderation;
pub mod offload;
pub mod requester;
pub mod round_robin;
pub mod toeplitz;
pub mod vlan;

/// A ring in host memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingView {
    /// Whether its queue is on, and its direction.
    pub enabled: bool,
    /// Address of the first entry.
    pub base: u64,
    /// Number of entries.
    pub entries: u32,
    /// Bytes of an entry.
    pub size: u32,
}

impl RingView {
    /// Address of an entry.
    #[must_use]
    pub fn at(&self, entry: u32) -> u64 {
        self.base.wrapping_add(u64::from(entry) * u64::from(self.size))
    }

    /// One past its last byte, where that is an address.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        self.base.checked_add(u64::from(self.entries) * u64::from(self.size))
    }
}
