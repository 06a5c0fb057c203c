//! What is at the other end of the wire: the load generator and the sink that takes the answers.
//!
//! - `arrivals`: when packets leave; `frames`: what they look like; `generator`: both together.
//! - `sink`: recognises answers and measures latency.

mod arrivals;
mod frames;
mod generator;
mod sink;

pub use arrivals::Arrivals;
pub use frames::{Packet, Traffic, PROBE_BYTES};
pub use generator::{Generator, Load, ID_BITS};
pub use sink::{Answer, Sink};

/// Bytes of the frame check sequence, which frames in memory lack.
pub const FCS: u32 = 4;
