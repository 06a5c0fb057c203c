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

pub use blocks::checks::check as check_frame;
pub use books::{
    BookSettings, Books, Counts, DriverStats, DropClasses, DropState, Fate, FlowCounts, Hop, Ledger, Record, Which,
    FLOWS_TOLD,
};
pub use device::{Device, Place, Polled, Side, Store};
pub use devices::{identity, shared_pages};
pub use mac::Mac;
pub use pages::{LocalPages, SharedRegisters};
pub use port::{Lateness, Nic, Phase, Port, PortStats, QueueStats};
pub use stats::{ReceiveStats, RxQueueStats, TransmitStats, TxQueueStats};
