//! The receive path: FIFO in bytes, descriptor cache, one payload on the link at a time, write-back of descriptors.
//!
//! Left out: cut-through (a frame is stored before its DMA starts), header split, several queues.

use super::e1000::descriptors::{RxWriteBack, RX_DD, RX_EOP, RX_IXSM};
use super::ring::Ring;
use crate::params;
use std::collections::VecDeque;
use wiretime_base::stats;

stats! {
    /// What the receive path did.
    pub struct ReceiveStats {
        frames: "frames", "frames that reached the NIC";
        filtered: "frames", "frames not taken by the filters";
        refused: "frames", "frames refused because the FIFO was full";
        delivered: "frames", "frames written to memory";
        descriptor_fetches: "reads", "reads of descriptors";
        descriptors_fetched: "descriptors", "descriptors read";
        write_backs: "writes", "writes of descriptors";
        fifo_peak: "B" gauge, "highest fill of the FIFO";
        buffer_faults: "buffers", "buffers or descriptors outside memory";
    }
}

/// A frame in the FIFO.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    pub id: u64,
    pub length: u32,
}

/// Why frames are being refused: an episode keeps its cause until the FIFO has drained to half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Dma,
    Core,
    Tx,
}

/// The receive ring and its resources.
pub struct Receive {
    pub fifo: VecDeque<Stored>,
    pub fifo_used: u64,
    fifo_size: u64,
    /// The ring; a descriptor is its buffer's address.
    pub ring: Ring<u64>,
    /// A payload has the link.
    pub sending: bool,
    /// Frames on the link or in the pipeline, with their number of buffers; the buffers, in order.
    pub in_flight: VecDeque<(Stored, usize)>,
    pub parts: VecDeque<(u64, u32)>,
    /// Written-back descriptors waiting to go together.
    pub pending: Vec<RxWriteBack>,
    write_back_at: usize,
    pub cause: Option<Cause>,
    /// A frame has waited for want of descriptors since the FIFO was last below half: the ring is the bottleneck, even
    /// while the few descriptors that a slow core has just posted are used up.
    pub starved: bool,
    pub stats: ReceiveStats,
}

impl Receive {
    pub fn new(p: &params::Nic) -> Self {
        Self {
            fifo: VecDeque::with_capacity(1 << 14),
            fifo_used: 0,
            fifo_size: p.rx_fifo.bytes(),
            ring: Ring::new(p),
            sending: false,
            in_flight: VecDeque::with_capacity(64),
            parts: VecDeque::with_capacity(64),
            pending: Vec::with_capacity(64),
            write_back_at: p.descriptor_write_back as usize,
            cause: None,
            starved: false,
            stats: ReceiveStats::default(),
        }
    }

    /// Forgets ring and FIFO.
    pub fn reset(&mut self) {
        self.fifo.clear();
        self.fifo_used = 0;
        self.disable();
        self.cause = None;
        self.starved = false;
    }

    /// The receive unit goes off: descriptors are given up.
    pub fn disable(&mut self) {
        self.ring.reset();
        self.pending.clear();
        self.in_flight.clear();
        self.parts.clear();
        self.sending = false;
    }

    /// Whether a frame of `length` bytes fits.
    pub fn has_room(&self, length: u32) -> bool {
        self.fifo_used + u64::from(length) <= self.fifo_size
    }

    /// Stores a frame.
    pub fn store(&mut self, frame: Stored) {
        self.fifo_used += u64::from(frame.length);
        self.stats.fifo_peak = self.stats.fifo_peak.max(self.fifo_used);
        self.fifo.push_back(frame);
    }

    /// A frame has left the FIFO.
    pub fn release(&mut self, length: u32) {
        self.fifo_used = self.fifo_used.saturating_sub(u64::from(length));
        if self.fifo_used * 2 <= self.fifo_size {
            self.cause = None;
            self.starved = false;
        }
    }

    /// The cause of a refusal now. `ring_full` and `tx_full`: no receive descriptors left; transmit ring full.
    pub fn refuse(&mut self, ring_full: bool, tx_full: bool) -> Cause {
        self.stats.refused += 1;
        let now = match (ring_full, tx_full) {
            (_, true) => Cause::Tx,
            (true, false) => Cause::Core,
            (false, false) => Cause::Dma,
        };
        *self.cause.get_or_insert(now)
    }

    /// Notes the write-back of a buffer.
    pub fn complete(&mut self, buffer: u64, length: u32, last: bool) {
        let status = RX_DD | if last { RX_EOP | RX_IXSM } else { 0 };
        self.pending.push(RxWriteBack { buffer, length: length as u16, status });
    }

    /// Whether to write descriptors back now: enough are done, or no further frame can follow at once.
    pub fn should_write_back(&self) -> bool {
        let idle = self.in_flight.is_empty() && (self.fifo.is_empty() || self.ring.held.is_empty());
        self.pending.len() >= self.write_back_at || idle
    }
}
