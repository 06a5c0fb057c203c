//! Stores of a core: into lines that it owns, for the permission to write others, and in streams.

use super::super::cache::{CONTENDED, DIRTY, EXCLUSIVE, PREFETCHED};
use super::super::streaming::Target;
use super::super::{Address, Level, MemorySystem};
use crate::requester::CoreAccess;
use wiretime_base::{Cycles, Ps};

impl MemorySystem {
    /// A store by the instruction at `pc` to the line of `address`, leaving the store buffer at cycle `t`; returns when it is
    /// done.
    #[inline]
    pub fn store(&mut self, i: usize, address: impl Into<Address>, pc: u64, t: Cycles) -> (Cycles, Level) {
        let address = address.into();
        let line = address.line();
        let p = &mut self.private[i];
        p.stats.l1_dcache_stores += 1;
        let place = address.place(p.l1d_bits);
        let step = p.streaming.step(address);
        if let Some(at) = p.l1d.touch(place) {
            let (state, ready) = (p.l1d.state(at), p.l1d.ready(at, t));
            let owned = p.owned(line, t);
            if state == EXCLUSIVE | DIRTY && ready.max(owned) <= t + Cycles(1) {
                p.streaming.hit(1);
                return (t + Cycles(1), Level::L1);
            }
            p.unrest += 1;
            if state & PREFETCHED != 0 {
                p.stats.hardware_prefetches_used += 1;
                p.l1d_prefetchers.used(line);
            }
            if state & EXCLUSIVE != 0 {
                p.l1d.set_state(at, state & !PREFETCHED | DIRTY);
                let (ready, level) = if owned > ready { (owned, Level::Snoop) } else { (ready, p.l1d.level(at)) };
                if state & CONTENDED != 0 && std::mem::replace(&mut p.contended, u64::MAX) != line {
                    let extra = self.contend(i, at, line, t);
                    if extra > Cycles::ZERO {
                        return (ready.max(t + Cycles(1)) + extra, Level::Snoop);
                    }
                    return (ready.max(t + Cycles(1)), Level::L1);
                }
                return if ready > t + Cycles(1) { (ready, level) } else { (t + Cycles(1), Level::L1) };
            }
            return self.upgrade(i, at, line, t);
        }
        if p.streaming.writes(place, step) {
            p.unrest += 1;
            return (t + Cycles(1), Level::L1);
        }
        p.stats.l1_dcache_store_misses += 1;
        let miss = p.streaming.missed(address, place, step);
        if let Some(broken) = miss.broken {
            self.l1d_miss(i, broken, pc, t, CoreAccess::Store);
        }
        match miss.target {
            Target::L1 => self.l1d_miss(i, place, pc, t, CoreAccess::Store),
            target => self.stream(i, line, target, t),
        }
    }

    /// A load of what is written next (an atomic operation): others give the line up at once. Returns when its data can be used,
    /// and where they came from.
    pub fn load_to_write(&mut self, i: usize, address: impl Into<Address>, pc: u64, t: Cycles) -> (Cycles, Level) {
        let address = address.into();
        let p = &mut self.private[i];
        p.contended = address.line();
        let place = address.place(p.l1d_bits);
        match p.l1d.find(place) {
            Some(at) if p.l1d.state(at) & EXCLUSIVE != 0 => {
                let owned = p.owned(address.line(), t);
                let (done, level) = self.load(i, address, pc, t);
                if owned > done {
                    (owned, Level::Snoop)
                } else {
                    (done, level)
                }
            }
            Some(at) => {
                p.stats.l1_dcache_loads += 1;
                p.unrest += 1;
                let (done, level) = self.upgrade(i, at, address.line(), t);
                (done.max(t + self.l1d_latency), level)
            }
            None => {
                p.stats.l1_dcache_loads += 1;
                p.stats.l1_dcache_load_misses += 1;
                self.l1d_miss(i, place, pc, t, CoreAccess::Store)
            }
        }
    }

    /// A line comes into the L2 as it is to be from now on, whatever it was; returns when.
    fn overwrite(&mut self, i: usize, line: u64, t: Cycles) -> Cycles {
        let p = &mut self.private[i];
        let had = p.remove_l1d(line).unwrap_or(0) | p.l2.remove(line).unwrap_or(0);
        let now = self.clock.at(t);
        let others = self.take_from_others(i, line, true, now).any;
        let mut done = t + self.l2_latency;
        if had & EXCLUSIVE == 0 {
            done += self.permission(i, line, others);
        }
        self.llc_overwritten(line, now);
        self.shared.entered(i, line);
        self.fill_l2(i, line, (t, done), Level::L2, DIRTY | EXCLUSIVE, t);
        done
    }

    /// A line is overwritten without being read, and is not in the L1D afterwards. Returns when a store of it has found room to be
    /// gathered in.
    fn stream(&mut self, i: usize, line: u64, target: Target, t: Cycles) -> (Cycles, Level) {
        let p = &mut self.private[i];
        p.stats.write_streamed_lines += 1;
        let start = p.l1d_mshrs.ready(t);
        let (done, level) = if target == Target::L2 || p.l2.find(line).is_some() {
            let bank = line as usize & (p.l2_banks.len() - 1);
            let passed = p.l2_banks[bank].pass(start);
            (self.overwrite(i, line, passed), Level::L2)
        } else {
            if p.remove_l1d(line).is_some() {
                self.shared.left(i, line);
            }
            let now = self.clock.at(start);
            let asked = self.take_from_others(i, line, true, now).any;
            let sent = self.private[i].port.reserve(now, self.shared.port_time);
            let sent = self.shared.bank(line, sent);
            if target == Target::Llc {
                self.llc_take_victim(line, DIRTY, sent);
            } else {
                self.shared.drop_line(line);
                self.shared.dram.write(line, sent, None);
            }
            let snoop = if asked { self.shared.snoop_latency } else { Ps::ZERO };
            let level = if target == Target::Llc { Level::Llc } else { Level::Dram };
            (self.clock.cycle_at_or_after(sent + self.shared.latency(i, line) + snoop), level)
        };
        self.private[i].l1d_mshrs.hold(t, done);
        (start + Cycles(1), if start > t { level } else { Level::L1 })
    }

    /// A store of a whole line: gains ownership without reading memory.
    pub fn zero_line(&mut self, i: usize, address: impl Into<Address>, t: Cycles) -> (Cycles, Level) {
        let address = address.into();
        let line = address.line();
        let p = &mut self.private[i];
        p.stats.l1_dcache_stores += 1;
        p.unrest += 1;
        let place = address.place(p.l1d_bits);
        if let Some(at) = p.l1d.touch(place) {
            if p.l1d.state(at) & EXCLUSIVE != 0 {
                p.l1d.set_state(at, DIRTY | EXCLUSIVE);
                let owned = p.owned(line, t);
                let level = if owned > t { Level::Snoop } else { Level::L1 };
                return (owned.max(t + Cycles(1)), level);
            }
        } else {
            p.stats.l1_dcache_store_misses += 1;
        }
        let target = p.streaming.zeroed(address);
        if target != Target::L1 {
            return self.stream(i, line, target, t);
        }
        let done = self.overwrite(i, line, t);
        self.fill_l1d(i, place, (t, done), Level::L2, DIRTY | EXCLUSIVE, t);
        (done, Level::L2)
    }

    /// A store to a line that others may share, `at` in the L1D.
    fn upgrade(&mut self, i: usize, at: usize, line: u64, t: Cycles) -> (Cycles, Level) {
        let now = self.clock.at(t);
        let others = self.take_from_others(i, line, true, now).any;
        let p = &mut self.private[i];
        let mut done = t + Cycles(1);
        let contended = if self.shared.contention.has(line) { CONTENDED } else { 0 };
        p.l1d.set_state(at, DIRTY | EXCLUSIVE | contended);
        done = done.max(p.l1d.ready(at, t));
        self.mark_owned(i, line);
        done += self.permission(i, line, others);
        self.private[i].owns(line, t, done);
        (done, Level::Snoop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::LINE;
    use super::*;
    use crate::params::{Platform, PrefetcherKind, WriteStreaming};
    use crate::testing::platform;

    /// Writes `bytes` in stores of 16 B, each when the one before is done; returns when the last is.
    fn written(bytes: u64, change: impl FnOnce(&mut Platform)) -> (MemorySystem, Cycles) {
        let mut p = platform();
        p.l2.prefetcher[0].kind = PrefetcherKind::Off;
        change(&mut p);
        let mut memory = MemorySystem::new(&p, 1);
        let mut t = Cycles::ZERO;
        for address in (0..bytes).step_by(16) {
            t = memory.store(0, address, 0, t).0;
        }
        (memory, t)
    }

    #[test]
    fn a_long_memset_reads_only_where_it_began() {
        let p = platform().write_streaming;
        let bytes = 2 << 20;
        let (memory, streamed) = written(bytes, |_| {});
        let unread = (bytes - p.after.bytes()) / LINE;
        assert_eq!(memory.private_stats(0).write_streamed_lines, unread);
        assert_eq!(memory.dram_stats().reads_store, p.after.bytes() / LINE);
        assert_eq!(memory.dram_stats().writes_cache, (bytes - p.memory_after.bytes()) / LINE);
        let none = "0B".parse().expect("a size");
        let never = WriteStreaming { after: none, llc_after: none, memory_after: none, ..p };
        let (memory, read) = written(bytes, |p| p.write_streaming = never);
        assert_eq!(memory.dram_stats().reads_store, bytes / LINE);
        assert!(streamed * 4 < read, "{streamed:?} against {read:?}");
    }

    #[test]
    fn what_a_stream_wrote_is_found_where_it_went() {
        let p = platform().write_streaming;
        // From the line where the stream begins on, nothing is in the L1D.
        for (bytes, where_) in [(p.after.bytes() * 2, Level::L2), (p.llc_after.bytes() * 2, Level::Llc)] {
            let (mut memory, t) = written(bytes, |_| {});
            let last = bytes - 2 * LINE;
            assert_eq!(memory.load(0, last, 0, t).1, where_);
        }
    }

    /// A line that a stream has half written, and a prefetcher brings: it is in the L1D once, and others can take it away.
    #[test]
    fn what_a_stream_has_open_is_prefetched_once() {
        let mut p = platform();
        // Its index does not take bits of the virtual address.
        (p.l1d.size, p.l1d.ways) = ("32KiB".parse().expect("a size"), 8);
        let (mut memory, mut t) = (MemorySystem::new(&p, 2), Cycles::ZERO);
        let open = p.write_streaming.after.bytes() + 16 * LINE;
        for address in (0..open + 16).step_by(16) {
            t = memory.store(0, address, 0, t).0;
        }
        let there = |m: &MemorySystem| m.private[0].l1d.find(open / LINE).is_some();
        assert!(!there(&memory));
        for n in (3..9).rev() {
            t = memory.load(0, open - n * LINE, 0x400, t + Cycles(500)).0;
        }
        assert!(there(&memory), "the prefetcher has brought it");
        t = memory.store(0, 1 << 30, 0, t + Cycles(1000)).0;
        memory.load_to_write(1, open, 0, t + Cycles(1000));
        assert!(!there(&memory), "no second copy is left");
    }

    /// A store into the line that is being streamed goes with the stream only where it goes on from it.
    #[test]
    fn what_comes_later_to_a_streamed_line_is_no_part_of_the_stream() {
        let (mut memory, t) = written(platform().write_streaming.after.bytes() + LINE + 16, |_| {});
        let open = platform().write_streaming.after.bytes() + LINE;
        assert_eq!(memory.store(0, open + 16, 0, t).1, Level::L1, "it goes on");
        let misses = memory.private_stats(0).l1_dcache_store_misses;
        let (done, _) = memory.store(0, open + 56, 0, t + Cycles(100_000));
        assert!(done > t + Cycles(100_001) && memory.private_stats(0).l1_dcache_store_misses == misses + 1);
    }

    /// To own a line costs the way to the directory, unless it is owned; and no memory is read.
    #[test]
    fn whole_lines_are_owned_before_they_are_zeroed() {
        let p = platform();
        let mut memory = MemorySystem::new(&p, 2);
        let (owned, _) = memory.zero_line(0, 0x8000u64, Cycles::ZERO);
        let way = memory.clock.cycle_at_or_after(p.llc.latency.ps());
        assert_eq!(owned, Cycles(p.l2.latency.into()) + way);
        assert_eq!(memory.zero_line(0, 0x8000u64, owned), (owned + Cycles(1), Level::L1));
        let s = memory.private_stats(0);
        assert_eq!((s.l1_dcache_stores, s.l1_dcache_store_misses), (2, 1));
        assert_eq!(memory.dram_stats().reads_store, 0);
    }

    /// Where the LLC has all that cores have, it has what they overwrite as well.
    #[test]
    fn an_inclusive_llc_has_what_is_overwritten() {
        let mut p = platform();
        p.llc.inclusion = crate::params::Inclusion::Inclusive;
        let mut memory = MemorySystem::new(&p, 1);
        memory.zero_line(0, 0x8000u64, Cycles::ZERO);
        assert!(memory.shared.llc.find(0x8000 / LINE).is_some());
    }

    /// A line that another core has, dirty or shared; and one that nobody has: each costs one way, at the load.
    #[test]
    fn what_is_read_to_be_written_is_asked_for_once() {
        let p = platform();
        for shared in [false, true] {
            let mut memory = MemorySystem::new(&p, 2);
            let mut t = memory.store(1, 0x1000, 0, Cycles::ZERO).0;
            if shared {
                t = memory.load(0, 0x1000, 0, t + Cycles(1000)).0;
            }
            let (there, level) = memory.load_to_write(0, 0x1000, 0, t + Cycles(1000));
            assert_eq!((level, memory.private_stats(1).snooped_lines > 0), (Level::Snoop, true));
            assert_eq!(memory.store(0, 0x1000, 0, there), (there + Cycles(1), Level::L1));
            assert_eq!(memory.load_to_write(0, 0x1000, 0, there + Cycles(9)).1, Level::L1);
        }
        let mut memory = MemorySystem::new(&p, 2);
        let (there, level) = memory.load_to_write(0, 0x1000, 0, Cycles::ZERO);
        assert_eq!(level, Level::Dram);
        assert_eq!(memory.store(0, 0x1000, 0, there), (there + Cycles(1), Level::L1));
        let private = memory.private_stats(0);
        assert_eq!((private.l1_dcache_load_misses, private.l1_dcache_store_misses), (1, 0));
    }

    /// Until ownership of a shared line is there, no store and no atomic operation on it is done.
    #[test]
    fn nothing_is_written_before_the_line_is_owned() {
        let p = platform();
        for atomic in [false, true] {
            let mut memory = MemorySystem::new(&p, 2);
            let mut t = memory.load(0, 0x1000, 0, Cycles::ZERO).0 + Cycles(1000);
            t = memory.load(1, 0x1000, 0, t).0 + Cycles(1000);
            let (owned, level) = memory.store(0, 0x1000, 0, t);
            assert!(level == Level::Snoop && owned > t + Cycles(20));
            let next = if atomic {
                memory.load_to_write(0, 0x1008, 0, t + Cycles(1))
            } else {
                memory.store(0, 0x1008, 0, t + Cycles(1))
            };
            assert!(next.0 >= owned, "{next:?} before {owned:?}");
            assert_eq!(next.1, Level::Snoop);
            assert_eq!(memory.store(0, 0x1010, 0, owned).0, owned + Cycles(1));
        }
        // However many are asked for at a time.
        let mut memory = MemorySystem::new(&p, 2);
        let mut t = Cycles::ZERO;
        let lines = (0..20u64).map(|n| 0x10_0000 + n * LINE);
        for line in lines.clone() {
            t = memory.load(0, line, 0, t).0 + Cycles(1000);
            t = memory.load(1, line, 0, t).0 + Cycles(1000);
        }
        let owned: Vec<Cycles> = lines.clone().map(|line| memory.store(0, line, 0, t).0).collect();
        for (line, owned) in lines.zip(owned) {
            assert!(memory.store(0, line + 8, 0, t + Cycles(1)).0 >= owned);
        }
    }

    #[test]
    fn a_store_into_what_was_streamed_owns_it_again() {
        let (mut memory, t) = written(platform().write_streaming.llc_after.bytes() * 2, |_| {});
        let (done, level) = memory.store(0, platform().write_streaming.llc_after.bytes() + LINE, 0, t + Cycles(1000));
        assert_eq!(level, Level::Llc);
        assert_eq!(memory.store(0, platform().write_streaming.llc_after.bytes() + LINE, 0, done).1, Level::L1);
    }
}
