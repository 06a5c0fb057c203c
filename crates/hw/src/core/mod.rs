//! Core models: micro-operations in, time out.
//!
//! - `uop`: what a core knows of an instruction.
//! - `pipeline`: dispatch, issue, commit of each instruction; `frontend`: fetch and redirects, `ahead` and `mop_cache` in it; `dispatch`: where it waits, `limits`: what of a kind it sends off a cycle;
//!   `fusion`: pairs that are one.
//! - `access`: loads, stores, devices; `forwarding`: which stores of the queue loads find; `dependences`: which loads wait for older
//!   stores.
//! - `timing`, `ports`, `entries`: units, issue, queues; `branch`: prediction; `tlb`: address translation.
//! - `stall`: where cycles go; `stages`: when each instruction was where; `charges`: what each cost.
//! - `standing`: where a core stands, and turns of a loop that need not be taken.

mod access;
mod ahead;
mod branch;
mod charges;
mod dependences;
mod dispatch;
mod entries;
mod forwarding;
mod frontend;
mod fusion;
mod limits;
mod mop_cache;
mod pipeline;
mod ports;
mod position;
mod stages;
mod stall;
mod standing;
mod timing;
mod tlb;
mod uop;

pub use access::{DeviceAccess, MemEvent, MemKind};
pub use charges::Charges;
pub use pipeline::{BlockRef, Core, CoreStats};
pub use stages::{StageTrace, Stages};
pub use stall::StallStats;
pub use standing::{Standing, Turn};
pub use tlb::{Flat, TlbStats, Walk, Walker};
pub use uop::{Branch, Class, MicroOp, Order, Quick, Reg, Split, CLASSES, REG_COUNT, REG_FLAGS, REG_VECTOR};
