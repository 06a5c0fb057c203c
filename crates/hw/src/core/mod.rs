//! Core models: micro-operations in, time out.
//!
//! - `uop`: what a core knows of an instruction.
//! - `pipeline`: fetch, dispatch, issue, commit; `access`: loads, stores, devices.
//! - `timing`, `ports`: units and issue; `branch`: prediction; `tlb`: address translation.
//! - `stall`: where cycles go.

mod access;
mod branch;
mod pipeline;
mod ports;
mod stall;
mod timing;
mod tlb;
mod uop;

pub use access::{DeviceAccess, MemEvent, MemKind};
pub use pipeline::{BlockRef, Core, CoreStats};
pub use stall::StallStats;
pub use tlb::{Flat, TlbStats, Walk, Walker};
pub use uop::{Branch, Class, MicroOp, Order, Quick, Reg, CLASSES, REG_COUNT, REG_FLAGS, REG_VECTOR};
