//! The hierarchy: L1I, L1D and L2 of each core (L2 includes L1D), one shared LLC, DRAM; and DMA into and out of it.
//!
//! Private caches work in core cycles, the LLC and DRAM in picoseconds. A miss puts the line's tag in place at once
//! and notes when its data arrives: later accesses wait for it, which is what an MSHR merge does. A full MSHR file
//! delays the miss. The LLC is filled by L2 victims and by DMA, and keeps what it supplies (mostly non-inclusive).
//!
//! Left out: bank conflicts and bandwidth inside caches, hardware prefetchers, TLBs, write-back buffers. Coherence is
//! by looking into the other private caches, with one latency for any help from them.

use super::cache::{Cache, DIRTY, DMA, EXCLUSIVE};
use super::dram::{Dram, DramStats};
use super::LINE;
use crate::params::{Platform, PrivateCache};
use wiretime_base::{stats, Clock, Ps};

/// Who asks: for counters, DCA and attribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// Instruction fetch.
    Fetch,
    /// A load.
    Load,
    /// A store.
    Store,
    /// A software prefetch.
    Prefetch,
}

stats! {
    /// One core's caches.
    pub struct PrivateStats {
        l1i_accesses: "lines", "L1I accesses, one a line fetched";
        l1i_misses: "lines", "L1I misses";
        l1d_accesses: "accesses", "L1D accesses by loads, stores and software prefetches";
        l1d_misses: "lines", "L1D misses";
        l2_accesses: "lines", "L2 accesses";
        l2_misses: "lines", "L2 misses";
        software_prefetches: "instructions", "software prefetches";
        snoop_hits: "lines", "misses that another core's private cache supplied or gave up";
    }
}

stats! {
    /// What is shared.
    pub struct MemoryStats {
        llc_accesses: "lines", "LLC accesses by cores";
        llc_misses: "lines", "LLC misses by cores";
        llc_write_backs: "lines", "dirty lines that left the LLC for memory";
        dma_writes: "lines", "lines written by devices";
        dma_write_allocations: "lines", "of these, allocated or updated in the LLC";
        dma_reads: "lines", "lines read by devices";
        dma_read_hits: "lines", "of these, found in a cache";
        dca_leaks: "lines", "lines written by devices that left the LLC before a core used them";
    }
}

/// A file of miss-status registers: when each is free again.
struct Mshrs(Vec<u64>);

impl Mshrs {
    /// Takes the register that is free first; returns it and when the miss may start.
    #[inline]
    fn allocate(&self, t: u64) -> (usize, u64) {
        let (i, &free) = self.0.iter().enumerate().min_by_key(|(_, &free)| free).unwrap_or((0, &0));
        (i, t.max(free))
    }
}

struct Private {
    l1i: Cache,
    l1d: Cache,
    l2: Cache,
    l1i_mshrs: Mshrs,
    l1d_mshrs: Mshrs,
    l2_mshrs: Mshrs,
    stats: PrivateStats,
}

/// All caches and DRAM of a machine.
pub struct MemorySystem {
    private: Vec<Private>,
    llc: Cache,
    dram: Dram,
    clock: Clock,
    l1d_latency: u64,
    l2_latency: u64,
    llc_latency: Ps,
    snoop_latency: Ps,
    dca_ways: usize,
    /// Counters of what is shared.
    pub stats: MemoryStats,
}

impl MemorySystem {
    /// As the platform says, for `cores` cores.
    #[must_use]
    pub fn new(p: &Platform, cores: usize) -> Self {
        let cache = |c: &PrivateCache| Cache::new(c.size.bytes(), c.ways);
        let mshrs = |c: &PrivateCache| Mshrs(vec![0; c.mshrs as usize]);
        Self {
            private: (0..cores)
                .map(|_| Private {
                    l1i: cache(&p.l1i),
                    l1d: cache(&p.l1d),
                    l2: cache(&p.l2),
                    l1i_mshrs: mshrs(&p.l1i),
                    l1d_mshrs: mshrs(&p.l1d),
                    l2_mshrs: mshrs(&p.l2),
                    stats: PrivateStats::default(),
                })
                .collect(),
            llc: Cache::new(p.llc.size.bytes(), p.llc.ways),
            dram: Dram::new(&p.dram),
            clock: Clock::of(p.core.frequency),
            l1d_latency: u64::from(p.l1d.latency),
            l2_latency: u64::from(p.l2.latency),
            llc_latency: p.llc.latency.ps(),
            snoop_latency: p.llc.snoop_latency.ps(),
            dca_ways: p.llc.dca_ways as usize,
            stats: MemoryStats::default(),
        }
    }

    /// Counters of core `i`'s caches.
    #[must_use]
    pub fn private_stats(&self, i: usize) -> &PrivateStats {
        &self.private[i].stats
    }

    /// Counters of DRAM.
    #[must_use]
    pub fn dram_stats(&self) -> &DramStats {
        &self.dram.stats
    }

    /// A load of core `i` from the line of `address`, started at cycle `t`; returns when its data can be used.
    #[inline]
    pub fn load(&mut self, i: usize, address: u64, t: u64) -> u64 {
        let line = address / LINE;
        let p = &mut self.private[i];
        p.stats.l1d_accesses += 1;
        if let Some(at) = p.l1d.touch(line) {
            return (t + self.l1d_latency).max(p.l1d.ready(at));
        }
        self.l1d_miss(i, line, t, Requester::Load)
    }

    /// A store to the line of `address`, leaving the store buffer at cycle `t`; returns when it is done.
    #[inline]
    pub fn store(&mut self, i: usize, address: u64, t: u64) -> u64 {
        let line = address / LINE;
        let p = &mut self.private[i];
        p.stats.l1d_accesses += 1;
        if let Some(at) = p.l1d.touch(line) {
            let state = p.l1d.state(at);
            if state & EXCLUSIVE != 0 {
                p.l1d.set_state(at, state | DIRTY);
                return (t + 1).max(p.l1d.ready(at));
            }
            return self.upgrade(i, line, t);
        }
        self.l1d_miss(i, line, t, Requester::Store)
    }

    /// A store of a whole line (DC ZVA): gains ownership without reading memory.
    pub fn zero_line(&mut self, i: usize, address: u64, t: u64) -> u64 {
        let line = address / LINE;
        let p = &mut self.private[i];
        p.stats.l1d_accesses += 1;
        if let Some(at) = p.l1d.touch(line) {
            if p.l1d.state(at) & EXCLUSIVE != 0 {
                p.l1d.set_state(at, DIRTY | EXCLUSIVE);
                return t + 1;
            }
        }
        self.take_from_others(i, line, true);
        self.llc.remove(line);
        let p = &mut self.private[i];
        p.l1d.remove(line);
        p.l2.remove(line);
        let done = t + self.l2_latency;
        self.fill_l2(i, line, done, DIRTY | EXCLUSIVE, t);
        self.fill_l1d(i, line, done, DIRTY | EXCLUSIVE);
        done
    }

    /// A software prefetch for reading; nobody waits for it.
    #[inline]
    pub fn prefetch(&mut self, i: usize, address: u64, t: u64) {
        let line = address / LINE;
        let p = &mut self.private[i];
        p.stats.l1d_accesses += 1;
        p.stats.software_prefetches += 1;
        if p.l1d.touch(line).is_none() {
            self.l1d_miss(i, line, t, Requester::Prefetch);
        }
    }

    /// Fetches the instruction line of `address` at cycle `t`; returns when it can be decoded. A hit costs nothing:
    /// the front end is pipelined.
    #[inline]
    pub fn fetch(&mut self, i: usize, address: u64, t: u64) -> u64 {
        let line = address / LINE;
        let p = &mut self.private[i];
        p.stats.l1i_accesses += 1;
        if let Some(at) = p.l1i.touch(line) {
            return t.max(p.l1i.ready(at));
        }
        p.stats.l1i_misses += 1;
        let (m, start) = p.l1i_mshrs.allocate(t);
        let ready = self.l2_access(i, line, start, Requester::Fetch);
        let p = &mut self.private[i];
        p.l1i_mshrs.0[m] = ready;
        p.l1i.insert(line, ready, 0, 0);
        ready
    }

    fn l1d_miss(&mut self, i: usize, line: u64, t: u64, who: Requester) -> u64 {
        let p = &mut self.private[i];
        p.stats.l1d_misses += 1;
        let (m, start) = p.l1d_mshrs.allocate(t);
        let mut ready = self.l2_access(i, line, start, who);
        let p = &mut self.private[i];
        p.l1d_mshrs.0[m] = ready;
        let mut state = p.l2.find(line).map_or(0, |at| p.l2.state(at)) & EXCLUSIVE;
        if who == Requester::Store {
            if state == 0 {
                self.take_from_others(i, line, true);
                ready += self.clock.cycle_at_or_after(self.snoop_latency);
            }
            state = EXCLUSIVE | DIRTY;
            self.mark_owned(i, line);
        }
        self.fill_l1d(i, line, ready, state);
        ready
    }

    /// A store to a line that others may share.
    fn upgrade(&mut self, i: usize, line: u64, t: u64) -> u64 {
        let shared = self.take_from_others(i, line, true);
        let p = &mut self.private[i];
        let mut done = t + 1;
        if let Some(at) = p.l1d.find(line) {
            p.l1d.set_state(at, DIRTY | EXCLUSIVE);
            done = done.max(p.l1d.ready(at));
        }
        self.mark_owned(i, line);
        // Even where nobody has it, the permission comes from the LLC's directory.
        let wait = self.llc_latency + if shared { self.snoop_latency } else { 0 };
        done + self.clock.cycle_at_or_after(wait)
    }

    fn mark_owned(&mut self, i: usize, line: u64) {
        let l2 = &mut self.private[i].l2;
        if let Some(at) = l2.find(line) {
            let state = l2.state(at);
            l2.set_state(at, state | EXCLUSIVE);
        }
    }

    fn fill_l1d(&mut self, i: usize, line: u64, ready: u64, state: u8) {
        let p = &mut self.private[i];
        if let Some(victim) = p.l1d.insert(line, ready, state, 0) {
            if victim.state & DIRTY != 0 {
                if let Some(at) = p.l2.find(victim.line) {
                    let old = p.l2.state(at);
                    p.l2.set_state(at, old | DIRTY);
                }
            }
        }
    }

    fn l2_access(&mut self, i: usize, line: u64, t: u64, who: Requester) -> u64 {
        let p = &mut self.private[i];
        p.stats.l2_accesses += 1;
        if let Some(at) = p.l2.touch(line) {
            return (t + self.l2_latency).max(p.l2.ready(at));
        }
        p.stats.l2_misses += 1;
        let (m, start) = p.l2_mshrs.allocate(t + self.l2_latency);
        let at_llc = self.clock.at(start);
        let (arrives, state) = self.llc_access(i, line, at_llc, who);
        let ready = self.clock.cycle_at_or_after(arrives);
        self.private[i].l2_mshrs.0[m] = ready;
        self.fill_l2(i, line, ready, state, start);
        ready
    }

    fn fill_l2(&mut self, i: usize, line: u64, ready: u64, state: u8, t: u64) {
        let p = &mut self.private[i];
        let Some(victim) = p.l2.insert(line, ready, state, 0) else { return };
        // Inclusion: what leaves the L2 leaves the L1D.
        let inner = p.l1d.remove(victim.line).unwrap_or(0);
        let dirty = (victim.state | inner) & DIRTY;
        let t = self.clock.at(t);
        self.llc_insert(victim.line, t, dirty, 0);
    }

    /// Returns when the line arrives in the core, and its state there.
    fn llc_access(&mut self, i: usize, line: u64, t: Ps, who: Requester) -> (Ps, u8) {
        self.stats.llc_accesses += 1;
        let write = who == Requester::Store;
        if self.take_from_others(i, line, write) {
            self.private[i].stats.snoop_hits += 1;
            let state = if write { EXCLUSIVE | DIRTY } else { 0 };
            return (t + self.llc_latency + self.snoop_latency, state);
        }
        let state = if who == Requester::Fetch { 0 } else { EXCLUSIVE };
        if let Some(at) = self.llc.touch(line) {
            let old = self.llc.state(at);
            self.llc.set_state(at, old & !DMA);
            return ((t + self.llc_latency).max(self.llc.ready(at)), state);
        }
        self.stats.llc_misses += 1;
        self.dram.stats.reads_core += 1;
        (self.dram.read(line, t + self.llc_latency), state)
    }

    fn llc_insert(&mut self, line: u64, t: Ps, state: u8, ways: usize) {
        if let Some(at) = self.llc.touch(line) {
            let old = self.llc.state(at);
            // A line that DMA writes again is unused again; one that a core gives back has been used.
            self.llc.set_state(at, (old & !DMA) | state);
            return;
        }
        if let Some(victim) = self.llc.insert(line, t, state, ways) {
            if victim.state & DMA != 0 {
                self.stats.dca_leaks += 1;
            }
            if victim.state & DIRTY != 0 {
                self.stats.llc_write_backs += 1;
                self.dram.stats.writes_core += 1;
                self.dram.write(victim.line, t);
            }
        }
    }

    /// Looks for the line in the other cores' caches; with `remove`, takes it away from them, else leaves it shared.
    fn take_from_others(&mut self, i: usize, line: u64, remove: bool) -> bool {
        let mut found = false;
        for other in 0..self.private.len() {
            if other == i {
                continue;
            }
            let p = &mut self.private[other];
            let Some(at) = p.l2.find(line) else { continue };
            found = true;
            if remove {
                p.l2.remove(line);
                p.l1d.remove(line);
                p.l1i.remove(line);
            } else {
                // A dirty line is shared after its data has gone to the LLC's care.
                let mut dirty = p.l2.state(at) & DIRTY;
                p.l2.set_state(at, 0);
                if let Some(at) = p.l1d.find(line) {
                    dirty |= p.l1d.state(at) & DIRTY;
                    p.l1d.set_state(at, 0);
                }
                if dirty != 0 {
                    self.llc_insert(line, 0, DIRTY, 0);
                }
            }
        }
        found
    }

    /// A device writes `length` bytes at `address`, arriving at `t`; returns when all are visible to cores.
    pub fn dma_write(&mut self, address: u64, length: u64, t: Ps) -> Ps {
        let mut visible = t;
        for line in lines(address, length) {
            self.stats.dma_writes += 1;
            self.take_from_others(usize::MAX, line, true);
            if self.dca_ways > 0 {
                self.stats.dma_write_allocations += 1;
                self.llc_insert(line, t, DIRTY | DMA, self.dca_ways);
                visible = visible.max(t + self.llc_latency);
            } else {
                self.llc.remove(line);
                self.dram.stats.writes_dma += 1;
                self.dram.write(line, t + self.llc_latency);
                // Visible once the point of coherence has it.
                visible = visible.max(t + self.llc_latency);
            }
        }
        visible
    }

    /// A device reads `length` bytes at `address`, its request arriving at `t`; returns when the last is there.
    pub fn dma_read(&mut self, address: u64, length: u64, t: Ps) -> Ps {
        let mut done = t;
        for line in lines(address, length) {
            self.stats.dma_reads += 1;
            let owned = self.private.iter().any(|p| p.l2.find(line).is_some());
            if owned {
                self.stats.dma_read_hits += 1;
                done = done.max(t + self.llc_latency + self.snoop_latency);
            } else if let Some(at) = self.llc.touch(line) {
                self.stats.dma_read_hits += 1;
                done = done.max((t + self.llc_latency).max(self.llc.ready(at)));
            } else {
                self.dram.stats.reads_dma += 1;
                done = done.max(self.dram.read(line, t + self.llc_latency));
            }
        }
        done
    }
}

fn lines(address: u64, length: u64) -> std::ops::RangeInclusive<u64> {
    let last = address.saturating_add(length.max(1) - 1) / LINE;
    address / LINE..=last
}
