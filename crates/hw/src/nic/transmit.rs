//! The transmit path: for each queue a descriptor cache and a packet being gathered; payload reads, so many at a time, the
//! queues taking turns packet by packet; one FIFO in bytes; frames onto the wire.
//!
//! Payload reads complete in order. Left out: priorities and rate limits of queues, launch times.

use super::descriptors::{Context, TxDescriptor};
use super::offload::Offload;
use super::ring::DescriptorRing;
use crate::params;
use std::collections::VecDeque;
use wiretime_base::{stats, Ps};

stats! {
    /// What the transmit path of a port did.
    pub struct TransmitStats {
        frames: "frames", "frames sent on the wire";
        bytes: "B", "bytes of frames sent, FCS included";
        descriptor_fetches: "reads", "reads of descriptors";
        descriptors_fetched: "descriptors", "descriptors read";
        write_backs: "writes", "descriptors written back as done";
        bad_packets: "packets", "packets whose descriptors make no sense, dropped";
        buffer_faults: "buffers", "buffers or descriptors outside memory";
        fifo_peak: "B" gauge, "highest fill of the FIFO";
    }
}

stats! {
    /// What a transmit queue did.
    pub struct TxQueueStats {
        packets: "packets", "packets gathered";
        write_backs: "writes", "descriptors written back as done";
        level: "descriptors" gauge, "descriptors posted and not sent, at the end";
    }
}

/// Reports whose descriptors are free before a full ring counts as full no more.
const REPORTS_FREE: u32 = 4;

/// A frame on its way out.
#[derive(Debug)]
pub struct Outgoing {
    pub bytes: Vec<u8>,
    pub queue: u16,
    /// The packet that its buffer carried, for the ledger.
    pub carries: Option<u64>,
}

/// A queue.
pub struct TxQueue {
    pub ring: DescriptorRing<TxDescriptor>,
    /// The packet being gathered.
    pub packet: Vec<u8>,
    pub offload: Option<Offload>,
    pub carries: Option<u64>,
    pub contexts: [Context; 2],
    /// Bytes of the FIFO that payload under way has taken: all of it, of the packet whose descriptors are being begun, and
    /// of the one being gathered.
    pub occupied: u64,
    pub begun_bytes: u64,
    pub gathered_bytes: u64,
    /// Descriptors between the last two status reports: how many at once become free.
    pub report_interval: u32,
    pub since_report: u32,
    full: bool,
    /// When descriptors were posted: their count since the start, and the time. And how many have been begun.
    pub posted: VecDeque<(u64, Ps)>,
    pub posted_count: u64,
    pub begun_count: u64,
    pub stats: TxQueueStats,
}

impl TxQueue {
    fn new(p: &params::Nic) -> Self {
        Self {
            ring: DescriptorRing::new(p),
            packet: Vec::with_capacity(1 << 14),
            offload: None,
            carries: None,
            contexts: Default::default(),
            occupied: 0,
            begun_bytes: 0,
            gathered_bytes: 0,
            report_interval: 1,
            since_report: 0,
            full: false,
            posted: VecDeque::with_capacity(256),
            posted_count: 0,
            begun_count: 0,
            stats: TxQueueStats::default(),
        }
    }

    /// Forgets ring and packet.
    pub fn disable(&mut self) {
        self.ring.reset();
        self.packet.clear();
        self.offload = None;
        self.carries = None;
        self.contexts = Default::default();
        (self.occupied, self.begun_bytes, self.gathered_bytes) = (0, 0, 0);
        (self.full, self.report_interval, self.since_report) = (false, 1, 0);
        self.posted.clear();
        (self.posted_count, self.begun_count) = (0, 0);
    }

    /// Whether the ring is as full as its driver can make it, which learns of free descriptors one report at a time; it
    /// stays so until a few reports' worth are free.
    pub fn is_full(&mut self, entries: u32) -> bool {
        let margin = self.report_interval * if self.full { REPORTS_FREE } else { 1 };
        self.full = entries > 0 && self.ring.outstanding(entries) + margin >= entries;
        self.full
    }

    /// `count` descriptors are posted at `t`.
    pub fn note_posted(&mut self, t: Ps, count: u32) {
        self.posted_count += u64::from(count);
        self.posted.push_back((self.posted_count, t));
    }

    /// The next descriptor is begun; returns when it was posted.
    pub fn note_begun(&mut self) -> Option<Ps> {
        self.begun_count += 1;
        while self.posted.front().is_some_and(|p| p.0 < self.begun_count) {
            self.posted.pop_front();
        }
        self.posted.front().map(|p| p.1)
    }
}

/// A payload read under way.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub queue: u16,
    pub epoch: u32,
    pub index: u32,
    pub descriptor: TxDescriptor,
    /// When the descriptor was posted, and when the read was begun.
    pub posted: Option<Ps>,
    pub begun: Ps,
}

/// The transmit path.
pub struct Transmit {
    pub queues: Vec<TxQueue>,
    /// Queues that have anything to do, a bit each; and whose turn it is.
    pub active: u64,
    pub turn: u16,
    fifo_size: u64,
    pub fifo_used: u64,
    /// Payload reads under way, in order of completion.
    pub reading: VecDeque<Reading>,
    pub readers: usize,
    /// Frames serialising, and buffers to reuse.
    pub outgoing: VecDeque<Outgoing>,
    pub spare: Vec<Vec<u8>>,
    pub stats: TransmitStats,
}

impl Transmit {
    pub fn new(p: &params::Nic, queues: usize) -> Self {
        Self {
            queues: (0..queues).map(|_| TxQueue::new(p)).collect(),
            active: 0,
            turn: 0,
            fifo_size: p.tx_fifo.bytes(),
            fifo_used: 0,
            reading: VecDeque::with_capacity(64),
            readers: p.tx_packets_in_flight as usize,
            outgoing: VecDeque::with_capacity(256),
            spare: Vec::new(),
            stats: TransmitStats::default(),
        }
    }

    /// Forgets everything but frames already on the wire.
    pub fn reset(&mut self) {
        self.queues.iter_mut().for_each(TxQueue::disable);
        self.active = 0;
        self.fifo_used = self.outgoing.iter().map(|o| o.bytes.len() as u64).sum();
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

    /// The queue whose turn it is, among those active.
    pub fn next_queue(&self) -> Option<u16> {
        if self.active == 0 {
            return None;
        }
        let ahead = self.active >> (self.turn & 63);
        Some(if ahead != 0 { self.turn + ahead.trailing_zeros() as u16 } else { self.active.trailing_zeros() as u16 })
    }
}
