//! The DMA engine: so many reads and writes under way at a time, whoever wants them, in the order in which they are
//! asked for. What it moves queues on the I/O path.
//!
//! Left out: separate engines for descriptors and data, priorities between them.

use crate::dma::Stream;
use crate::io::{Io as IoPath, IoStats};
use crate::memory::{MemorySystem, Object};
use crate::nic::notice::{Notice, Notices};
use crate::params::Platform;
use crate::requester::{DmaRequester, Moves, Purpose, Side};
use wiretime_base::{Ps, Return, Window};

/// The stream of a queue's DMA writes.
#[must_use]
pub fn stream(side: Side, queue: u16) -> Stream {
    (side as Stream) << 16 | Stream::from(queue)
}

impl Purpose {
    /// The stream of writes of its queue.
    #[must_use]
    pub fn stream(self) -> Stream {
        stream(self.side, self.queue)
    }
}

/// The engine of one NIC.
pub struct DmaEngine {
    device: u16,
    io: IoPath,
    reads: Window<Ps>,
    writes: Window<Ps>,
}

impl DmaEngine {
    /// As the platform says, of the device of this number.
    #[must_use]
    pub fn new(p: &Platform, device: u16) -> Self {
        Self {
            device,
            io: IoPath::new(p),
            reads: Window::new(p.nic.dma_reads.into(), Return::InOrder),
            writes: Window::new(p.nic.dma_writes.into(), Return::InOrder),
        }
    }

    /// Writes; returns when the last byte has left the NIC and when all is visible to cores.
    pub fn write(
        &mut self,
        t: Ps,
        (address, bytes): (u64, u64),
        p: Purpose,
        memory: &mut MemorySystem,
        told: &mut Notices,
    ) -> (Ps, Ps) {
        match p.moves {
            Moves::Payload => memory.objects.mark_buffer(address, bytes),
            Moves::Completions => memory.objects.mark(address, bytes, Object::Descriptor),
            Moves::Descriptors | Moves::WriteBack => {}
        }
        let begin = self.writes.ready(t, 1);
        let (sent, visible) =
            self.io.write(begin, (address, bytes), DmaRequester { device: self.device, purpose: p }, memory);
        // Posted: the engine is done when the link has taken it.
        self.writes.hold(t, sent, 1);
        told.transfer(t, transfer(true, p, bytes, visible));
        (sent, visible)
    }

    /// Reads; returns when the last byte is there.
    pub fn read(
        &mut self,
        t: Ps,
        (address, bytes): (u64, u64),
        p: Purpose,
        memory: &mut MemorySystem,
        told: &mut Notices,
    ) -> Ps {
        if p.moves == Moves::Descriptors {
            memory.objects.mark(address, bytes, Object::Descriptor);
        }
        let begin = self.reads.ready(t, 1);
        let done = self.io.read(begin, (address, bytes), DmaRequester { device: self.device, purpose: p }, memory);
        self.reads.hold(t, done, 1);
        told.transfer(t, transfer(false, p, bytes, done));
        done
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

    /// What crossed the I/O path.
    #[must_use]
    pub fn stats(&self) -> IoStats {
        self.io.stats()
    }
}

fn transfer(write: bool, p: Purpose, bytes: u64, until: Ps) -> Notice {
    Notice::Transfer { write, descriptors: p.moves != Moves::Payload, queue: p.queue, bytes, until }
}
