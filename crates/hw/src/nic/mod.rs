//! The network interface: function (registers, descriptors, bytes) and timing (FIFOs, descriptor caches, DMA) apart.
//!
//! - `e1000`: the register interface and descriptor formats of the 82540EM.
//! - `receive`, `transmit`: the two paths, as resources and queues; `ring`: what both see of a descriptor ring.
//! - `moderation`: when causes become interrupts.
//! - `ledger`: what became of every packet, by code that shares nothing with the paths.
//! - `port`: one NIC on its link, with the generator and the sink at the other end.

pub mod e1000;
mod ledger;
mod moderation;
mod port;
mod receive;
mod ring;
mod transmit;

pub use ledger::{Counts, Fate, Ledger};
pub use port::{Lateness, Phase, Port, PortStats};
pub use receive::ReceiveStats;
pub use transmit::TransmitStats;
