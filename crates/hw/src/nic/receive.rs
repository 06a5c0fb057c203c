//! The receive path: FIFO in bytes, descriptor cache, one payload on the link at a time, write-back of descriptors.
//!
//! Left out: cut-through (a frame is stored before its DMA starts), header split, several queues.

use super::e1000::descriptors::{rx_buffer, RxWriteBack, RX_DD, RX_EOP, RX_IXSM, SIZE};
use crate::params;
use std::collections::VecDeque;
use wiretime_base::{stats, Ps};

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
        fifo_peak: "B", "highest fill of the FIFO";
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
    /// Descriptors held: index and buffer.
    pub cache: VecDeque<(u32, u64)>,
    cache_size: usize,
    prefetch_below: usize,
    /// Next descriptor to fetch; the next to write back is `head`.
    pub fetch: u32,
    pub head: u32,
    pub tail: u32,
    pub fetching: u32,
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
    /// Counts device resets, so that events of an earlier life are ignored.
    pub epoch: u32,
    pub stats: ReceiveStats,
}

impl Receive {
    pub fn new(p: &params::Nic) -> Self {
        Self {
            fifo: VecDeque::with_capacity(1 << 14),
            fifo_used: 0,
            fifo_size: p.rx_fifo.bytes(),
            cache: VecDeque::with_capacity(p.descriptor_cache as usize),
            cache_size: p.descriptor_cache as usize,
            prefetch_below: p.descriptor_prefetch as usize,
            fetch: 0,
            head: 0,
            tail: 0,
            fetching: 0,
            sending: false,
            in_flight: VecDeque::with_capacity(64),
            parts: VecDeque::with_capacity(64),
            pending: Vec::with_capacity(64),
            write_back_at: p.descriptor_write_back as usize,
            cause: None,
            starved: false,
            epoch: 0,
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
        self.cache.clear();
        self.pending.clear();
        self.in_flight.clear();
        self.parts.clear();
        self.fetch = 0;
        self.head = 0;
        self.tail = 0;
        self.fetching = 0;
        self.sending = false;
        self.epoch = self.epoch.wrapping_add(1);
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

    /// Descriptors that the host has posted and the NIC has not fetched.
    pub fn unfetched(&self, entries: u32) -> u32 {
        if entries == 0 {
            0
        } else {
            (self.tail % entries + entries - self.fetch % entries) % entries
        }
    }

    /// How many descriptors to fetch now, in one read (the ring's end cuts it).
    pub fn want(&self, entries: u32) -> u32 {
        if self.fetching > 0 || self.cache.len() >= self.prefetch_below || entries == 0 {
            return 0;
        }
        let room = (self.cache_size - self.cache.len()) as u32;
        self.unfetched(entries).min(room).min(entries - self.fetch % entries)
    }

    /// Takes descriptors that have arrived.
    pub fn take(&mut self, index: u32, bytes: &[[u8; SIZE as usize]]) {
        for (i, d) in bytes.iter().enumerate() {
            self.cache.push_back((index + i as u32, rx_buffer(d)));
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
        let idle = self.in_flight.is_empty() && (self.fifo.is_empty() || self.cache.is_empty());
        self.pending.len() >= self.write_back_at || idle
    }
}

/// When the receive path may start on a frame: its processing is pipelined, so it delays but does not occupy.
pub fn start(arrived: Ps, latency: Ps) -> Ps {
    arrived + latency
}
