//! The transmit path: for each queue a descriptor cache and a packet being gathered; payload reads, so many at a time, the
//! queues taking turns packet by packet; one FIFO in bytes; frames onto the wire.
//!
//! Payload reads complete in order. Left out: priorities and rate limits of queues, launch times.

use super::descriptors::TxDescriptor;
use crate::nic::blocks::fetcher::Fetcher;
use crate::nic::blocks::offload::{Context, Offload};
use crate::nic::blocks::round_robin::RoundRobin;
use crate::nic::stats::{TransmitStats, TxQueueStats};
use crate::params;
use crate::wire::FCS;
use std::collections::VecDeque;

/// A queue.
pub struct TxQueue {
    pub ring: Fetcher<TxDescriptor>,
    /// The packet being gathered.
    pub packet: Vec<u8>,
    pub offload: Option<Offload>,
    pub contexts: [Context; 2],
    /// Bytes of the FIFO that payload under way has taken: all of it, of the packet whose descriptors are being begun, and
    /// of the one being gathered.
    pub occupied: u64,
    pub begun_bytes: u64,
    pub gathered_bytes: u64,
    /// The last descriptor begun was not its packet's last.
    pub open: bool,
    pub stats: TxQueueStats,
}

impl TxQueue {
    fn new(p: &params::Nic) -> Self {
        Self {
            ring: Fetcher::new(p.descriptor_cache, p.descriptor_prefetch),
            packet: Vec::with_capacity(1 << 14),
            offload: None,
            contexts: Default::default(),
            occupied: 0,
            begun_bytes: 0,
            gathered_bytes: 0,
            open: false,
            stats: TxQueueStats::default(),
        }
    }

    /// Forgets ring and packet.
    pub fn disable(&mut self) {
        self.ring.reset();
        self.packet.clear();
        self.offload = None;
        self.contexts = Default::default();
        (self.occupied, self.begun_bytes, self.gathered_bytes, self.open) = (0, 0, 0, false);
    }
}

/// A payload read under way.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub queue: u16,
    pub epoch: u32,
    pub index: u32,
    pub descriptor: TxDescriptor,
}

/// The transmit path.
pub struct Transmit {
    pub queues: Vec<TxQueue>,
    /// Queues that have anything to do.
    pub turns: RoundRobin,
    fifo_size: u64,
    pub fifo_used: u64,
    /// Payload reads under way, in order of completion.
    pub reading: VecDeque<Reading>,
    pub readers: usize,
    pub stats: TransmitStats,
}

impl Transmit {
    pub fn new(p: &params::Nic, queues: usize) -> Self {
        Self {
            queues: (0..queues).map(|_| TxQueue::new(p)).collect(),
            turns: RoundRobin::new(queues),
            fifo_size: p.tx_fifo.bytes(),
            fifo_used: 0,
            reading: VecDeque::with_capacity(64),
            readers: p.tx_packets_in_flight as usize,
            stats: TransmitStats::default(),
        }
    }

    /// Forgets everything, frames already on the wire too: nobody is told when they have left.
    pub fn reset(&mut self) {
        self.queues.iter_mut().for_each(TxQueue::disable);
        self.turns.clear();
        self.reading.clear();
        self.fifo_used = 0;
    }

    /// Whether `bytes` more of a queue's packet fit the FIFO. A packet that is larger than all of it goes when it has it to
    /// itself.
    pub fn has_room(&self, queue: u16, bytes: u64) -> bool {
        self.fifo_used <= self.queues[usize::from(queue)].begun_bytes || self.fifo_used + bytes <= self.fifo_size
    }

    /// Reserves FIFO space.
    pub fn occupy(&mut self, bytes: u64) {
        self.fifo_used += bytes;
        self.stats.fifo_peak = self.stats.fifo_peak.max(self.fifo_used);
    }

    /// A frame of so many bytes, FCS included, has left.
    pub fn left(&mut self, length: u32) {
        let bytes = u64::from(length.saturating_sub(FCS));
        self.fifo_used = self.fifo_used.saturating_sub(bytes);
        self.stats.frames += 1;
        self.stats.bytes += u64::from(length);
    }
}
