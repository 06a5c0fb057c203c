//! The caches of one core: L1I, L1D, L2, with their prefetchers.
//!
//! Left out: banks of the L1D (the load pipes bound it), write-back buffers.

mod stores;

use super::cache::{self, Cache, CONTENDED, DIRTY, DMA, EXCLUSIVE, PREFETCHED};
use super::marks::Marks;
use super::mshr::{LinePort, Mshrs};
use super::prefetch::{Prefetchers, Trigger, Wanted};
use super::streaming::Streaming;
use super::{Address, Level, MemorySystem, LINE};
use crate::params::{CacheIndex, Platform};
use crate::requester::CoreAccess;
#[cfg(test)]
use wiretime_base::Clock;
use wiretime_base::{stats, Calendar, Cycles, Ps};

stats! {
    /// One core's caches. Names follow Linux perf where it has one.
    pub struct PrivateStats {
        l1_icache_loads: "lines", "L1I accesses, one a line fetched";
        l1_icache_load_misses: "lines", "L1I misses";
        l1_dcache_loads: "accesses", "L1D accesses by loads";
        l1_dcache_load_misses: "accesses", "of these, misses";
        l1_dcache_stores: "accesses", "L1D accesses by stores";
        l1_dcache_store_misses: "accesses", "of these, misses";
        l1_dcache_mshr_hits: "accesses", "loads of a line that was on its way";
        l1_dcache_write_backs: "lines", "dirty lines that left the L1D";
        write_streamed_lines: "lines", "lines that streams of stores wrote past the L1D, without reading them";
        l2_accesses_code: "lines", "L2 accesses by instruction fetch";
        l2_accesses_load: "lines", "L2 accesses by loads";
        l2_accesses_store: "lines", "L2 accesses by stores";
        l2_accesses_prefetch: "lines", "L2 accesses by software prefetches and the L1s' prefetchers";
        l2_accesses_walk: "lines", "L2 accesses by page walks";
        l2_misses_code: "lines", "L2 misses by instruction fetch";
        l2_misses_load: "lines", "L2 misses by loads";
        l2_misses_store: "lines", "L2 misses by stores";
        l2_misses_prefetch: "lines", "L2 misses by software prefetches and the L1s' prefetchers";
        l2_misses_walk: "lines", "L2 misses by page walks";
        l2_write_backs: "lines", "dirty lines that left the L2";
        l2_mshr_full_cycles: "cycles", "time that misses waited for one of the L2's MSHRs";
        software_prefetches: "instructions", "software prefetches";
        hardware_prefetches: "lines", "lines that the private caches' prefetchers asked for";
        hardware_prefetches_used: "lines", "of these, used by an access, or by the prefetcher of the cache above";
        snoop_hits: "lines", "misses that another core's private cache supplied, and uses of a line that cores fight for";
        snooped_lines: "lines", "lines given up or shared on demand of another core or a device";
    }
}

/// Bits of the marks of the L1D's lines: four times as many as 64 KiB hold.
const L1D_MARKS: u32 = 12;

/// One core's caches.
pub(super) struct Private {
    pub l1i: Cache<Cycles>,
    pub l1d: Cache<Cycles>,
    pub l2: Cache<Cycles>,
    /// Bits of a line that the L1I's and the L1D's index takes from the virtual address.
    l1i_bits: u64,
    l1d_bits: u64,
    /// What the L1D has, wherever: most lines that others ask for, it has not.
    l1d_marks: Marks<L1D_MARKS>,
    l1i_mshrs: Mshrs<Cycles>,
    l1d_mshrs: Mshrs<Cycles>,
    l2_mshrs: Mshrs<Cycles>,
    l2_banks: Vec<LinePort>,
    l1i_prefetchers: Prefetchers,
    l1d_prefetchers: Prefetchers,
    l2_prefetchers: Prefetchers,
    streaming: Streaming,
    /// The line that the load of an atomic operation has got, from whomever: its store takes part in no fight for it.
    contended: u64,
    /// Lines whose ownership is being asked for, when that was, and when it is there; the latest time of all.
    owning: Vec<(u64, Cycles, Cycles)>,
    owning_until: Cycles,
    pub port: Calendar<Ps>,
    pub stats: PrivateStats,
    /// Accesses that found their line in L1 but not at rest (on its way, or with a state to be changed), and watched lines
    /// that others took or shared.
    unrest: u64,
    /// Lines that are watched, in order.
    watched: Vec<u64>,
}

impl Private {
    pub fn new(p: &Platform) -> Self {
        let cache = |c: &crate::params::PrivateCache| Cache::new(c.size.bytes(), c.ways, c.replacement);
        let bits = |c: &crate::params::PrivateCache| match c.index {
            CacheIndex::Virtual => cache::virtual_bits(c.size.bytes(), c.ways),
            CacheIndex::Physical => 0,
        };
        Self {
            l1i_bits: bits(&p.l1i),
            l1d_bits: bits(&p.l1d),
            l1d_marks: Marks::default(),
            l1i: cache(&p.l1i),
            l1d: cache(&p.l1d),
            l2: Cache::new(p.l2.size.bytes(), p.l2.ways, p.l2.replacement),
            l1i_mshrs: Mshrs::new(p.l1i.mshrs),
            l1d_mshrs: Mshrs::new(p.l1d.mshrs),
            l2_mshrs: Mshrs::new(p.l2.mshrs),
            l2_banks: (0..p.l2.banks).map(|_| LinePort::new(p.l2.interval.into())).collect(),
            l1i_prefetchers: Prefetchers::new(&p.l1i.prefetcher),
            l1d_prefetchers: Prefetchers::new(&p.l1d.prefetcher),
            l2_prefetchers: Prefetchers::new(&p.l2.prefetcher),
            streaming: Streaming::new(&p.write_streaming),
            contended: u64::MAX,
            owning: Vec::with_capacity(64),
            owning_until: Cycles::ZERO,
            port: Calendar::default(),
            stats: PrivateStats::default(),
            unrest: 0,
            watched: Vec::new(),
        }
    }

    /// When a line that a store or atomic operation finds owned at `t` is: somebody may have asked for that only just before.
    #[inline]
    fn owned(&mut self, line: u64, t: Cycles) -> Cycles {
        if t >= self.owning_until {
            return t;
        }
        let under_way = self.owning.iter().filter(|&&(l, asked, done)| l == line && asked <= t && t < done);
        let owned = under_way.map(|&(_, _, done)| done).max().unwrap_or(t);
        self.unrest += u64::from(owned > t);
        owned
    }

    /// Ownership of a line has been asked for at `t`, and is there at `done`.
    fn owns(&mut self, line: u64, t: Cycles, done: Cycles) {
        // As many as stores of a core at a time.
        match self.owning.iter_mut().find(|over| over.2 <= t) {
            Some(over) => *over = (line, t, done),
            None => self.owning.push((line, t, done)),
        }
        self.owning_until = self.owning_until.max(done);
    }

    /// From now on what others do to these lines disturbs, and to no others.
    pub fn watch(&mut self, lines: &[u64]) {
        self.watched.clear();
        self.watched.extend(lines);
        self.watched.sort_unstable();
    }

    /// Whether a line is watched.
    pub fn watches(&self, line: u64) -> bool {
        self.watched.binary_search(&line).is_ok()
    }

    /// What happens beside accesses to lines that rest in L1, and what others do to what is watched: a sum that grows with each.
    pub fn disturbances(&self) -> u64 {
        let s = &self.stats;
        let missed = s.l1_icache_load_misses + s.l1_dcache_load_misses + s.l1_dcache_store_misses;
        missed + s.l2_accesses_prefetch + s.l2_accesses_walk + self.unrest
    }

    /// Uses of the L1I and the L1D so far, as their clocks count them.
    pub fn uses(&self) -> [u32; 2] {
        [self.l1i.uses(), self.l1d.uses()]
    }

    /// The same lines were used, in the same order, so many times more, and stored to so often.
    pub fn repeat(&mut self, uses: [u32; 2], stores: u64) {
        self.streaming.hit(stores);
        self.l1i.pass(uses[0]);
        self.l1d.pass(uses[1]);
    }

    /// Nothing is asked before cycle `t`, at `ps`, any more.
    pub fn reached(&mut self, t: Cycles, ps: Ps) {
        self.l2_banks.iter_mut().for_each(|bank| bank.reached(t));
        self.port.reached(ps);
    }

    fn l2_counter(&mut self, who: CoreAccess, missed: bool) -> &mut u64 {
        let s = &mut self.stats;
        let (accesses, misses) = match who {
            CoreAccess::Fetch => (&mut s.l2_accesses_code, &mut s.l2_misses_code),
            CoreAccess::Store => (&mut s.l2_accesses_store, &mut s.l2_misses_store),
            CoreAccess::Prefetch => (&mut s.l2_accesses_prefetch, &mut s.l2_misses_prefetch),
            CoreAccess::Walk => (&mut s.l2_accesses_walk, &mut s.l2_misses_walk),
            CoreAccess::Load => (&mut s.l2_accesses_load, &mut s.l2_misses_load),
        };
        if missed {
            misses
        } else {
            accesses
        }
    }

    /// Whether the line is in any of this core's data caches.
    pub fn holds(&self, line: u64) -> bool {
        self.l2.find(line).is_some() || self.find_l1d(line).is_some()
    }

    /// Where the L1D has the line, whatever its virtual address.
    fn find_l1d(&self, line: u64) -> Option<usize> {
        if !self.l1d_marks.may_have(line) {
            return None;
        }
        cache::places(line, self.l1d_bits).find_map(|place| self.l1d.find(place))
    }

    /// Takes it out of there.
    fn remove_l1d(&mut self, line: u64) -> Option<u8> {
        if !self.l1d_marks.may_have(line) {
            return None;
        }
        let state = cache::places(line, self.l1d_bits).find_map(|place| self.l1d.remove(place))?;
        self.l1d_marks.remove(line);
        Some(state)
    }

    /// Whether the line is here, and newer than what is beyond.
    pub fn is_dirty(&self, line: u64) -> bool {
        let of = |cache: &Cache<Cycles>, place: Option<usize>| place.is_some_and(|at| cache.state(at) & DIRTY != 0);
        of(&self.l2, self.l2.find(line)) || of(&self.l1d, self.find_l1d(line))
    }

    /// When somebody who asks for the line at `t` finds its data here.
    pub fn there(&mut self, line: u64, t: Cycles) -> Option<Cycles> {
        let places = [self.l2.find(line), self.find_l1d(line)];
        let caches = [&mut self.l2, &mut self.l1d].into_iter().zip(places);
        caches.filter_map(|(cache, place)| Some(cache.ready(place?, t))).max()
    }

    /// Takes the line away; returns its state, of both caches together. The L1I is software's to keep coherent.
    pub fn give_up(&mut self, line: u64) -> Option<u8> {
        let (outer, inner) = (self.l2.remove(line), self.remove_l1d(line));
        if outer.is_none() && inner.is_none() {
            return None;
        }
        self.stats.snooped_lines += 1;
        self.unrest += u64::from(self.watches(line));
        Some(outer.unwrap_or(0) | inner.unwrap_or(0))
    }

    /// Leaves the line shared and clean; returns the state that it had.
    pub fn share(&mut self, line: u64) -> Option<u8> {
        let mut state = None;
        let places = [self.l2.find(line), self.find_l1d(line)];
        for (cache, place) in [&mut self.l2, &mut self.l1d].into_iter().zip(places) {
            if let Some(at) = place {
                state = Some(state.unwrap_or(0) | cache.state(at));
                cache.set_state(at, 0);
            }
        }
        self.stats.snooped_lines += u64::from(state.is_some());
        self.unrest += u64::from(self.watches(line));
        state
    }
}

impl MemorySystem {
    /// A load of core `i` by the instruction at `pc`, started at cycle `t`; returns when its data can be used, and
    /// where they came from.
    #[inline]
    pub fn load(&mut self, i: usize, address: impl Into<Address>, pc: u64, t: Cycles) -> (Cycles, Level) {
        let address = address.into();
        let p = &mut self.private[i];
        p.stats.l1_dcache_loads += 1;
        let place = address.place(p.l1d_bits);
        if let Some(at) = p.l1d.touch(place) {
            let (hit, ready) = (t + self.l1d_latency, p.l1d.ready(at, t));
            if p.l1d.state(at) & (PREFETCHED | CONTENDED) == 0 && ready <= hit {
                return (hit, Level::L1);
            }
            return self.late_hit(i, at, place, pc, t);
        }
        self.private[i].stats.l1_dcache_load_misses += 1;
        self.l1d_miss(i, place, pc, t, CoreAccess::Load)
    }

    /// A load that the store queue answers: it looks into the L1D as any other, and asks for nothing that is not there.
    #[inline]
    pub fn load_forwarded(&mut self, i: usize, address: impl Into<Address>) {
        let p = &mut self.private[i];
        p.stats.l1_dcache_loads += 1;
        p.l1d.touch(address.into().place(p.l1d_bits));
    }

    /// A hit on a line that is on its way or was prefetched.
    fn late_hit(&mut self, i: usize, at: usize, place: u64, pc: u64, t: Cycles) -> (Cycles, Level) {
        let line = cache::line_at(place);
        let p = &mut self.private[i];
        p.unrest += 1;
        let (state, ready, level) = (p.l1d.state(at), p.l1d.ready(at, t), p.l1d.level(at));
        if ready > t {
            p.stats.l1_dcache_mshr_hits += 1;
        }
        if state & PREFETCHED != 0 {
            p.stats.hardware_prefetches_used += 1;
            p.l1d.set_state(at, state & !PREFETCHED);
            self.train_l1d(i, place, Trigger { pc, line, used: true, t, ready });
        }
        let hit = t + self.l1d_latency;
        if state & CONTENDED != 0 {
            let extra = self.contend(i, at, line, t);
            if extra > Cycles::ZERO {
                return (hit.max(ready) + extra, Level::Snoop);
            }
        }
        if ready > hit {
            (ready, level)
        } else {
            (hit, Level::L1)
        }
    }

    /// An access to a line that others use at the same time: cycles that a transfer adds.
    #[cold]
    fn contend(&mut self, i: usize, at: usize, line: u64, t: Cycles) -> Cycles {
        match self.shared.contention.access(i, line, self.clock.at(t)) {
            Some(true) => {
                self.private[i].stats.snoop_hits += 1;
                self.clock.cycle_at_or_after(self.shared.transfer())
            }
            Some(false) => Cycles::ZERO,
            None => {
                let l1d = &mut self.private[i].l1d;
                l1d.set_state(at, l1d.state(at) & !CONTENDED);
                Cycles::ZERO
            }
        }
    }

    /// What a store waits for that has a shared copy: even where nobody else has one, the permission comes from the LLC's
    /// directory.
    fn permission(&self, i: usize, line: u64, others: bool) -> Cycles {
        let snoop = if others { self.shared.snoop_latency } else { Ps::ZERO };
        self.clock.cycle_at_or_after(self.shared.latency(i, line) + snoop)
    }

    /// A software prefetch for reading; nobody waits for it.
    #[inline]
    pub fn prefetch(&mut self, i: usize, address: impl Into<Address>, t: Cycles) {
        let address = address.into();
        let p = &mut self.private[i];
        p.stats.software_prefetches += 1;
        let place = address.place(p.l1d_bits);
        if p.l1d.touch(place).is_none() {
            self.l1d_miss(i, place, 0, t, CoreAccess::Prefetch);
        }
    }

    /// A read of a page-table entry by the walker, which is served by the L2; returns when it is there.
    pub fn walk(&mut self, i: usize, address: u64, t: Cycles) -> Cycles {
        self.l2_access(i, address / LINE, 0, t, CoreAccess::Walk).0
    }

    /// Fetches the instruction line of `address` at cycle `t`; returns when it can be decoded. A hit costs nothing:
    /// the front end is pipelined.
    #[inline]
    pub fn fetch(&mut self, i: usize, address: impl Into<Address>, t: Cycles) -> Cycles {
        let address = address.into();
        let line = address.line();
        let p = &mut self.private[i];
        p.stats.l1_icache_loads += 1;
        let place = address.place(p.l1i_bits);
        if let Some(at) = p.l1i.touch(place) {
            let state = p.l1i.state(at);
            let ready = p.l1i.ready(at, t);
            if state & PREFETCHED != 0 {
                p.stats.hardware_prefetches_used += 1;
                p.l1i.set_state(at, 0);
                p.unrest += 1;
                self.train_l1i(i, place, Trigger { pc: 0, line, used: true, t, ready });
            }
            self.private[i].unrest += u64::from(ready > t);
            return t.max(ready);
        }
        p.stats.l1_icache_load_misses += 1;
        let start = p.l1i_mshrs.ready(t);
        let (ready, level, _) = self.l2_access(i, line, 0, start, CoreAccess::Fetch);
        let p = &mut self.private[i];
        p.l1i_mshrs.hold(t, ready);
        p.l1i.insert(place, (t, ready), level, 0, 0);
        self.train_l1i(i, place, Trigger { pc: 0, line, used: false, t, ready });
        ready
    }

    fn train_l1i(&mut self, i: usize, place: u64, trigger: Trigger) {
        for n in 0..self.private[i].l1i_prefetchers.len() {
            let wanted = self.private[i].l1i_prefetchers.train(n, trigger);
            self.prefetch_l1i(i, (n, wanted), place, trigger.t);
        }
    }

    fn prefetch_l1i(&mut self, i: usize, (n, wanted): (usize, Wanted), place: u64, t: Cycles) {
        for line in wanted.lines() {
            let (p, place) = (&mut self.private[i], cache::beside(place, line));
            if let Some(at) = p.l1i.find(place) {
                p.l1i_prefetchers.present(n, line, p.l1i.ready(at, t).max(t));
                continue;
            }
            if !p.l1i_mshrs.free(t) {
                p.l1i_prefetchers.refused(n, line);
                return;
            }
            p.stats.hardware_prefetches += 1;
            let (ready, level, _) = self.l2_access(i, line, 0, t, CoreAccess::Prefetch);
            let p = &mut self.private[i];
            p.l1i_mshrs.hold(t, ready);
            p.l1i_prefetchers.fetched(n, line, ready);
            p.l1i.insert(place, (t, ready), level, PREFETCHED, 0);
        }
    }

    #[inline(never)]
    fn l1d_miss(&mut self, i: usize, place: u64, pc: u64, t: Cycles, who: CoreAccess) -> (Cycles, Level) {
        let line = cache::line_at(place);
        let p = &mut self.private[i];
        p.streaming.end(place);
        if p.l1d_bits != 0 {
            // Under another virtual address it may be in another set: a line is in the L1D once.
            if let Some(state) = p.remove_l1d(line) {
                self.left_l1d(i, line, state, t);
            }
        }
        let p = &mut self.private[i];
        let start = p.l1d_mshrs.ready(t);
        let (mut ready, level, mut state) = self.l2_access(i, line, pc, start, who);
        if who == CoreAccess::Store {
            if state & EXCLUSIVE == 0 {
                let now = self.clock.at(start);
                let others = self.take_from_others(i, line, true, now).any;
                ready += self.permission(i, line, others);
            }
            state = EXCLUSIVE | DIRTY;
            self.mark_owned(i, line);
        }
        self.private[i].l1d_mshrs.hold(t, ready);
        self.fill_l1d(i, place, (t, ready), level, state, start);
        if who == CoreAccess::Load {
            self.train_l1d(i, place, Trigger { pc, line, used: false, t, ready });
        }
        (ready, level)
    }

    fn train_l1d(&mut self, i: usize, place: u64, trigger: Trigger) {
        for n in 0..self.private[i].l1d_prefetchers.len() {
            let wanted = self.private[i].l1d_prefetchers.train(n, trigger);
            self.prefetch_l1d(i, (n, wanted), place, trigger.t);
        }
    }

    /// Of the page of `place`.
    fn prefetch_l1d(&mut self, i: usize, (n, wanted): (usize, Wanted), place: u64, t: Cycles) {
        for line in wanted.lines() {
            let p = &mut self.private[i];
            if let Some(at) = p.find_l1d(line) {
                p.l1d_prefetchers.present(n, line, p.l1d.ready(at, t).max(t));
                continue;
            }
            if !p.l1d_mshrs.free(t) {
                p.l1d_prefetchers.refused(n, line);
                return;
            }
            let place = cache::beside(place, line);
            p.streaming.end(place);
            p.stats.hardware_prefetches += 1;
            let (ready, level, state) = self.l2_access(i, line, 0, t, CoreAccess::Prefetch);
            self.private[i].l1d_mshrs.hold(t, ready);
            self.private[i].l1d_prefetchers.fetched(n, line, ready);
            self.fill_l1d(i, place, (t, ready), level, state | PREFETCHED, t);
        }
    }

    fn mark_owned(&mut self, i: usize, line: u64) {
        let l2 = &mut self.private[i].l2;
        if let Some(at) = l2.find(line) {
            let state = l2.state(at);
            l2.set_state(at, state | EXCLUSIVE);
        }
    }

    fn fill_l1d(&mut self, i: usize, place: u64, ready: (Cycles, Cycles), level: Level, state: u8, t: Cycles) {
        let line = cache::line_at(place);
        let state = if self.shared.contention.has(line) { state | CONTENDED } else { state };
        let p = &mut self.private[i];
        p.l1d_marks.add(line);
        let Some(victim) = p.l1d.insert(place, ready, level, state & !DMA, 0) else { return };
        p.l1d_marks.remove(victim.line);
        p.stats.l1_dcache_write_backs += u64::from(victim.state & DIRTY);
        self.left_l1d(i, victim.line, victim.state, t);
    }

    /// A line has left the L1D.
    fn left_l1d(&mut self, i: usize, line: u64, state: u8, t: Cycles) {
        let p = &mut self.private[i];
        if let Some(at) = p.l2.find(line) {
            let old = p.l2.state(at);
            p.l2.set_state(at, old | state & DIRTY);
        } else if state & DIRTY != 0 {
            // A non-inclusive L2 takes the line back.
            self.fill_l2(i, line, (t, t), Level::L2, state & (DIRTY | EXCLUSIVE), t);
        } else {
            self.shared.left(i, line);
        }
    }

    /// Returns when the line is there, where from, and its state.
    fn l2_access(&mut self, i: usize, line: u64, pc: u64, t: Cycles, who: CoreAccess) -> (Cycles, Level, u8) {
        let p = &mut self.private[i];
        let bank = line as usize & (p.l2_banks.len() - 1);
        let t = p.l2_banks[bank].pass(t);
        *p.l2_counter(who, false) += 1;
        if let Some(at) = p.l2.touch(line) {
            let (hit, ready, state) = (t + self.l2_latency, p.l2.ready(at, t), p.l2.state(at));
            let level = if ready > hit { p.l2.level(at) } else { Level::L2 };
            if state & PREFETCHED != 0 {
                p.stats.hardware_prefetches_used += 1;
                p.l2.set_state(at, state & !PREFETCHED);
                self.train_l2(i, Trigger { pc, line, used: true, t, ready });
            }
            return (hit.max(ready), level, state & EXCLUSIVE);
        }
        *p.l2_counter(who, true) += 1;
        let missed = t + self.l2_latency;
        let start = p.l2_mshrs.ready(missed);
        p.stats.l2_mshr_full_cycles += (start - missed).0;
        self.objects.missed(line, who == CoreAccess::Fetch, false);
        let (ready, level, state) = self.beyond_l2(i, line, (t, start), who);
        self.private[i].l2_mshrs.hold(missed, ready);
        self.train_l2(i, Trigger { pc, line, used: false, t, ready });
        (ready, level, state & EXCLUSIVE)
    }

    /// An access came at a cycle, and the LLC is asked at another; fills the L2.
    fn beyond_l2(
        &mut self,
        i: usize,
        line: u64,
        (asked, start): (Cycles, Cycles),
        who: CoreAccess,
    ) -> (Cycles, Level, u8) {
        let at_llc = self.clock.at(start);
        let (arrives, level, state) = self.llc_access(i, line, at_llc, who);
        let ready = self.clock.cycle_at_or_after(arrives);
        self.shared.entered(i, line);
        self.fill_l2(i, line, (asked, ready), level, state, start);
        (ready, level, state)
    }

    /// Core `i` fetches into its L2 what a device has just written: from the LLC, or from the memory's write queue.
    pub(super) fn stash(&mut self, i: usize, line: u64, t: Ps) {
        let (_, level, state) = self.llc_access(i, line, t, CoreAccess::Prefetch);
        self.shared.entered(i, line);
        // What makes room leaves the L1D, too.
        self.private[i].unrest += 1;
        // A core that looks before finds the line, too, but never waits for what comes later.
        self.fill_l2(i, line, Default::default(), level, state, self.clock.cycle_at_or_after(t));
    }

    fn train_l2(&mut self, i: usize, trigger: Trigger) {
        for n in 0..self.private[i].l2_prefetchers.len() {
            let wanted = self.private[i].l2_prefetchers.train(n, trigger);
            self.prefetch_l2(i, (n, wanted), trigger.t);
        }
    }

    fn prefetch_l2(&mut self, i: usize, (n, wanted): (usize, Wanted), t: Cycles) {
        for line in wanted.lines() {
            let p = &mut self.private[i];
            // Of an L2 that is not inclusive the L1D may have it alone.
            if p.l2.find(line).is_some() || !self.l2_inclusive && p.find_l1d(line).is_some() {
                let there = p.there(line, t).unwrap_or(t);
                p.l2_prefetchers.present(n, line, there.max(t));
                continue;
            }
            let asked = t + self.l2_latency;
            if !p.l2_mshrs.free(asked) {
                p.l2_prefetchers.refused(n, line);
                return;
            }
            p.stats.hardware_prefetches += 1;
            let (ready, _, state) = self.beyond_l2(i, line, (t, asked), CoreAccess::Prefetch);
            let p = &mut self.private[i];
            p.l2_mshrs.hold(asked, ready);
            p.l2_prefetchers.fetched(n, line, ready);
            if let Some(at) = p.l2.find(line) {
                p.l2.set_state(at, state | PREFETCHED);
            }
        }
    }

    fn fill_l2(&mut self, i: usize, line: u64, ready: (Cycles, Cycles), level: Level, state: u8, t: Cycles) {
        let inclusive = self.l2_inclusive;
        let p = &mut self.private[i];
        let Some(victim) = p.l2.insert(line, ready, level, state & !DMA, 0) else { return };
        // Inclusion: what leaves the L2 leaves the L1D.
        let inner = if inclusive { p.remove_l1d(victim.line).unwrap_or(0) } else { 0 };
        let dirty = (victim.state | inner) & DIRTY;
        p.stats.l2_write_backs += u64::from(dirty);
        if inclusive || p.find_l1d(victim.line).is_none() {
            self.shared.left(i, victim.line);
        }
        let t = self.clock.at(t);
        self.llc_take_victim(victim.line, dirty, t);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::platform;

    #[test]
    fn a_line_that_two_cores_write_costs_a_transfer_a_use() {
        for (shared, atomic) in [(true, false), (true, true), (false, false)] {
            let p = platform();
            let mut memory = MemorySystem::new(&p, 2);
            let window = Clock::of(p.core.frequency).cycle_at_or_after(p.quantum());
            let (mut uses, mut transfers) = (0, 0);
            for w in 1..60 {
                for core in 0..2 {
                    let mut t = w * window;
                    while t < (w + 1) * window {
                        let address = if shared { 0 } else { core as u64 * 4096 };
                        let (loaded, level) =
                            if atomic { memory.load_to_write(core, address, 0, t) } else { (t, Level::L1) };
                        let (done, other) = memory.store(core, address, 0, loaded);
                        uses += 1;
                        transfers += u32::from(level != Level::L1) + u32::from(other != Level::L1);
                        t = done.max(t + Cycles(10));
                    }
                }
            }
            let share = f64::from(transfers) / f64::from(uses);
            assert!(if shared { share > 0.7 && share <= 1.0 } else { share < 0.01 }, "{transfers} of {uses}");
        }
    }

    /// A line that is on its way into a core is nobody's before it is there; who asks earlier than that core did waits as long.
    #[test]
    fn nobody_gets_a_line_before_it_has_come() {
        let p = platform();
        for device in [false, true] {
            for earlier in [false, true] {
                let mut memory = MemorySystem::new(&p, 2);
                let asked = Cycles(1000);
                let (there, level) = memory.load(0, 0x10_0000, 0, asked);
                assert_eq!(level, Level::Dram);
                let t = if earlier { asked - Cycles(600) } else { asked + Cycles(20) };
                let from = memory.clock.at(t);
                let done = if device {
                    let read = memory.dma_read((0x10_0000, 64), from, crate::io::probe::PROBE);
                    memory.clock.cycle_at_or_after(read)
                } else {
                    memory.load(1, 0x10_0000, 0, t).0
                };
                let least = if earlier { t + (there - asked) } else { there };
                assert!(done >= least, "device {device}: {done:?} before {least:?}");
                let later = there + Cycles(10_000);
                assert!(memory.load(1, 0x10_0000, 0, later).0 < later + (there - asked), "and then it is near");
            }
        }
        // Of one that is written a copy goes to the LLC, which has it no sooner.
        let mut memory = MemorySystem::new(&p, 3);
        let (there, _) = memory.store(0, 0x10_0000, 0, Cycles(1000));
        for core in [1, 2] {
            assert!(memory.load(core, 0x10_0000, 0, Cycles(1010 + core as u64)).0 >= there, "core {core}");
        }
        let read = memory.dma_read((0x10_0000, 64), memory.clock.at(Cycles(1100)), crate::io::probe::PROBE);
        assert!(read >= memory.clock.at(there));
    }

    /// Of an L2 that is not inclusive, what the L1D alone has is not fetched again for the L2's prefetcher.
    #[test]
    fn what_the_l1d_has_is_not_prefetched_from_memory() {
        let mut p = platform();
        (p.l2.inclusion, p.l2.prefetcher[0].kind) =
            (crate::params::Inclusion::NonInclusive, crate::params::PrefetcherKind::NextLine);
        p.l2.prefetcher.truncate(1);
        let mut memory = MemorySystem::new(&p, 1);
        let t = memory.store(0, 0x10_0040, 0, Cycles::ZERO).0;
        memory.private[0].l2.remove(0x10_0040 / LINE);
        memory.load(0, 0x10_0000, 0x400, t + Cycles(1000));
        assert!(memory.dram_stats().reads_prefetch > 0);
        assert!(memory.private[0].l2.find(0x10_0040 / LINE).is_none());
    }

    const COLOURS: u64 = 16 << 10; // the bytes of a way of the L1D: as far apart, lines share a set

    #[test]
    fn pages_of_one_colour_fill_an_l1d_that_is_indexed_by_virtual_address() {
        for (index, fits) in [(CacheIndex::Virtual, true), (CacheIndex::Physical, false)] {
            let mut p = platform();
            (p.l1d.index, p.l1d.prefetcher[0].kind) = (index, crate::params::PrefetcherKind::Off);
            let mut memory = MemorySystem::new(&p, 1);
            let (mut t, mut hits) = (Cycles::ZERO, 0);
            let all = p.l1d.size.bytes() / LINE;
            for _ in 0..2 {
                hits = 0;
                for n in 0..all {
                    let virtual_ = n * LINE;
                    let physical = virtual_ / 4096 * COLOURS + virtual_ % 4096;
                    let (done, level) = memory.load(0, Address { physical, virtual_ }, 0, t);
                    (t, hits) = (done, hits + u64::from(level == Level::L1));
                }
            }
            assert_eq!(hits == all, fits, "{index:?}: {hits} of {all}");
        }
    }

    #[test]
    fn a_line_is_in_the_l1d_once_whatever_its_virtual_addresses() {
        let p = platform();
        let mut memory = MemorySystem::new(&p, 1);
        let as_seen = |page: u64| Address { physical: 0, virtual_: page * 4096 };
        let (mut t, mut level) = memory.store(0, as_seen(0), 0, Cycles::ZERO);
        assert_ne!(level, Level::L1);
        for page in [1, 2, 3, 4] {
            (t, level) = memory.load(0, as_seen(page), 0, t);
            assert_ne!(level, Level::L1, "page {page}: it was in another set");
            assert_eq!(memory.load(0, as_seen(page), 0, t).1, Level::L1);
            let l1d = &memory.private[0].l1d;
            let bits = memory.private[0].l1d_bits;
            assert_eq!(cache::places(0, bits).filter(|&place| l1d.find(place).is_some()).count(), 1);
        }
        let state = memory.private[0].give_up(0).expect("the line");
        assert_ne!(state & DIRTY, 0, "what was stored under another address is not lost");
        assert!(!memory.private[0].holds(0));
    }
}
