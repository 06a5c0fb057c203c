//! The network interface: function (registers, descriptors, bytes) and timing (FIFOs, descriptor caches, DMA) apart.
//!
//! - `controller`: what the pipeline asks of a register interface; `e1000`, `ixgbe`: two of them; `model`: one of the two.
//! - `counters`: statistics registers that both have; `descriptors`, `offload`, `checks`, `toeplitz`: the function: formats, checksums, segmentation, steering.
//! - `receive`, `transmit`: the two paths, as resources and queues; `ring`: what both see of a descriptor ring; `engine`:
//!   DMA transfers under way; `moderation`: when causes become interrupts.
//! - `loopback`: a bench without a guest.
//! - `port`: one NIC on its link, with the generator and the sink at the other end; `shared`: what several ports share.
//! - `ledger`, `drops`, `journeys`, `driver`, `trace`: what became of every packet, why, when, and what software did, by
//!   code that shares nothing with the paths.

mod checks;
mod controller;
mod counters;
mod descriptors;
mod driver;
mod drops;
pub mod e1000;
mod engine;
pub mod ixgbe;
mod journeys;
mod ledger;
pub mod loopback;
mod model;
mod moderation;
mod offload;
mod port;
mod receive;
mod ring;
mod shared;
mod toeplitz;
mod trace;
mod transmit;

pub use checks::check as check_frame;
pub use controller::{Controller, LocalPages, SharedRegisters, Side};
pub use driver::DriverStats;
pub use drops::{DropClasses, State as DropState};
pub use journeys::Hop;

pub use ledger::{Counts, Fate, Ledger, Which};
pub use model::{identity, shared_pages, Model};
pub use port::{Lateness, Phase, Port, PortStats, QueueStats};
pub use receive::{ReceiveStats, RxQueueStats};
pub use shared::{FlowCounts, Shared, FLOWS_TOLD};
pub use trace::Record;
pub use transmit::{TransmitStats, TxQueueStats};
