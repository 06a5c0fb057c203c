//! The network interface: devices over blocks, their wire, and the books of what becomes of packets.
//!
//! - `device`: what a NIC answers and acts through; `devices`: those there are; `blocks`: what they are made of.
//! - `notice`: what they tell; `books`: who listens.
//! - `port`: one NIC on its link, the event loop; `mac`: its end of the wire; `pages`: registers that are memory.
//! - `stats`: what every NIC counts. `loopback`: a bench without a guest.

pub mod blocks;
pub mod books;
pub mod device;
pub mod devices;
pub mod loopback;
mod mac;
pub mod notice;
mod pages;
mod port;
mod stats;

/// All that a device is written with.
pub mod prelude {
    pub use super::blocks::completion::{Completions, Due as WriteDue};
    pub use super::blocks::fetcher::{Fetch, Fetcher, Thresholds};
    pub use super::blocks::fifo::ByteFifo;
    pub use super::blocks::moderation::{Delays, InterruptAction, Moderation};
    pub use super::blocks::round_robin::RoundRobin;
    pub use super::blocks::RingView;
    pub use super::device::{Device, Effects, Io, Place, Polled, Rung, Store, AFTER_SENT};
    pub use super::notice::{Level, Notice, Refusal};
    pub use super::stats::{ReceiveStats, RxQueueStats, TransmitStats, TxQueueStats};
    pub use crate::memory::GuestMemory;
    pub use crate::requester::{Moves, Purpose, Side};
    pub use crate::wire::{Packet, FCS};
    pub use wiretime_base::events::Event as Ordered;
    pub use wiretime_base::Ps;
}

pub use blocks::checks::check as check_frame;
pub use blocks::dma_engine::DmaEngine;
pub use books::{
    BookSettings, Books, Counts, DriverStats, DropClasses, DropState, Fate, FlowCounts, Hop, Ledger, Record, Which,
    FLOWS_TOLD,
};
pub use device::{Device, Place, Polled, Store};
pub use devices::{identity, shared_pages};
pub use mac::Mac;
pub use pages::{DevicePages, LocalPages, SharedRegisters};
pub use port::{Lateness, Nic, Phase, Port, PortStats, QueueStats};
pub use stats::{ReceiveStats, RxQueueStats, TransmitStats, TxQueueStats};
