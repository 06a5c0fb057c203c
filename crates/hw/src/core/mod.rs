//! Core models: micro-operations in, time out.

mod branch;
mod ooo;
mod uop;

pub use ooo::{BlockRef, Core, CoreStats, DeviceAccess, MemEvent, MemKind};
pub use uop::{Branch, Class, MicroOp, Order, Reg, CLASSES, REG_COUNT, REG_FLAGS, REG_VECTOR};
