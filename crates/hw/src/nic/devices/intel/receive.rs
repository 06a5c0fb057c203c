//! The receive path: a FIFO in bytes for all queues; for each queue a descriptor cache and descriptors to write back.
//!
//! One payload is on the link at a time, in the order of the FIFO: a queue without descriptors holds up the others, unless
//! it drops (82599 data sheet, section 7.1.9). Left out: cut-through (a frame is stored before its DMA starts), header
//! split, packet buffers by traffic class.

use super::controller::{Completion, Steering};
use crate::nic::blocks::completion::Completions;
use crate::nic::blocks::fetcher::Fetcher;
use crate::nic::blocks::fifo::ByteFifo;
use crate::nic::device::Effects;
use crate::nic::notice::Notice;
use crate::nic::stats::{ReceiveStats, RxQueueStats};
use crate::params;
use crate::wire::Packet;
use std::collections::VecDeque;
use wiretime_base::Ps;

/// A frame in the FIFO.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    pub packet: Packet,
    pub steering: Steering,
    pub destination: [u8; 6],
    /// The VLAN tag that is taken off it.
    pub vlan: Option<u16>,
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
    pub ring: Fetcher<u64>,
    /// Filled buffers that go back together.
    pub completions: Completions<Filled>,
    /// Frames of this queue in the FIFO, and on the link or in the pipeline.
    pub queued: u32,
    pub in_flight: u32,
    /// A frame has waited for want of descriptors since the FIFO was last below half (by its number): the ring is the
    /// bottleneck, even while the few descriptors that a slow core has just posted are used up.
    pub starved: Option<u32>,
    /// Few descriptors were left at the last write-back.
    pub few: bool,
    pub stats: RxQueueStats,
}

impl RxQueue {
    fn new(p: &params::Nic) -> Self {
        Self {
            ring: Fetcher::new(p.descriptor_cache, p.descriptor_prefetch),
            completions: Completions::default(),
            queued: 0,
            in_flight: 0,
            starved: None,
            few: false,
            stats: RxQueueStats::default(),
        }
    }

    /// The queue goes off: its descriptors are given up.
    pub fn disable(&mut self) {
        self.ring.reset();
        self.completions.clear();
        self.in_flight = 0;
        self.starved = None;
    }
}

/// The receive path.
pub struct Receive {
    pub fifo: ByteFifo<Stored>,
    pub queues: Vec<RxQueue>,
    /// A payload has the link.
    pub sending: bool,
    /// Frames on the link or in the pipeline, each for a life of its queue.
    pub in_flight: VecDeque<(Stored, u32)>,
    /// Their buffers, in order: address and length, and whether it is its frame's last.
    pub parts: VecDeque<Filled>,
    /// How often it was reset: what is under way of an earlier life is void.
    pub life: u32,
    pub write_back_at: u32,
    pub write_back_timer: Ps,
    pub counted: ReceiveStats,
}

impl Receive {
    pub fn new(p: &params::Nic, queues: usize) -> Self {
        Self {
            fifo: ByteFifo::new(p.rx_fifo.bytes()),
            queues: (0..queues).map(|_| RxQueue::new(p)).collect(),
            sending: false,
            in_flight: VecDeque::with_capacity(64),
            parts: VecDeque::with_capacity(64),
            life: 0,
            write_back_at: p.descriptor_write_back,
            write_back_timer: p.descriptor_write_back_timer.ps(),
            counted: ReceiveStats::default(),
        }
    }

    /// Forgets rings and FIFO.
    pub fn reset<E: Copy + wiretime_base::events::Event>(&mut self, fx: &mut Effects<'_, E>) {
        let t = fx.now;
        if self.fifo.clear(t) {
            fx.tell(t, Notice::Drained);
        }
        self.life = self.life.wrapping_add(1);
        for (queue, q) in (0..).zip(&mut self.queues) {
            q.disable();
            q.queued = 0;
            fx.tell(t, Notice::Restarted { queue, entry: 0 });
        }
        self.in_flight.clear();
        self.parts.clear();
        self.sending = false;
    }

    /// Whether the queue has waited for descriptors lately.
    pub fn starved(&self, queue: u16) -> bool {
        self.queues[usize::from(queue)].starved == Some(self.fifo.drains())
    }

    /// What was counted, and the FIFO's fill.
    pub fn stats(&self) -> ReceiveStats {
        let f = &self.fifo;
        ReceiveStats { fifo_peak: f.peak, fifo_level: f.level, fifo_level_ps: f.level_ps, ..self.counted.clone() }
    }

    /// Whether no further frame of a queue can follow at once.
    pub fn idle(&self, queue: u16) -> bool {
        let q = &self.queues[usize::from(queue)];
        q.in_flight == 0 && (q.queued == 0 || q.ring.held.is_empty() || !self.sending)
    }
}
