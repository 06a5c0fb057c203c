//! What happens in a window of time, for a timeline: recorded as it is decided, nothing computed from it.

use serde::Serialize;
use wiretime_base::Ps;

/// Something with a place on the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
#[allow(missing_docs)] // names say it; times in picoseconds
pub enum What {
    /// A frame on the wire to the NIC, or back.
    Frame { id: u64, until: Ps, bytes: u32, out: bool },
    /// The NIC writes or reads memory: what, of which queue.
    Dma { write: bool, descriptors: bool, queue: u16, bytes: u64, until: Ps },
    /// Bytes in the RX FIFO.
    Fifo { bytes: u64 },
    /// Descriptors that the NIC has left to fill, and packets that software has not taken.
    RxRing { queue: u16, free: u32, waiting: u32 },
    /// Descriptors that the NIC has not sent.
    TxRing { queue: u16, posted: u32 },
    /// A packet was refused.
    Drop { id: u64, queue: u16, class: &'static str },
    /// A core took packets (0: an empty poll).
    Poll { core: u16, queue: u16, packets: u64 },
    /// A doorbell reached the NIC.
    Doorbell { queue: u16, transmit: bool },
    /// An interrupt was raised.
    Interrupt { vector: u16 },
}

/// A record: when, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    /// Picoseconds.
    pub at: Ps,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// Records of one window.
#[derive(Debug, Default)]
pub struct Tracer {
    window: std::ops::Range<Ps>,
    /// What was recorded.
    pub records: Vec<Record>,
    /// Records beyond the limit, which are lost.
    pub lost: u64,
}

/// A timeline of more would be too much for a viewer.
const LIMIT: usize = 2_000_000;

impl Tracer {
    /// Records from `window.start` on, up to its end.
    pub fn start(&mut self, window: std::ops::Range<Ps>) {
        self.window = window;
    }

    /// Whether `t` is recorded.
    #[inline]
    #[must_use]
    pub fn on(&self, t: Ps) -> bool {
        self.window.contains(&t)
    }

    /// Records, where `t` is in the window.
    #[inline]
    pub fn note(&mut self, t: Ps, what: What) {
        if self.on(t) {
            self.push(t, what);
        }
    }

    #[cold]
    fn push(&mut self, at: Ps, what: What) {
        if self.records.len() < LIMIT {
            self.records.push(Record { at, what });
        } else {
            self.lost += 1;
        }
    }
}
