//! Capture files: traces in (pcap and pcapng, streamed), the simulated wire out (pcapng).
//!
//! Parsing and block formats are `pcap-parser`'s. Here is what a traffic generator needs beyond: frames for Ethernet out of
//! other link types (`link`), time in picoseconds, errors that name packet and offset (`reader`), a whole trace at a glance and
//! as a source of packets (`trace`), and files of what passed (`writer`).

mod link;
mod problem;
mod reader;
mod trace;
mod writer;

pub use link::UnknownLink;
pub use problem::{Damage, Problem};
pub use reader::Reader;
pub use trace::{summary, Summary, Trace};
pub use writer::Writer;
