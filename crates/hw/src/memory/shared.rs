//! What all cores share: the LLC in banks, its directory of private copies, DRAM behind it.
//!
//! Coherence: a line is in any number of private caches when clean, in one when it may be written. The directory knows
//! exactly who has it (a snoop filter that never overflows); any help from another core costs one latency. Left out:
//! what messages on the interconnect cost each other.

use super::cache::{Cache, Victim, DIRTY, DMA, EXCLUSIVE, SHARE};
use super::contention::Contention;
use super::crossbar::{Crossbar, Entry};
use super::dram::Dram;
use super::mesh::Mesh;
use super::share::Share;
use super::{Level, MemorySystem};
use crate::params::{DeviceReads, Inclusion, Platform};
use crate::requester::{CoreAccess, Requester};
use rustc_hash::FxHashMap;
use wiretime_base::{stats, Calendar, Ps, Return, Window};

stats! {
    /// What is shared.
    pub struct MemoryStats {
        llc_accesses_code: "lines", "LLC accesses by instruction fetch";
        llc_accesses_load: "lines", "LLC accesses by loads";
        llc_accesses_store: "lines", "LLC accesses by stores";
        llc_accesses_prefetch: "lines", "LLC accesses by software and hardware prefetches";
        llc_accesses_walk: "lines", "LLC accesses by page walks";
        llc_misses_code: "lines", "LLC misses by instruction fetch";
        llc_misses_load: "lines", "LLC misses by loads";
        llc_misses_store: "lines", "LLC misses by stores";
        llc_misses_prefetch: "lines", "LLC misses by software and hardware prefetches";
        llc_misses_walk: "lines", "LLC misses by page walks";
        llc_allocations: "lines", "lines put into the LLC for cores: fills and victims";
        llc_write_backs: "lines", "dirty lines that left the LLC for memory";
        llc_write_backs_device: "lines", "of these, as a device wrote them: no core has used them";
        llc_evictions: "lines", "lines that left the LLC to make room, clean ones too";
        llc_mshr_full_ps: "ps", "time that misses waited for one of the LLC's MSHRs";
        dma_writes: "lines", "lines written by devices";
        dma_write_allocations: "lines", "of these, allocated in the LLC";
        dma_write_updates: "lines", "of these, already in the LLC";
        dma_write_overflows: "lines", "lines written by devices beyond their share of the LLC";
        dma_write_stashes: "lines", "lines written by devices that were put into a core's L2";
        dma_reads: "lines", "lines read by devices";
        dma_read_hits: "lines", "of these, found in a cache";
        dca_leaks: "lines", "lines written by devices that left the LLC before a core used them";
    }
}

/// Shared cache, directory and memory.
pub(super) struct LastLevel {
    pub llc: Cache<Ps>,
    banks: Vec<Calendar<Ps>>,
    pub crossbar: Crossbar,
    /// Of misses of all cores, whichever is timed first.
    mshrs: Window<Ps>,
    pub dram: Dram,
    /// Something has been booked since what is over was last forgotten.
    booked: bool,
    mesh: Mesh,
    pub device_past_latency: Ps,
    bank_time: Ps,
    pub port_time: Ps,
    pub snoop_latency: Ps,
    pub inclusion: Inclusion,
    pub dca_ways: usize,
    pub share: Share,
    pub device_reads: DeviceReads,
    /// Cores that hold a line, by bit. One core needs none.
    directory: Option<FxHashMap<u64, u64>>,
    pub contention: Contention,
    pub stats: MemoryStats,
}

impl LastLevel {
    pub fn new(p: &Platform, cores: usize) -> Self {
        let cache = if p.llc.hashed { Cache::hashed } else { Cache::new };
        Self {
            llc: cache(p.llc.size.bytes(), p.llc.ways, p.llc.replacement),
            banks: (0..p.llc.banks).map(|_| Calendar::default()).collect(),
            crossbar: Crossbar::new(p.llc.crossbar_request.ps(), p.llc.crossbar_line.ps(), p.llc.io_cache),
            mshrs: Window::new(p.llc.mshrs.into(), Return::AnyOrder),
            dram: Dram::new(&p.dram),
            booked: false,
            mesh: Mesh::new(p, cores),
            device_past_latency: p.llc.device_past_latency.ps(),
            bank_time: p.llc.bank_time.ps(),
            port_time: p.llc.port_time.ps(),
            snoop_latency: p.llc.snoop_latency.ps(),
            inclusion: p.llc.inclusion,
            dca_ways: p.llc.dca_ways as usize,
            share: Share::new(p.llc.dca_lines, p.llc.dca_beyond),
            device_reads: p.llc.device_reads,
            contention: Contention::new(p.quantum(), cores),
            directory: (cores > 1).then(FxHashMap::default),
            stats: MemoryStats::default(),
        }
    }

    /// Core `i` has the line.
    #[inline]
    pub fn entered(&mut self, i: usize, line: u64) {
        if let Some(d) = &mut self.directory {
            *d.entry(line).or_default() |= 1 << i;
        }
    }

    /// Core `i` no longer has the line.
    #[inline]
    pub fn left(&mut self, i: usize, line: u64) {
        if let Some(d) = &mut self.directory {
            if let Some(cores) = d.get_mut(&line) {
                *cores &= !(1 << i);
                if *cores == 0 {
                    d.remove(&line);
                }
            }
        }
    }

    /// The bank of a line: a slice of the cache.
    #[inline]
    fn slice(&self, line: u64) -> usize {
        (line ^ line >> 9) as usize & (self.banks.len() - 1)
    }

    /// From core `i` asking for `line` to the answer.
    #[inline]
    pub fn latency(&self, i: usize, line: u64) -> Ps {
        self.mesh.core(i, self.slice(line))
    }

    /// The same of a device.
    #[inline]
    pub fn device_latency(&self, line: u64) -> Ps {
        self.mesh.device(self.slice(line))
    }

    /// What a line costs that cores use at the same time, a transfer: as much for each of them, however far it is. Who was
    /// charged less would use it more often in a window, and go free of charge for it (`contention.rs`).
    pub fn transfer(&self) -> Ps {
        self.mesh.mean + self.snoop_latency
    }

    /// When a bank serves a request for `line` that comes at `t`.
    #[inline]
    pub fn bank(&mut self, line: u64, t: Ps) -> Ps {
        self.booked = true;
        let bank = self.slice(line);
        self.banks[bank].reserve(t, self.bank_time)
    }

    /// Nobody asks for a time before `t` any more.
    pub fn reached(&mut self, t: Ps) {
        if !std::mem::take(&mut self.booked) {
            return;
        }
        self.banks.iter_mut().for_each(|bank| bank.reached(t));
        self.mshrs.reached(t);
        self.crossbar.reached(t);
        self.dram.reached(t);
    }

    fn counter(&mut self, who: CoreAccess, missed: bool) -> &mut u64 {
        let stats = &mut self.stats;
        let (accesses, misses) = match who {
            CoreAccess::Fetch => (&mut stats.llc_accesses_code, &mut stats.llc_misses_code),
            CoreAccess::Store => (&mut stats.llc_accesses_store, &mut stats.llc_misses_store),
            CoreAccess::Prefetch => (&mut stats.llc_accesses_prefetch, &mut stats.llc_misses_prefetch),
            CoreAccess::Walk => (&mut stats.llc_accesses_walk, &mut stats.llc_misses_walk),
            CoreAccess::Load => (&mut stats.llc_accesses_load, &mut stats.llc_misses_load),
        };
        if missed {
            misses
        } else {
            accesses
        }
    }

    /// Whether a line in it leaves with the core that asks for it.
    pub fn exclusive(&self) -> bool {
        matches!(self.inclusion, Inclusion::Exclusive | Inclusion::MostlyExclusive)
    }

    /// Whether the other cores that have a line send it to who asks.
    pub fn supplied(&self, copies: Copies) -> bool {
        copies.dirty || copies.any && self.inclusion != Inclusion::MostlyExclusive
    }

    /// Whether what a device reads is taken along by its own cache, to be brought back.
    pub fn taken_along(&self, state: u8, in_core: bool) -> bool {
        match self.inclusion {
            Inclusion::Exclusive => true,
            Inclusion::MostlyExclusive => state & DIRTY != 0 && !in_core,
            Inclusion::Inclusive | Inclusion::NonInclusive => false,
        }
    }

    /// Somebody has a newer copy.
    pub fn drop_line(&mut self, line: u64) {
        if self.llc.remove(line).is_some_and(|state| state & SHARE != 0) {
            self.share.left(line);
        }
    }
}

/// Cores by their bits.
pub(super) fn cores(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let core = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(core)
    })
}

/// What other cores had of a line.
#[derive(Clone, Copy)]
pub(super) struct Copies {
    pub any: bool,
    /// One of them was newer than memory.
    pub dirty: bool,
    /// When the first of them had the data: nobody gets them before.
    pub there: Ps,
}

impl MemorySystem {
    /// Returns when the line arrives in the core, where from, and its state there.
    pub(super) fn llc_access(&mut self, i: usize, line: u64, t: Ps, who: CoreAccess) -> (Ps, Level, u8) {
        let t = self.private[i].port.reserve(t, self.shared.port_time);
        let t = self.shared.crossbar.enter(Entry::Request, t);
        let t = self.shared.bank(line, t);
        *self.shared.counter(who, false) += 1;
        let write = who == CoreAccess::Store;
        let s = &mut self.shared;
        if let Some(at) = s.llc.touch(line) {
            let (arrives, old) = ((t + s.latency(i, line)).max(s.llc.ready(at, t)), s.llc.state(at));
            s.llc.set_state(at, old & !DMA);
            let Copies { any: shared, dirty, there } = self.take_from_others(i, line, write, t);
            let mut state = if shared && !write || who == CoreAccess::Fetch { 0 } else { EXCLUSIVE };
            if !shared && who != CoreAccess::Fetch {
                match self.shared.inclusion {
                    Inclusion::MostlyExclusive if !write => {
                        // A shared copy; what is owed to memory stays.
                        state = 0;
                        if old & DIRTY == 0 {
                            self.shared.drop_line(line);
                        }
                    }
                    Inclusion::Exclusive | Inclusion::MostlyExclusive => {
                        // It moves up, with what it owes to memory.
                        self.shared.drop_line(line);
                        state |= old & DIRTY;
                    }
                    Inclusion::Inclusive | Inclusion::NonInclusive => {}
                }
            }
            // Where a core has written since, the LLC's copy is old.
            self.private[i].stats.snoop_hits += u64::from(dirty);
            let snoop = if dirty || shared && write { self.shared.snoop_latency } else { Ps::ZERO };
            let arrives = arrives + snoop;
            let arrives = if dirty { arrives.max(there) } else { arrives };
            return (arrives, if dirty { Level::Snoop } else { Level::Llc }, state);
        }
        *self.shared.counter(who, true) += 1;
        self.objects.missed(line, who == CoreAccess::Fetch, true);
        let copies = self.take_from_others(i, line, write, t);
        if self.shared.supplied(copies) {
            self.private[i].stats.snoop_hits += 1;
            let state = if write { EXCLUSIVE | DIRTY } else { 0 };
            let arrives = t + self.shared.latency(i, line) + self.shared.snoop_latency;
            return (arrives.max(copies.there), Level::Snoop, state);
        }
        let s = &mut self.shared;
        let looked = t + s.latency(i, line);
        let start = s.mshrs.ready(looked, 1);
        s.stats.llc_mshr_full_ps += (start - looked).0;
        let arrives = s.dram.read(line, start, Requester::Core { core: i as u16, access: who });
        s.mshrs.hold(looked, arrives, 1);
        if !s.exclusive() {
            self.llc_insert(line, (t, arrives), Level::Dram, 0, 0, t);
        }
        let alone = who != CoreAccess::Fetch && (write || !copies.any);
        (arrives, Level::Dram, if alone { EXCLUSIVE } else { 0 })
    }

    /// A line that a private cache had to let go.
    pub(super) fn llc_take_victim(&mut self, line: u64, dirty: u8, t: Ps) {
        self.llc_take(line, dirty, (t, t));
    }

    /// The same, asked of the core at a time, and there at another.
    fn llc_take(&mut self, line: u64, dirty: u8, (t, there): (Ps, Ps)) {
        // Nobody waits for it; who comes behind it does.
        let comes = dirty != 0 || self.shared.inclusion == Inclusion::Exclusive;
        self.shared.crossbar.enter(if comes { Entry::Line } else { Entry::Request }, t);
        self.shared.booked = true;
        self.llc_keep(line, dirty, comes, (t, there));
    }

    /// A line of a core that is here from now on, in any case or only if it is already; asked of the core at a time, and there at
    /// another.
    fn llc_keep(&mut self, line: u64, dirty: u8, always: bool, (t, there): (Ps, Ps)) {
        if let Some(at) = self.shared.llc.touch(line) {
            let old = self.shared.llc.state(at);
            self.shared.llc.set_state(at, old & !DMA | dirty);
        } else if always {
            self.llc_insert(line, (t, there), Level::Llc, dirty, 0, t);
        }
    }

    /// A core overwrites a whole line at `t`: what the LLC has of it is old, and stays only where cores have nothing beside.
    pub(super) fn llc_overwritten(&mut self, line: u64, t: Ps) {
        if self.shared.inclusion == Inclusion::Inclusive {
            self.llc_keep(line, 0, true, (t, t));
        } else {
            self.shared.drop_line(line);
        }
    }

    pub(super) fn llc_insert(&mut self, line: u64, ready: (Ps, Ps), level: Level, state: u8, ways: usize, t: Ps) {
        if state & DMA == 0 {
            self.shared.stats.llc_allocations += 1;
        }
        if let Some(victim) = self.shared.llc.insert(line, ready, level, state, ways) {
            self.let_go(victim, t);
        }
    }

    /// A line has left the LLC for another.
    pub(super) fn let_go(&mut self, victim: Victim, t: Ps) {
        self.shared.stats.llc_evictions += 1;
        if victim.state & SHARE != 0 {
            self.shared.share.left(victim.line);
        }
        let mut dirty = victim.state & DIRTY;
        if self.shared.inclusion == Inclusion::Inclusive {
            for (i, p) in self.private.iter_mut().enumerate() {
                if let Some(inner) = p.give_up(victim.line) {
                    dirty |= inner & DIRTY;
                    self.shared.left(i, victim.line);
                }
            }
        }
        self.shared.stats.dca_leaks += u64::from(victim.state & DMA != 0);
        if dirty != 0 {
            self.shared.stats.llc_write_backs += 1;
            self.shared.stats.llc_write_backs_device += u64::from(victim.state & DMA != 0);
            self.shared.dram.write(victim.line, t, None);
        }
    }

    /// Which other cores than `i` have the line, by bit.
    pub(super) fn others(&self, i: usize, line: u64) -> u64 {
        match &self.shared.directory {
            Some(d) => d.get(&line).copied().unwrap_or(0) & !(1u64.checked_shl(i as u32).unwrap_or(0)),
            None => u64::from(i != 0 && self.private[0].holds(line)),
        }
    }

    /// Looks for the line in other cores' caches than `i`'s; with `remove`, takes it away from them, else leaves it
    /// shared.
    pub(super) fn take_from_others(&mut self, i: usize, line: u64, remove: bool, t: Ps) -> Copies {
        let others = self.others(i, line);
        let there = self.there(others, line, t);
        let mut dirty = 0;
        for other in cores(others) {
            if remove {
                dirty |= self.private[other].give_up(line).unwrap_or(0) & DIRTY;
                self.shared.left(other, line);
            } else {
                dirty |= self.private[other].share(line).unwrap_or(0) & DIRTY;
            }
        }
        if i < self.private.len() {
            // What all only read moves nowhere.
            if others != 0 && (remove || dirty != 0) {
                self.shared.contention.moves(line, t);
            }
            if remove && self.shared.exclusive() {
                // Copies were shared; the only one is the core's from now on, with what was owed to memory behind them.
                self.shared.drop_line(line);
            }
        }
        if dirty != 0 && !remove {
            // A dirty line is shared after its data has gone to the LLC's care.
            let when = (t, there.max(t));
            if self.shared.inclusion == Inclusion::MostlyExclusive {
                // There the owner goes on to owe it: nothing moves but the answer.
                self.llc_keep(line, DIRTY, true, when);
            } else {
                self.llc_take(line, DIRTY, when);
            }
        }
        Copies { any: others != 0, dirty: dirty != 0, there }
    }

    /// When the first of these cores has the data of a line that is asked of them at `t`; zero where one has already.
    pub(super) fn there(&mut self, others: u64, line: u64, t: Ps) -> Ps {
        if others == 0 {
            return Ps::ZERO;
        }
        let asked = self.clock.cycle_at_or_after(t);
        let there = cores(others).filter_map(|i| self.private[i].there(line, asked)).min();
        there.filter(|&there| there > asked).map_or(Ps::ZERO, |there| self.clock.at(there))
    }
}

#[cfg(test)]
mod tests {
    use super::super::cache::{DIRTY, DMA};
    use super::*;
    use crate::testing::platform;

    const LINE: u64 = 1000;
    /// Behind a refresh of the first rank, far from the next.
    const QUIET: Ps = Ps::from_ns(78_400);

    fn system(cores: usize, change: impl FnOnce(&mut Platform)) -> (MemorySystem, Platform) {
        let mut p = platform();
        p.dram.channels = 1;
        change(&mut p);
        (MemorySystem::new(&p, cores), p)
    }

    /// Time of an access to the LLC that finds nothing, DRAM idle and its bank closed.
    fn miss(p: &Platform) -> Ps {
        let d = &p.dram;
        p.llc.latency.ps() + d.controller_latency.ps() + d.t_rcd.ps() + d.t_cl.ps() + d.burst()
    }

    #[test]
    fn a_miss_takes_the_tag_and_dram_a_hit_the_latency() {
        for inclusion in [Inclusion::Inclusive, Inclusion::NonInclusive, Inclusion::Exclusive] {
            let (mut m, p) = system(1, |p| p.llc.inclusion = inclusion);
            let (arrives, level, state) = m.llc_access(0, LINE, QUIET, CoreAccess::Load);
            assert_eq!((arrives, level, state), (QUIET + miss(&p), Level::Dram, EXCLUSIVE), "{inclusion:?}");
            assert_eq!(m.stats().llc_misses_load, 1);
            // Only what is not exclusive keeps a copy: there the next one hits, and waits for the data on their way.
            let again = m.llc_access(0, LINE, QUIET + Ps::from_ns(1), CoreAccess::Load);
            if inclusion == Inclusion::Exclusive {
                assert_eq!((again.1, m.stats().llc_misses_load), (Level::Dram, 2));
            } else {
                assert_eq!((again.0, again.1), (arrives, Level::Llc));
                let (t, hit) = (QUIET + Ps::from_us(1), p.llc.latency.ps());
                assert_eq!(m.llc_access(0, LINE, t, CoreAccess::Load).0, t + hit);
            }
        }
    }

    #[test]
    fn ports_and_banks_pass_one_line_at_a_time() {
        let (mut m, p) = system(2, |p| p.llc.inclusion = Inclusion::NonInclusive);
        for line in [LINE, LINE + 1] {
            m.llc_insert(line, Default::default(), Level::Llc, 0, 0, Ps::ZERO);
        }
        let hit = p.llc.latency.ps();
        let t = QUIET;
        assert_eq!(m.llc_access(0, LINE, t, CoreAccess::Load).0, t + hit);
        let (port, bank) = (p.llc.port_time.ps(), p.llc.bank_time.ps());
        assert_eq!(m.llc_access(0, LINE + 1, t, CoreAccess::Load).0, t + port + hit, "its port is taken");
        let second = m.llc_access(1, LINE, t, CoreAccess::Load).0;
        assert_eq!(second, t + bank + hit, "the other core's port is free, the bank is not");
        assert_eq!(
            m.llc_access(1, LINE, t - Ps::from_ns(500), CoreAccess::Load).0,
            t - Ps::from_ns(500) + hit,
            "before all of them"
        );
    }

    #[test]
    fn the_llcs_mshrs_bound_its_misses() {
        let (mut m, p) = system(4, |p| p.llc.mshrs = 2);
        // One bank each, so that only the registers are short.
        let ends: Vec<Ps> = (0..3).map(|i| m.llc_access(i, LINE + i as u64, QUIET, CoreAccess::Load).0).collect();
        let first = ends[0].min(ends[1]);
        assert_eq!(Ps(m.stats().llc_mshr_full_ps), first - QUIET - p.llc.latency.ps());
        assert!(ends[2] > first + p.dram.t_cl.ps());
    }

    #[test]
    fn misses_of_a_core_that_is_ahead_hold_up_no_earlier_one() {
        let (mut m, _) = system(4, |p| p.llc.mshrs = 2);
        let ahead = QUIET + Ps::from_ns(50);
        (0..3).for_each(|i| _ = m.llc_access(i, LINE + i as u64, ahead, CoreAccess::Load));
        let late = m.stats().llc_mshr_full_ps;
        let (alone, _, _) = system(4, |p| p.llc.mshrs = 2).0.llc_access(3, LINE + 3, QUIET, CoreAccess::Load);
        assert_eq!(m.llc_access(3, LINE + 3, QUIET, CoreAccess::Load).0, alone);
        assert!(late > 0 && m.stats().llc_mshr_full_ps == late);
    }

    #[test]
    fn another_cores_copy_costs_a_snoop_and_a_store_takes_it_away() {
        let (mut m, p) = system(2, |_| ());
        m.store(0, LINE * 64, 0, wiretime_base::Cycles(1000));
        assert!(m.private[0].holds(LINE));
        let (t, snoop) = (QUIET, p.llc.snoop_latency.ps());
        let (arrives, level, state) = m.llc_access(1, LINE, t, CoreAccess::Load);
        assert_eq!((level, state & EXCLUSIVE), (Level::Snoop, 0), "shared by both");
        assert_eq!(arrives, t + p.llc.latency.ps() + snoop);
        assert!(m.private[0].holds(LINE), "a load leaves it");
        assert_eq!(m.private_stats(1).snoop_hits, 1);
        let (_, _, state) = m.llc_access(1, LINE, t + Ps::from_us(1), CoreAccess::Store);
        assert!(!m.private[0].holds(LINE), "a store does not");
        assert!(state & EXCLUSIVE != 0);
        assert!(m.shared.directory.as_ref().unwrap().get(&LINE).is_none_or(|cores| cores & 1 == 0));
    }

    /// Cores that only read a line do not fight for it; cores that write it do.
    #[test]
    fn what_is_only_read_is_not_contended() {
        for write in [false, true] {
            let (mut m, _) = system(4, |_| ());
            for core in 0..4 {
                let t = wiretime_base::Cycles(100_000 + 300 * core as u64);
                if write {
                    m.store(core, LINE * 64, 0, t);
                } else {
                    m.load(core, LINE * 64, 0, t);
                }
            }
            assert_eq!(m.shared.contention.has(LINE), write);
        }
    }

    /// gem5's `mostly_excl`, what its `Cache::satisfyRequest`, `maintainClusivity` and `handleSnoop` do.
    #[test]
    fn a_mostly_exclusive_cache_lends_and_forgets() {
        let (mut m, _) = system(2, |p| p.llc.inclusion = Inclusion::MostlyExclusive);
        let at = |us| QUIET + Ps::from_us(us);
        let dirty = |m: &MemorySystem| m.shared.llc.find(LINE).map(|at| m.shared.llc.state(at) & DIRTY != 0);
        m.llc_insert(LINE, Default::default(), Level::Llc, DIRTY | DMA, 0, QUIET);
        let load = m.llc_access(0, LINE, QUIET, CoreAccess::Load);
        assert_eq!((load.1, load.2, dirty(&m)), (Level::Llc, 0, Some(true)), "a shared copy; the dirty line stays");
        m.llc_take_victim(LINE, 0, at(1));
        assert_eq!(dirty(&m), Some(true), "the copy's end changes nothing");
        let store = m.llc_access(0, LINE, at(2), CoreAccess::Store);
        assert_eq!((store.1, store.2, dirty(&m)), (Level::Llc, EXCLUSIVE | DIRTY, None), "a store takes it along");
        m.llc_take_victim(LINE, 0, at(3));
        assert_eq!(m.llc_access(0, LINE, at(4), CoreAccess::Load).1, Level::Dram, "clean victims are dropped");
        // A clean copy in another core does not answer, and is no reason for two to own the line.
        m.load(0, LINE * 64, 0, wiretime_base::Cycles(300_000));
        let second = m.llc_access(1, LINE, at(200), CoreAccess::Load);
        assert_eq!((second.1, second.2), (Level::Dram, 0));
        // A dirty one does.
        m.store(0, LINE * 64, 0, wiretime_base::Cycles(900_000));
        assert_eq!(m.llc_access(1, LINE, at(400), CoreAccess::Load).1, Level::Snoop);
    }

    /// Loaded from a dirty line, then stored to: the permission takes the way to the LLC, and what is owed moves up.
    #[test]
    fn a_store_behind_a_load_asks_a_mostly_exclusive_cache() {
        let (mut m, p) = system(1, |p| p.llc.inclusion = Inclusion::MostlyExclusive);
        m.llc_insert(LINE, Default::default(), Level::Llc, DIRTY | DMA, 0, QUIET);
        let t = wiretime_base::Cycles(300_000);
        let (there, _) = m.load(0, LINE * 64, 0, t);
        let (stored, _) = m.store(0, LINE * 64, 0, there);
        assert_eq!(stored - there, m.clock.cycle_at_or_after(p.llc.latency.ps()) + wiretime_base::Cycles(1));
        assert!(m.shared.llc.find(LINE).is_none());
    }

    #[test]
    fn what_an_inclusive_cache_drops_leaves_the_cores_and_dirty_lines_go_to_memory() {
        let (mut m, p) = system(1, |p| p.llc.inclusion = Inclusion::Inclusive);
        m.store(0, LINE * 64, 0, wiretime_base::Cycles(1000));
        let sets = p.llc.size.bytes() / 64 / u64::from(p.llc.ways);
        for way in 1..=u64::from(p.llc.ways) {
            m.llc_insert(LINE + way * sets, Default::default(), Level::Llc, 0, 0, QUIET);
        }
        assert!(!m.private[0].holds(LINE));
        assert_eq!((m.stats().llc_write_backs, m.dram_stats().writes_cache), (1, 1));
    }

    #[test]
    fn a_line_of_dma_that_leaves_unused_is_a_leak() {
        let (mut m, p) = system(1, |p| p.llc.inclusion = Inclusion::NonInclusive);
        let sets = p.llc.size.bytes() / 64 / u64::from(p.llc.ways);
        m.llc_insert(LINE, Default::default(), Level::Llc, DIRTY | DMA, 1, QUIET);
        m.llc_insert(LINE + sets, Default::default(), Level::Llc, DIRTY | DMA, 1, QUIET);
        assert_eq!(m.stats().dca_leaks, 1, "one way: the second takes the first one's place");
        m.llc_access(0, LINE + sets, QUIET + Ps::from_us(1), CoreAccess::Load);
        m.llc_insert(LINE + 2 * sets, Default::default(), Level::Llc, DIRTY | DMA, 1, QUIET);
        assert_eq!(m.stats().dca_leaks, 1, "used before it left");
    }
}
