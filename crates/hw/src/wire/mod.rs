//! What is at the other end of the wire: the load generator and the sink that takes the answers.
//!
//! - `pace` (`arrivals`, `clients`), `line`: when packets leave; `sizes`: how long they are; `flows`, `frames`: what they look like;
//!   `replay`: packets of a trace; `key_value`: requests to a key-value store;
//!   `iperf`, `stack`: an iperf3 client on a TCP of its own;
//!   `answers`: answers to the host's questions; `load`: all that as data.
//! - `ends`: who is at the far end, each of these or another host, behind one trait; `cable`: the way from there, with its
//!   frames one after the other.
//! - `sink`: recognises answers; `latencies`: how long they took. `tap`: what passes on the wire, for a capture file.

mod answers;
mod arrivals;
mod cable;
mod clients;
mod ends;
mod far;
mod flows;
mod frames;
mod iperf;
mod key_value;
mod latencies;
mod line;
mod load;
mod pace;
mod replay;
mod sink;
mod sizes;
mod stack;
mod tap;

pub use arrivals::Arrivals;
pub use cable::{Cable, ANSWER, ID_BITS};
pub use clients::ClosedLoop;
pub use ends::{End, Ends};
pub use far::{FarStats, Timed};
pub use flows::{Flows, Spread, Vary};
pub use frames::{Internet, Kind, Packet, Traffic, ETHERNET, PEER, PROBE_BYTES};
pub use iperf::{IperfLoad, IperfReport};
pub use key_value::{StoreLoad, StoreStats};
pub use latencies::Latencies;
pub use load::Load;
pub use replay::{Block, Play, Replay, Source, TraceClock};
pub use sink::{Recognition, Sink};
pub use sizes::Sizes;
pub use tap::{Passage, Seen, Tap};

/// Bytes of the frame check sequence, which frames in memory lack.
pub const FCS: u32 = 4;
/// Bytes of the longest frame, FCS included.
pub const FRAME_MAX: u32 = *sizes::LENGTHS.end();
/// Bytes of the shortest frame, FCS included.
pub const FRAME_MIN: u32 = *sizes::LENGTHS.start();
