//! The transmit path: descriptor cache, payload reads, so many at a time, FIFO in bytes, frames onto the wire.
//!
//! Payload reads complete in order. Left out: priorities, launch times, several queues.

use super::e1000::descriptors::TxDescriptor;
use super::e1000::offload::Offload;
use super::ring::Ring;
use crate::params;
use std::collections::VecDeque;
use wiretime_base::stats;

stats! {
    /// What the transmit path did.
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

/// A frame on its way out.
#[derive(Debug)]
pub struct Outgoing {
    pub bytes: Vec<u8>,
    /// The packet that its buffer carried, for the ledger.
    pub carries: Option<u64>,
}

/// The transmit ring and its resources.
pub struct Transmit {
    /// The ring.
    pub ring: Ring<TxDescriptor>,
    fifo_size: u64,
    pub fifo_used: u64,
    /// Payload reads under way: descriptor and its length.
    pub reading: VecDeque<(u32, TxDescriptor)>,
    pub readers: usize,
    /// The packet being gathered.
    pub packet: Vec<u8>,
    pub offload: Option<Offload>,
    pub carries: Option<u64>,
    pub contexts: [super::e1000::descriptors::Context; 2],
    /// Frames serialising, and buffers to reuse.
    pub outgoing: VecDeque<Outgoing>,
    pub spare: Vec<Vec<u8>>,
    /// Descriptors between the last two status reports: how many at once become free.
    pub report_interval: u32,
    pub since_report: u32,
    pub stats: TransmitStats,
}

impl Transmit {
    pub fn new(p: &params::Nic) -> Self {
        Self {
            ring: Ring::new(p),
            fifo_size: p.tx_fifo.bytes(),
            fifo_used: 0,
            reading: VecDeque::with_capacity(64),
            readers: p.tx_packets_in_flight as usize,
            packet: Vec::with_capacity(super::e1000::offload::PACKET_MAX),
            offload: None,
            carries: None,
            contexts: Default::default(),
            outgoing: VecDeque::with_capacity(256),
            spare: Vec::new(),
            report_interval: 1,
            since_report: 0,
            stats: TransmitStats::default(),
        }
    }

    /// Forgets everything but frames already on the wire.
    pub fn reset(&mut self) {
        self.ring.reset();
        self.reading.clear();
        self.packet.clear();
        self.offload = None;
        self.carries = None;
        self.contexts = Default::default();
        self.fifo_used = self.outgoing.iter().map(|o| o.bytes.len() as u64).sum();
    }

    /// Whether `bytes` more fit the FIFO. What is larger than all of it goes when it is empty.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.fifo_used == 0 || self.fifo_used + bytes <= self.fifo_size
    }

    /// Reserves FIFO space.
    pub fn occupy(&mut self, bytes: u64) {
        self.fifo_used += bytes;
        self.stats.fifo_peak = self.stats.fifo_peak.max(self.fifo_used);
    }

    /// Whether the ring is as full as its driver can make it: it learns of free descriptors one report at a time.
    pub fn is_full(&self, entries: u32) -> bool {
        entries > 0 && self.ring.outstanding(entries) + self.report_interval >= entries
    }
}
