//! The DMA engine: so many reads and writes under way at a time, whoever wants them, in the order in which they are
//! asked for. What it moves queues on the I/O path.
//!
//! Left out: separate engines for descriptors and data, priorities between them.

use super::trace::{Tracer, What};
use crate::io::{Io, IoStats};
use crate::memory::MemorySystem;
use crate::params::Platform;
use wiretime_base::{Ps, Return, Window};

/// What a transfer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// The queue.
    pub queue: u16,
    /// Descriptors rather than payload.
    pub descriptors: bool,
}

/// The engine of one NIC.
pub struct DmaEngine {
    io: Io,
    reads: Window,
    writes: Window,
    pub trace: Tracer,
}

impl DmaEngine {
    pub fn new(p: &Platform) -> Self {
        Self {
            io: Io::new(p),
            reads: Window::new(p.nic.dma_reads.into(), Return::InOrder),
            writes: Window::new(p.nic.dma_writes.into(), Return::InOrder),
            trace: Tracer::default(),
        }
    }

    /// Writes; returns when the last byte has left the NIC and when all is visible to cores.
    pub fn write(&mut self, t: Ps, address: u64, length: u64, p: Purpose, memory: &mut MemorySystem) -> (Ps, Ps) {
        let begin = self.writes.ready(t, 1);
        let (sent, visible) = self.io.write(begin, address, length, memory);
        // Posted: the engine is done when the link has taken it.
        self.writes.hold(t, sent, 1);
        self.note(t, true, length, visible, p);
        (sent, visible)
    }

    /// Reads; returns when the last byte is there.
    pub fn read(&mut self, t: Ps, address: u64, length: u64, p: Purpose, memory: &mut MemorySystem) -> Ps {
        let begin = self.reads.ready(t, 1);
        let done = self.io.read(begin, address, length, memory);
        self.reads.hold(t, done, 1);
        self.note(t, false, length, done, p);
        done
    }

    #[inline]
    fn note(&mut self, t: Ps, write: bool, bytes: u64, until: Ps, p: Purpose) {
        self.trace.note(t, What::Dma { write, descriptors: p.descriptors, queue: p.queue, bytes, until });
    }

    /// A core's posted write of a register; returns when the NIC has it.
    pub fn register_write(&mut self, t: Ps) -> Ps {
        self.io.register_write(t)
    }

    /// Nobody asks for a time before `t` any more.
    pub fn reached(&mut self, t: Ps) {
        self.reads.reached(t);
        self.writes.reached(t);
        self.io.reached(t);
    }

    pub fn stats(&self) -> IoStats {
        self.io.stats()
    }
}
