//! Loads, stores and device accesses of a core: translation, store-to-load forwarding, ordering, the store buffer.
//!
//! A store leaves the store buffer once it has committed, whatever the others do; a barrier orders. An atomic operation asks for
//! its line as one that it writes, and writes it once it has committed. A device store
//! (doorbell) waits there until the root complex accepts it, one after the other. Left out: the store buffer merges
//! nothing but device stores under write combining; two waiting stores to the same eight bytes are one from then on, so that a
//! load of both has what real queues take from the cache.

use super::pipeline::Core;
use super::stall::StallCause;
use super::tlb::Walker;
use super::uop::{Class, Order};
use crate::memory::{Address, Level, MemorySystem, LINE};
use wiretime_base::{Cycles, Ps};

/// What kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MemKind {
    /// From memory.
    Load,
    /// To memory.
    Store,
    /// Software prefetch. Left out: into which level, for writing, and that the line is used once.
    Prefetch,
    /// Zeroes a line.
    ZeroLine,
    /// From a device.
    DeviceLoad,
    /// To a device.
    DeviceStore,
}

/// One access of one instruction, as it executed.
#[derive(Clone, Copy, Debug)]
pub struct MemEvent {
    /// Physical address.
    pub paddr: u64,
    /// Virtual address, tagged with its address space.
    pub vaddr: u64,
    /// Value stored, for device stores seen by address alone.
    pub value: u32,
    /// Which instruction of the block.
    pub index: u16,
    /// Kind.
    pub kind: MemKind,
    /// Its bytes, which lie in one line.
    pub size: u8,
}

impl MemEvent {
    #[inline]
    fn address(&self) -> Address {
        Address { physical: self.paddr, virtual_: self.vaddr }
    }
}

/// A device store that left the core: when, where, what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAccess {
    /// When the root complex accepted it.
    pub time: Ps,
    /// Physical address.
    pub paddr: u64,
    /// Value.
    pub value: u32,
}

impl From<Level> for StallCause {
    fn from(level: Level) -> Self {
        match level {
            Level::L1 => StallCause::Core,
            Level::L2 => StallCause::L2,
            Level::Llc => StallCause::Llc,
            Level::Snoop => StallCause::Snoop,
            Level::Dram => StallCause::Dram,
        }
    }
}

/// When an access is complete whose address is translated by a walk that began at `start`, and what it waited for.
#[inline]
fn translated((complete, cause): (Cycles, StallCause), start: Cycles, walk: Cycles) -> (Cycles, StallCause) {
    if walk > Cycles::ZERO && start + walk > complete {
        (start + walk, StallCause::Dtlb)
    } else {
        (complete, cause)
    }
}

impl Core {
    /// Times the accesses of one instruction that starts at `start` and has its data at `data`; returns when it is
    /// complete, and what it waited for longest.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub(super) fn access(
        &mut self,
        (class, order): (Class, Order),
        start: Cycles,
        data: Cycles,
        accesses: &[MemEvent],
        pc: u64,
        memory: &mut MemorySystem,
        walker: &mut impl Walker,
    ) -> (Cycles, StallCause) {
        let mut complete = start + Cycles(1);
        let mut cause = StallCause::Core;
        let mut last = (u64::MAX, MemKind::Prefetch);
        // Of the line that is accessed: when the L1D has it.
        let (mut loaded, mut stored) = ((start, StallCause::Core), start);
        let (mut asked, mut walk) = (false, Cycles::ZERO);
        // A line of which the store queue has had all so far.
        let mut answered = None;
        let latency = self.slots[class as usize].latency;
        // What reads and writes takes it once: behind the store.
        let atomic = matches!(class, Class::Atomic | Class::StoreExclusive);
        let (extra, behind) = if atomic { (Cycles::ZERO, latency) } else { (latency, Cycles::ZERO) };
        for a in accesses {
            // One access a line and instruction: LDP, LD1 and unaligned accesses come in pieces.
            let key = (a.paddr / LINE, a.kind);
            let first = key != last;
            last = key;
            match a.kind {
                MemKind::Load => {
                    // What holds it up holds it up wherever its bytes are.
                    let released = if order.acquires { self.released } else { Cycles::ZERO };
                    let t = start.max(self.load_fence).max(released);
                    if first {
                        self.answered(answered.take(), memory);
                        self.stats.loads += 1;
                        walk = self.tlb.data(self.index, a.vaddr, t, memory, walker);
                        asked = false;
                    }
                    let found = self.forward.find(a.paddr, a.size, t);
                    // Where stores have all of its bytes, what they wait for in the queue is no matter of the load's, and nothing
                    // is asked for.
                    let all = found.is_some_and(|f| f.all);
                    if !all && !asked {
                        let writes = class == Class::Atomic;
                        let (done, why) = self.load(a, (t, walk), (pc, writes), memory);
                        (loaded, asked, answered) = ((done + extra, why), true, None);
                    } else if first {
                        answered = Some(a.address());
                    }
                    if loaded.0 > complete && !all {
                        (complete, cause) = loaded;
                    }
                    if let Some(found) = found {
                        self.stats.store_forwards += u64::from(found.all);
                        let there = found.there.max(t + walk) + self.forward_latency + extra;
                        if there > complete {
                            let walked = walk > Cycles::ZERO && t + walk > found.there;
                            (complete, cause) = (there, if walked { StallCause::Dtlb } else { cause });
                        }
                        if found.known > t && self.dependences.surprise(pc) {
                            complete = complete.max(self.run_again(found.known));
                        }
                    }
                    self.last_load = self.last_load.max(complete);
                }
                MemKind::Store => {
                    complete = complete.max(data + extra);
                    if first {
                        // Its address is translated before it commits, like a load's.
                        walk = self.tlb.data(self.index, a.vaddr, start, memory, walker);
                        (complete, cause) = translated((complete, cause), start, walk);
                        let mut ordered = complete.max(self.last_commit()).max(self.store_fence);
                        if order.releases {
                            ordered = ordered.max(self.last_store);
                        }
                        stored = self.store(a, ordered, pc, memory);
                        if order.releases {
                            self.released = stored;
                        }
                    }
                    if atomic {
                        complete = complete.max(stored + behind);
                    }
                    self.forward.note(a.paddr, a.size, (start, complete, stored.max(complete)));
                }
                MemKind::Prefetch => {
                    let t = start.max(self.load_fence);
                    let walk = self.tlb.data(self.index, a.vaddr, t, memory, walker);
                    memory.prefetch(self.index, a.address(), t + walk);
                }
                MemKind::ZeroLine => {
                    let walk = self.tlb.data(self.index, a.vaddr, start, memory, walker);
                    (complete, cause) = translated((complete, cause), start, walk);
                    let t = (start + walk).max(self.last_commit()).max(self.store_fence);
                    let (done, level) = memory.zero_line(self.index, a.address(), t);
                    self.stored(done, level.into());
                }
                MemKind::DeviceLoad => {
                    let walk = self.tlb.data(self.index, a.vaddr, start, memory, walker);
                    (complete, cause) = (self.device_load(start + walk), StallCause::Device);
                }
                MemKind::DeviceStore => {
                    let walk = self.tlb.data(self.index, a.vaddr, start, memory, walker);
                    (complete, cause) = translated((complete.max(data), cause), start, walk);
                    self.device_store(a, complete);
                }
            }
        }
        self.answered(answered, memory);
        if complete > self.pending.0 && cause != StallCause::Core {
            self.pending = (complete, cause);
        }
        (complete, cause)
    }

    /// The store queue has had all that a load wants of a line.
    #[inline]
    fn answered(&self, line: Option<Address>, memory: &mut MemorySystem) {
        if let Some(address) = line {
            memory.load_forwarded(self.index, address);
        }
    }

    #[inline]
    fn load(
        &mut self,
        a: &MemEvent,
        (t, walk): (Cycles, Cycles),
        (pc, writes): (u64, bool),
        memory: &mut MemorySystem,
    ) -> (Cycles, StallCause) {
        let (done, level) = if writes {
            memory.load_to_write(self.index, a.address(), pc, t + walk)
        } else {
            memory.load(self.index, a.address(), pc, t + walk)
        };
        (done, if walk * 2 > done - t { StallCause::Dtlb } else { level.into() })
    }

    /// A load has run past an older store of its bytes, whose address is known at `known`: it and all behind it are fetched
    /// again. Returns when it has its data.
    #[cold]
    fn run_again(&mut self, known: Cycles) -> Cycles {
        self.stats.order_violations += 1;
        let again = known + self.mispredict;
        self.redirect(again, StallCause::Mispredict);
        again + self.forward_latency
    }

    /// A store leaves the store buffer at `t`; returns when the L1D has it.
    #[inline]
    fn store(&mut self, a: &MemEvent, t: Cycles, pc: u64, memory: &mut MemorySystem) -> Cycles {
        self.stats.stores += 1;
        let (done, level) = memory.store(self.index, a.address(), pc, t);
        self.stored(done, level.into());
        done
    }

    #[inline]
    fn stored(&mut self, done: Cycles, cause: StallCause) {
        self.stores.take(done);
        self.last_store = self.last_store.max(done);
        self.store_cause = if cause == StallCause::Core { StallCause::Store } else { cause };
    }

    /// Not speculative: waits until everything before it has committed, and the stores have gone.
    fn device_load(&mut self, start: Cycles) -> Cycles {
        self.stats.mmio_reads += 1;
        let t = start.max(self.last_commit()).max(self.load_fence).max(self.last_store);
        let done = t + self.device_read;
        self.last_load = self.last_load.max(done);
        done
    }

    fn device_store(&mut self, a: &MemEvent, complete: Cycles) {
        self.stats.mmio_writes += 1;
        let t = complete.max(self.last_commit()).max(self.store_fence);
        let (sent, accepted, line) = self.device;
        let combined = self.write_combining && line == a.paddr / LINE && sent > t;
        if !combined {
            let sent = t.max(accepted);
            self.device = (sent, sent + self.device_write, a.paddr / LINE);
        }
        let accepted = self.device.1;
        self.stats.mmio_write_cycles += (accepted - t).0;
        self.stores.take(accepted);
        self.last_store = self.last_store.max(accepted);
        self.store_cause = StallCause::Device;
        self.device_stores.push(DeviceAccess { time: self.clock.at(accepted), paddr: a.paddr, value: a.value });
    }
}
