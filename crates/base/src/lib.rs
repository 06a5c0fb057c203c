//! What every model is made of: time, clocks, events, calendars, statistics and quantities with units.
//!
//! Knows no model, no QEMU, no files and no threads.
#![forbid(unsafe_code)]

pub mod calendar;
pub mod clock;
pub mod events;
mod invalid;
pub mod quantity;
mod sorted;
pub mod stats;
pub mod time;
pub mod window;

pub use calendar::Calendar;
pub use clock::Clock;
pub use events::EventQueue;
pub use invalid::Invalid;
pub use quantity::{BitRate, Bytes, Duration, Frequency, QuantityError};
pub use sorted::Sorted;
pub use time::{Cycles, Ps, Time};
pub use window::{Return, Window};
