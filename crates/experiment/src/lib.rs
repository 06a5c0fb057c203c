//! Runs, whatever engine drives the machine: stages, trials, snapshots, results, the far end of the wire, the capture.
//!
//! - `settings`: what a run is told; `channel`: what it says. `stages`: from boot to the end.
//! - `snapshot`: counters; `result`: what they and the books come to; `report`: that as types, which the schema is made from.
//! - `far`: what is at the other end of the wire, where it is outside; `capture`: what passes on it, into a file.
#![forbid(unsafe_code)]

mod capture;
mod channel;
mod far;
pub mod report;
mod result;
mod settings;
mod snapshot;
mod stages;

pub use channel::Channel;
pub use settings::{FarEnd, Role, RunSettings, StartAt, Timing, Trial};
pub use snapshot::Times;
pub use stages::{Driven, Executed, Experiment, Program};
