//! What is at the other end of the wire: the load generator and the sink that takes the answers.
//!
//! - `arrivals`: when packets leave; `sizes`: how long they are; `frames`: what they look like; `generator`: all together.
//! - `sink`: recognises answers and measures latency.

mod arrivals;
mod frames;
mod generator;
mod sink;
mod sizes;

pub use arrivals::Arrivals;
pub use frames::{Packet, Traffic, PROBE_BYTES};
pub use generator::{Generator, Load, ID_BITS};
pub use sink::{Answer, Sink};
pub use sizes::Sizes;

/// Bytes of the frame check sequence, which frames in memory lack.
pub const FCS: u32 = 4;
