//! The MAC of a port: frames from the wire's other end, and onto the wire, one after the other.

use super::notice::{Notice, Notices};
use crate::params::Link;
use crate::wire::{Cable, Packet, FCS};
use std::collections::VecDeque;
use wiretime_base::{BitRate, Calendar, Ps};

/// Whose frame it is.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// The queue.
    pub queue: u16,
    /// The life of its device, which ends with a reset.
    pub life: u32,
}

/// A frame on its way out, without FCS.
#[derive(Debug)]
pub struct Outgoing {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whose it is.
    pub of: Sender,
}

/// See the module.
pub struct Mac {
    /// What comes, and from whom.
    pub(super) cable: Cable,
    out: Calendar<Ps>,
    line: BitRate,
    gap: u64,
    /// Propagation.
    pub(super) latency: Ps,
    /// Frames serialising, and buffers to reuse.
    outgoing: VecDeque<Outgoing>,
    spare: Vec<Vec<u8>>,
    /// Of the former, so many that nobody has been told of: the last.
    untold: usize,
}

/// Buffers of frames that are kept for others.
const SPARE: usize = 1024;

impl Mac {
    /// At this end of a link.
    pub(super) fn new(link: &Link, mut cable: Cable) -> Self {
        cable.set_latency(link.latency.ps());
        Self {
            cable,
            out: Calendar::default(),
            line: link.rate,
            gap: link.gap_bytes.into(),
            latency: link.latency.ps(),
            outgoing: VecDeque::with_capacity(256),
            spare: Vec::new(),
            untold: 0,
        }
    }

    /// The headers of a frame that has just arrived, as far as they tell its flow.
    pub fn headers(&mut self, packet: &Packet) -> &[u8] {
        self.cable.headers(packet)
    }

    /// A received frame, without FCS, once those before it have been taken.
    pub fn frame(&mut self, packet: &Packet) -> &[u8] {
        self.cable.frame(packet)
    }

    /// When the last bit of a packet arrives that leaves the other end then.
    pub(super) fn arrival(&self, departed: Ps, length: u32) -> Ps {
        departed.saturating_add(self.line.time_of(length.into()) + self.latency)
    }

    /// See [`super::device::Io::send`]; the frame's length, padding included, and when its last bit leaves.
    pub(super) fn send(
        &mut self,
        t: Ps,
        (of, frame, least): (Sender, &[u8], usize),
        told: &mut Notices,
    ) -> (usize, Ps) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(frame);
        bytes.resize(bytes.len().max(least), 0);
        let length = bytes.len();
        let on_wire = length as u64 + u64::from(FCS);
        let start = self.out.reserve(t, self.line.time_of(on_wire + self.gap));
        let end = start + self.line.time_of(on_wire);
        // Told as soon as it is known: a far end simulates ahead by so much.
        self.cable.far_takes(start, &bytes);
        told.tell(start, Notice::Frame { queue: of.queue, end, length: on_wire as u32 });
        self.outgoing.push_back(Outgoing { bytes, of });
        self.untold += 1;
        (length, end)
    }

    /// The frame of the next notice of a frame.
    pub(super) fn told(&mut self) -> &[u8] {
        let at = self.outgoing.len().checked_sub(self.untold);
        self.untold = self.untold.saturating_sub(1);
        at.and_then(|at| self.outgoing.get(at)).map_or(&[], |frame| &frame.bytes)
    }

    /// The last bit of the next frame has left.
    pub(super) fn sent(&mut self) -> Option<Outgoing> {
        self.outgoing.pop_front()
    }

    /// Its buffer may be used again.
    pub(super) fn recycle(&mut self, frame: Outgoing) {
        if self.spare.len() < SPARE {
            self.spare.push(frame.bytes);
        }
    }

    /// Nobody asks for a time before `t` any more.
    pub(super) fn reached(&mut self, t: Ps) {
        self.out.reached(t);
    }
}
