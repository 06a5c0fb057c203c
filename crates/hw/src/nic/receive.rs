//! The receive path: a FIFO in bytes for all queues; for each queue a descriptor cache and descriptors to write back.
//!
//! One payload is on the link at a time, in the order of the FIFO: a queue without descriptors holds up the others, unless
//! it drops (82599 data sheet, section 7.1.9). Left out: cut-through (a frame is stored before its DMA starts), header
//! split, packet buffers by traffic class.

use super::controller::{Completion, Steering};
use super::driver::Driver;
use super::drops::{DropClasses, Drops};
use super::ledger::QueueCounters;
use super::ring::DescriptorRing;
use crate::params;
use crate::wire::Packet;
use std::collections::VecDeque;
use wiretime_base::{stats, Ps};

stats! {
    /// What the receive path of a port did.
    pub struct ReceiveStats {
        frames: "frames", "frames that reached the NIC";
        filtered: "frames", "frames not taken by the filters";
        refused: "frames", "frames refused because the FIFO was full (rx_missed)";
        out_of_buffer: "frames", "frames refused or dropped for want of receive descriptors (rx_out_of_buffer)";
        delivered: "frames", "frames written to memory";
        descriptor_fetches: "reads", "reads of descriptors";
        descriptors_fetched: "descriptors", "descriptors read";
        write_backs: "writes", "writes of descriptors";
        fifo_peak: "B" gauge, "highest fill of the FIFO";
        fifo_level: "B" gauge, "fill of the FIFO at the end";
        fifo_level_ps: "B ps", "fill of the FIFO, added up over time";
        buffer_faults: "buffers", "buffers or descriptors outside memory";
    }
}

stats! {
    /// What happened to the packets of a receive queue.
    pub struct RxQueueStats {
        delivered: "frames", "frames written to memory";
        dma_drops: "frames", "frames refused: DMA or memory too slow";
        core_drops: "frames", "frames refused: core too slow";
        tx_drops: "frames", "frames refused: transmit ring full";
        no_descriptor: "frames", "of these, dropped from the FIFO because the queue drops when it has no descriptors";
        write_backs: "writes", "writes of descriptors";
        free: "descriptors" gauge, "descriptors posted and not filled, at the end";
        waiting: "descriptors" gauge, "descriptors filled and not yet read by a core, at the end";
    }
}

/// A frame in the FIFO.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    pub packet: Packet,
    pub steering: Steering,
    pub destination: [u8; 6],
}

/// A filled buffer on its way to its descriptor's write-back.
#[derive(Clone, Copy, Debug)]
pub struct Filled {
    pub completion: Completion,
    pub packet: u64,
}

/// A queue.
pub struct RxQueue {
    /// The ring; a descriptor is its buffer's address.
    pub ring: DescriptorRing<u64>,
    /// Filled buffers that go back together.
    pub pending: Vec<Filled>,
    /// A timer runs for them.
    pub timer: bool,
    /// Frames of this queue in the FIFO, and on the link or in the pipeline.
    pub queued: u32,
    pub in_flight: u32,
    /// A frame has waited for want of descriptors since the FIFO was last below half: the ring is the bottleneck, even
    /// while the few descriptors that a slow core has just posted are used up.
    pub starved: bool,
    pub driver: Driver,
    pub stats: RxQueueStats,
}

impl RxQueue {
    fn new(p: &params::Nic) -> Self {
        Self {
            ring: DescriptorRing::new(p),
            pending: Vec::with_capacity(64),
            timer: false,
            queued: 0,
            in_flight: 0,
            starved: false,
            driver: Driver::new(),
            stats: RxQueueStats::default(),
        }
    }

    /// The queue goes off: its descriptors are given up.
    pub fn disable(&mut self) {
        self.ring.reset();
        self.driver.reset(0);
        self.pending.clear();
        self.timer = false;
        self.in_flight = 0;
        self.starved = false;
    }

    /// What the ledger balances against.
    pub fn counters(&self) -> QueueCounters {
        let s = &self.stats;
        QueueCounters { dma_drops: s.dma_drops, core_drops: s.core_drops, tx_drops: s.tx_drops, delivered: s.delivered }
    }
}

/// The receive path.
pub struct Receive {
    pub fifo: VecDeque<Stored>,
    pub fifo_used: u64,
    fifo_size: u64,
    level_since: Ps,
    pub queues: Vec<RxQueue>,
    /// A payload has the link.
    pub sending: bool,
    /// Frames on the link or in the pipeline.
    pub in_flight: VecDeque<Stored>,
    /// Their buffers, in order: address and length, and whether it is its frame's last.
    pub parts: VecDeque<Filled>,
    /// Resets so far: what is under way of an earlier life is void.
    pub life: u32,
    pub write_back_at: u32,
    pub write_back_timer: Ps,
    pub drops: Drops,
    pub stats: ReceiveStats,
}

impl Receive {
    pub fn new(p: &params::Nic, queues: usize, classes: DropClasses) -> Self {
        Self {
            fifo: VecDeque::with_capacity(1 << 14),
            fifo_used: 0,
            fifo_size: p.rx_fifo.bytes(),
            level_since: 0,
            queues: (0..queues).map(|_| RxQueue::new(p)).collect(),
            sending: false,
            in_flight: VecDeque::with_capacity(64),
            parts: VecDeque::with_capacity(64),
            life: 0,
            write_back_at: p.descriptor_write_back,
            write_back_timer: p.descriptor_write_back_timer.ps(),
            drops: Drops::new(classes),
            stats: ReceiveStats::default(),
        }
    }

    /// Forgets rings and FIFO.
    pub fn reset(&mut self, t: Ps) {
        self.level(t);
        self.fifo.clear();
        self.fifo_used = 0;
        self.life = self.life.wrapping_add(1);
        for q in &mut self.queues {
            q.disable();
            q.queued = 0;
        }
        self.in_flight.clear();
        self.parts.clear();
        self.sending = false;
        self.drops.drained();
    }

    /// Whether a frame of `length` bytes fits.
    pub fn has_room(&self, length: u32) -> bool {
        self.fifo_used + u64::from(length) <= self.fifo_size
    }

    /// Accounts for the fill up to `t`.
    pub fn level(&mut self, t: Ps) {
        let area = self.fifo_used.wrapping_mul(t.saturating_sub(self.level_since));
        self.stats.fifo_level_ps = self.stats.fifo_level_ps.wrapping_add(area);
        self.level_since = self.level_since.max(t);
        self.stats.fifo_level = self.fifo_used;
    }

    /// Stores a frame.
    pub fn store(&mut self, t: Ps, frame: Stored) {
        self.level(t);
        self.fifo_used += u64::from(frame.packet.length);
        self.stats.fifo_peak = self.stats.fifo_peak.max(self.fifo_used);
        self.queues[usize::from(frame.steering.queue)].queued += 1;
        self.fifo.push_back(frame);
    }

    /// A frame of `length` bytes has left the FIFO.
    pub fn release(&mut self, t: Ps, length: u32) {
        self.level(t);
        self.fifo_used = self.fifo_used.saturating_sub(u64::from(length));
        if self.fifo_used * 2 <= self.fifo_size {
            self.drops.drained();
            self.queues.iter_mut().for_each(|q| q.starved = false);
        }
    }

    /// Whether to write a queue's descriptors back now: `at` are done, or no further frame can follow at once.
    pub fn should_write_back(&self, queue: u16, at: u32) -> (bool, bool) {
        let q = &self.queues[usize::from(queue)];
        let idle = q.in_flight == 0 && (q.queued == 0 || q.ring.held.is_empty() || !self.sending);
        (q.pending.len() as u32 >= at, idle)
    }
}
