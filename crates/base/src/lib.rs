//! What every model is made of: time, clocks, events, calendars, statistics and quantities with units.
//!
//! Knows no model, no QEMU, no files and no threads.
#![forbid(unsafe_code)]

pub mod calendar;
pub mod clock;
pub mod events;
pub mod quantity;
mod sorted;
pub mod stats;
pub mod window;

pub use calendar::Calendar;
pub use clock::Clock;
pub use events::EventQueue;
pub use quantity::{BitRate, Bytes, Duration, Frequency, QuantityError};
pub use sorted::Sorted;
pub use window::{Return, Window};

/// A point in simulated time, in picoseconds since power-on.
///
/// 64 bits hold 213 days. Arithmetic is plain `u64`: a point minus a point is a span in picoseconds.
pub type Ps = u64;

/// Picoseconds in a nanosecond.
pub const PS_PER_NS: Ps = 1_000;
/// Picoseconds in a second.
pub const PS_PER_S: Ps = 1_000_000_000_000;
