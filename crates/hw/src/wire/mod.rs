//! What is at the other end of the wire: the load generator and the sink that takes the answers.

mod generator;
mod sink;

pub use generator::{Generator, Traffic, PROBE_BYTES};
pub use sink::{Answer, Sink};

/// Bytes of the frame check sequence, which frames in memory lack.
pub const FCS: u32 = 4;
