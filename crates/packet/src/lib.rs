//! The packet-level engine: no guest. Each core runs a poll loop whose cost is data; cores' memory accesses, caches, DRAM, I/O
//! path, devices, wire, books and results are those of every engine.
//!
//! - `cost`: what software costs; `cpu`: a core that pays it; `window`: its time, and loads that it does not wait for; `memory`:
//!   bytes of the host; `pool`: packet buffers.
//! - `driver`: what a poll-mode driver does with a device's rings; `poll`: the loop of a core; `engine`: whose turn it is.
//!
//! Left out: instructions (a model's cycles stand for them), address translation, interrupts, everything that a program does
//! beside its loop.
#![forbid(unsafe_code)]

mod cost;
mod cpu;
mod driver;
mod engine;
mod memory;
mod poll;
mod pool;
mod window;

pub use cost::{CostModel, Costs, Mode, OnFull, Payload, Policy, Touches};
pub use engine::run;
