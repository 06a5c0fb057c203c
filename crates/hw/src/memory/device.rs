//! DMA into and out of the caches: direct cache access (DDIO, cache stashing to the LLC) or past them.
//!
//! A write takes its time when it is decided, and changes caches when it is visible: cores that run behind the devices find
//! until then what was there before. Left out: the same for reads, which make cores' lines shared as they are decided.

use super::cache::{Victim, DIRTY, DMA, SHARE};
use super::crossbar::Entry;
use super::shared::{cores, Copies};
use super::{lines, Level, MemorySystem};
use crate::params::{Beyond, DeviceReads};
use crate::requester::{DmaRequester, Requester};
use wiretime_base::Ps;

/// No core: a device.
const DEVICE: usize = u32::MAX as usize;

impl MemorySystem {
    /// A device writes `length` bytes at `address`, arriving at `t`; returns when all are visible to cores. Until then caches
    /// have what they had ([`Self::dma_visible`]).
    pub fn dma_write(&mut self, (address, length): (u64, u64), t: Ps, by: DmaRequester) -> Ps {
        let by_llc = (self.dca_policy)(by, self.shared.dca_ways) > 0;
        let mut visible = t;
        for line in lines(address, length) {
            self.shared.stats.dma_writes += 1;
            let t = if by_llc { self.shared.crossbar.device_writes(t) } else { t };
            let at_bank = self.shared.bank(line, t);
            // Visible once the point of coherence has it.
            let looked = at_bank + self.device_latency(line, by_llc);
            visible = visible.max(looked);
            if !by_llc {
                self.shared.dram.write(line, looked, Some(by));
            }
        }
        visible
    }

    /// What a device has written becomes visible: cores' copies go; the LLC has it, where it is direct; it is stashed, where
    /// that is asked for.
    pub fn dma_visible(&mut self, (address, length): (u64, u64), t: Ps, by: DmaRequester) {
        let ways = (self.dca_policy)(by, self.shared.dca_ways);
        let stashes = self.users.stashes(self.stash, by);
        for line in lines(address, length) {
            self.take_from_others(DEVICE, line, true, t);
            if ways == 0 {
                self.shared.drop_line(line);
            } else if let Some(at) = self.shared.llc.touch(line) {
                self.shared.stats.dma_write_updates += 1;
                let share = self.shared.llc.state(at) & SHARE;
                self.shared.llc.set_state(at, DIRTY | DMA | share);
            } else if !self.room_for_device(t) {
                self.shared.dram.write(line, t, Some(by));
            } else {
                self.shared.stats.dma_write_allocations += 1;
                let share = if self.shared.share.limited() { SHARE } else { 0 };
                self.llc_insert(line, Default::default(), Level::Llc, DIRTY | DMA | share, ways, t);
                self.shared.share.entered(line);
            }
            if let Some(core) = stashes {
                self.shared.stats.dma_write_stashes += 1;
                self.stash(core, line, t);
            }
        }
    }

    /// From the bank to what lies behind, or past it.
    fn device_latency(&self, line: u64, by_llc: bool) -> Ps {
        if by_llc {
            self.shared.device_latency(line)
        } else {
            self.shared.device_past_latency
        }
    }

    /// Whether a device may put another line into the LLC: the oldest of its own makes room, if that is the rule.
    fn room_for_device(&mut self, t: Ps) -> bool {
        if !self.shared.share.full() {
            return true;
        }
        self.shared.stats.dma_write_overflows += 1;
        if self.shared.share.beyond == Beyond::Memory {
            return false;
        }
        if let Some(line) = self.shared.share.take_oldest() {
            if let Some(state) = self.shared.llc.remove(line) {
                self.let_go(Victim { line, state }, t);
            }
        }
        true
    }

    /// What cores have of a line for a device that reads it.
    fn asked_of_cores(&mut self, line: u64, t: Ps) -> Copies {
        if self.shared.device_reads == DeviceReads::Share {
            return self.take_from_others(DEVICE, line, false, t);
        }
        let others = self.others(DEVICE, line);
        let dirty = cores(others).any(|i| self.private[i].is_dirty(line));
        Copies { any: others != 0, dirty, there: self.there(others, line, t) }
    }

    /// When the copy that a core has written since the LLC has a line is there: never where that is exclusive of all of a core's.
    fn newer_in_core(&mut self, line: u64, t: Ps) -> Option<Ps> {
        // An L2 that is not inclusive passes on what its L1D may still write.
        if self.shared.exclusive() && self.l2_inclusive || self.others(DEVICE, line) == 0 {
            return None;
        }
        let copies = self.asked_of_cores(line, t);
        copies.dirty.then_some(copies.there)
    }

    /// A device reads `length` bytes at `address`, its request arriving at `t`; returns when the last is there.
    pub fn dma_read(&mut self, (address, length): (u64, u64), t: Ps, by: DmaRequester) -> Ps {
        let mut done = t;
        let by_llc = (self.dca_policy)(by, self.shared.dca_ways) > 0;
        for line in lines(address, length) {
            self.shared.stats.dma_reads += 1;
            let t = if by_llc { self.shared.crossbar.enter(Entry::Request, t) } else { t };
            let at_bank = self.shared.bank(line, t);
            let looked = at_bank + self.shared.device_latency(line);
            if let Some(at) = self.shared.llc.touch(line) {
                self.shared.stats.dma_read_hits += 1;
                let (mut arrives, state) = (looked.max(self.shared.llc.ready(at, at_bank)), self.shared.llc.state(at));
                if let Some(there) = self.newer_in_core(line, t) {
                    arrives = (arrives + self.shared.snoop_latency).max(there);
                }
                done = done.max(arrives);
                if by_llc && self.shared.taken_along(state, self.others(DEVICE, line) != 0) {
                    self.shared.crossbar.device_returns(arrives);
                }
                continue;
            }
            let copies = self.asked_of_cores(line, t);
            if self.shared.supplied(copies) {
                self.shared.stats.dma_read_hits += 1;
                done = done.max((looked + self.shared.snoop_latency).max(copies.there));
            } else {
                let missed = at_bank + self.device_latency(line, by_llc);
                done = done.max(self.shared.dram.read(line, missed, Requester::Device(by)));
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::super::LINE;
    use super::*;
    use crate::params::{Inclusion, Platform, Stash};
    use crate::requester::{CoreAccess, Moves, Purpose, Side};
    use crate::testing::platform;
    use wiretime_base::Cycles;

    const ADDRESS: u64 = 64_000;
    const BY: DmaRequester =
        DmaRequester { device: 0, purpose: Purpose { side: Side::Receive, queue: 0, moves: Moves::Payload } };
    const QUIET: Ps = Ps::from_ns(78_400);

    /// A device writes, and cores see it; when.
    fn written(m: &mut MemorySystem, place: (u64, u64), t: Ps, by: DmaRequester) -> Ps {
        let visible = m.dma_write(place, t, by);
        m.dma_visible(place, visible, by);
        visible
    }

    fn system(dca_ways: u32) -> (MemorySystem, Platform) {
        let mut p = platform();
        (p.dram.channels, p.llc.dca_ways, p.llc.inclusion) = (1, dca_ways, Inclusion::NonInclusive);
        (MemorySystem::new(&p, 1), p)
    }

    #[test]
    fn writes_are_visible_once_the_llc_has_looked() {
        for ways in [0, 4] {
            let (mut m, p) = system(ways);
            assert_eq!(written(&mut m, (ADDRESS, 64), QUIET, BY), QUIET + p.llc.device_latency.ps());
            assert_eq!(m.stats().dma_writes, 1);
            assert_eq!(m.stats().dma_write_allocations, u64::from(ways > 0));
            assert_eq!(m.dram_stats().writes_dma, u64::from(ways == 0));
        }
    }

    #[test]
    fn a_devices_way_is_its_own_and_another_past_the_cache() {
        for (ways, way) in [(4, 7), (0, 3)] {
            let (_, mut p) = system(ways);
            p.llc.device_latency = "7ns".parse().unwrap();
            p.llc.device_past_latency = "3ns".parse().unwrap();
            let mut m = MemorySystem::new(&p, 1);
            assert_eq!(written(&mut m, (ADDRESS, 64), QUIET, BY), QUIET + Ps::from_ns(way));
            let d = &p.dram;
            let dram = d.controller_latency.ps() + d.t_rcd.ps() + d.t_cl.ps() + d.burst();
            let t = QUIET + Ps::from_us(1);
            assert_eq!(m.dma_read((ADDRESS + (1 << 20), 64), t, BY), t + Ps::from_ns(way) + dram);
            m.store(0, ADDRESS + 4096, 0, Cycles(1000));
            m.shared.drop_line((ADDRESS + 4096) / LINE);
            let supplied = m.dma_read((ADDRESS + 4096, 64), t, BY);
            assert_eq!(supplied, t + Ps::from_ns(7) + p.llc.snoop_latency.ps(), "a cache answers");
        }
    }

    /// What a core has only read stays where it was, so nothing is brought back; what nobody has read is.
    #[test]
    fn a_line_that_a_core_shares_is_not_taken_along() {
        let (_, mut p) = system(4);
        p.llc.inclusion = Inclusion::MostlyExclusive;
        (p.llc.crossbar_request, p.llc.crossbar_line) = ("1ns".parse().unwrap(), "3ns".parse().unwrap());
        (p.llc.io_cache, p.llc.banks, p.llc.bank_time) = (true, 1, "0.1ns".parse().unwrap());
        for (reads, taken) in [(false, 4), (true, 1)] {
            let mut m = MemorySystem::new(&p, 1);
            let lines = 50;
            written(&mut m, (ADDRESS, lines * 64), QUIET, BY);
            if reads {
                (0..lines).for_each(|n| _ = m.load(0, ADDRESS + n * 64, 0, Cycles(600_000 + n * 1000)));
            }
            let t = QUIET + Ps::from_ms(1);
            m.dma_read((ADDRESS, lines * 64), t, BY);
            // Who comes behind them all waits for what they have taken.
            let free = m.shared.crossbar.enter(Entry::Request, t) - t;
            let last = p.llc.device_latency.ps();
            assert!(
                (Ps::from_ns(lines * taken) - last..=Ps::from_ns(lines * taken)).contains(&free),
                "{reads}: {free:?}"
            );
        }
    }

    #[test]
    fn the_bytes_at_both_ends_count_as_lines() {
        let (mut m, _) = system(4);
        for (length, lines) in [(1, 1), (64, 1), (65, 2), (0, 1)] {
            let before = m.stats().dma_writes;
            written(&mut m, (ADDRESS, length), QUIET, BY);
            assert_eq!(m.stats().dma_writes - before, lines, "{length} B");
        }
        let before = m.stats().dma_writes;
        written(&mut m, (ADDRESS + 63, 2), QUIET, BY);
        assert_eq!(m.stats().dma_writes - before, 2);
    }

    #[test]
    fn with_direct_cache_access_a_core_finds_the_line_in_the_llc_without_in_dram() {
        for (ways, level) in [(0, Level::Dram), (4, Level::Llc)] {
            let (mut m, _) = system(ways);
            written(&mut m, (ADDRESS, 64), QUIET, BY);
            assert_eq!(m.llc_access(0, ADDRESS / LINE, QUIET + Ps::from_us(1), CoreAccess::Load).1, level);
            // Written again while the LLC has it.
            written(&mut m, (ADDRESS, 64), QUIET + Ps::from_us(2), BY);
            assert_eq!(m.stats().dma_write_updates, u64::from(ways > 0));
        }
    }

    /// When it becomes visible, and not as it is decided: until then the core has what was there before.
    #[test]
    fn a_write_takes_the_line_from_the_core_that_has_it() {
        for ways in [0, 4] {
            let (mut m, p) = system(ways);
            m.store(0, ADDRESS, 0, Cycles(1000));
            let visible = m.dma_write((ADDRESS, 64), QUIET, BY);
            let before = m.clock.cycle_at_or_after(visible) - Cycles(10);
            assert!(m.private[0].holds(ADDRESS / LINE));
            assert_eq!(m.load(0, ADDRESS, 0, before), (before + Cycles(p.l1d.latency.into()), Level::L1));
            m.dma_visible((ADDRESS, 64), visible, BY);
            assert!(!m.private[0].holds(ADDRESS / LINE));
            assert_eq!(m.private_stats(0).snooped_lines, 1);
            let level = if ways > 0 { Level::Llc } else { Level::Dram };
            assert_eq!(m.load(0, ADDRESS, 0, before + Cycles(10)).1, level);
        }
    }

    #[test]
    fn reads_are_served_where_the_line_is() {
        let (mut m, p) = system(4);
        let (latency, snoop) = (p.llc.device_latency.ps(), p.llc.snoop_latency.ps());
        written(&mut m, (ADDRESS, 64), QUIET, BY);
        let t = QUIET + Ps::from_us(1);
        assert_eq!(m.dma_read((ADDRESS, 64), t, BY), t + latency, "from the LLC");
        m.store(0, ADDRESS + 4096, 0, Cycles(1000));
        m.shared.drop_line((ADDRESS + 4096) / LINE);
        assert_eq!(m.dma_read((ADDRESS + 4096, 64), t, BY), t + latency + snoop, "from the core");
        assert!(m.private[0].holds((ADDRESS + 4096) / LINE), "which keeps it");
        let d = &p.dram;
        let dram = d.controller_latency.ps() + d.t_rcd.ps() + d.t_cl.ps() + d.burst();
        let t = t + Ps::from_ns(500);
        assert_eq!(m.dma_read((ADDRESS + (1 << 20), 64), t, BY), t + latency + dram, "from memory");
        assert_eq!((m.stats().dma_reads, m.stats().dma_read_hits), (3, 2));
    }

    #[test]
    fn allocations_stay_in_their_ways() {
        let (mut m, p) = system(2);
        let sets = p.llc.size.bytes() / 64 / u64::from(p.llc.ways);
        for n in 0..10 {
            written(&mut m, ((ADDRESS / LINE + n * sets) * LINE, 64), QUIET, BY);
        }
        assert_eq!((m.stats().llc_write_backs, m.stats().llc_write_backs_device), (8, 8));
        assert_eq!(m.stats().dca_leaks, 8, "two of ten are left");
    }

    #[test]
    fn beyond_its_lines_the_oldest_leaves_or_the_write_goes_to_memory() {
        for (beyond, gone, to_memory) in [(Beyond::Oldest, 0, 0), (Beyond::Memory, 3, 1)] {
            let (_, mut p) = system(4);
            (p.llc.dca_lines, p.llc.dca_beyond) = (3, beyond);
            let mut m = MemorySystem::new(&p, 1);
            // Read by the core or not: what a device has brought counts until it leaves. Of different sets.
            for n in 0..4u64 {
                written(&mut m, (ADDRESS + n * 64, 64), QUIET + Ps::from_us(n), BY);
                m.llc_access(0, ADDRESS / LINE, QUIET + Ps::from_us(n) + Ps::from_ns(500), CoreAccess::Load);
            }
            let stats = m.stats();
            assert_eq!((stats.dma_write_overflows, stats.dma_write_allocations), (1, 4 - to_memory));
            let there: Vec<bool> = (0..4).map(|n| m.shared.llc.find(ADDRESS / LINE + n).is_some()).collect();
            assert!((0..4).all(|n| there[n as usize] || n == gone), "{beyond:?}: {there:?}");
            assert_eq!(m.dram_stats().writes_dma, to_memory);
            // What is there already is written in place, whatever the share.
            written(&mut m, (ADDRESS + 64, 64), QUIET + Ps::from_us(9), BY);
            assert_eq!((m.stats().dma_write_updates, m.stats().dma_write_overflows), (1, 1));
        }
    }

    #[test]
    fn what_is_stashed_is_in_the_l2_of_the_core_that_polls() {
        for (stash, ways, payload, completion) in [
            (Stash::None, 4, Level::Llc, Level::Llc),
            (Stash::Completions, 4, Level::Llc, Level::L2),
            (Stash::All, 4, Level::L2, Level::L2),
            (Stash::All, 0, Level::L2, Level::L2),
        ] {
            let (_, mut p) = system(ways);
            p.llc.stash = stash;
            let mut m = MemorySystem::new(&p, 2);
            m.users.uses(1, BY.device.into(), (Side::Receive, 0));
            let completions = DmaRequester { purpose: Purpose { moves: Moves::Completions, ..BY.purpose }, ..BY };
            for (n, (by, level)) in [(BY, payload), (completions, completion)].into_iter().enumerate() {
                let address = ADDRESS + n as u64 * 4096;
                // What the core had of it goes first.
                m.store(1, address, 0, Cycles(1000));
                written(&mut m, (address, 64), QUIET, by);
                assert_eq!(m.private[1].holds(address / LINE), level == Level::L2);
                let t = Cycles(1_000_000);
                assert_eq!(m.load(1, address, 0, t).1, level, "{stash:?}");
                // Another core does not have it, and gets it from the one that has.
                assert_ne!(m.load(0, address, 0, t + Cycles(1000)).1, Level::L2);
                // Written again it is there once more, and nobody else has an old one.
                written(&mut m, (address, 64), QUIET + Ps::from_us(900), by);
                assert!(!m.private[0].holds(address / LINE));
                assert_eq!(m.load(1, address, 0, t + Cycles(2_000_000)).1, level);
            }
            // It may take the room of what a loop rests on.
            let before = m.disturbances(1);
            written(&mut m, (ADDRESS + (1 << 20), 64), QUIET, BY);
            assert_eq!(m.disturbances(1) > before, payload == Level::L2);
            let stashed = [payload, completion].iter().filter(|&&level| level == Level::L2).count() as u64;
            assert_eq!(m.stats().dma_write_stashes, 2 * stashed + u64::from(payload == Level::L2));
        }
    }

    #[test]
    fn a_snapshot_leaves_the_core_its_line_and_the_llc_without_it() {
        for (reads, kept) in [(DeviceReads::Share, false), (DeviceReads::Snapshot, true)] {
            let (_, mut p) = system(4);
            p.llc.device_reads = reads;
            let mut m = MemorySystem::new(&p, 1);
            m.store(0, ADDRESS, 0, Cycles(1000));
            m.shared.drop_line(ADDRESS / LINE);
            let t = QUIET + p.llc.device_latency.ps() + p.llc.snoop_latency.ps();
            assert_eq!(m.dma_read((ADDRESS, 64), QUIET, BY), t);
            assert!(m.private[0].holds(ADDRESS / LINE));
            assert_eq!(m.shared.llc.find(ADDRESS / LINE).is_none(), kept);
            let store = Cycles(1_000_000);
            let asks = m.store(0, ADDRESS, 0, store).0 > store + m.clock.cycle_at_or_after(p.llc.latency.ps());
            assert_eq!(asks, !kept, "{reads:?}: it asks for the line again or not");
        }
    }

    /// What a core has written again since is with it, whatever the LLC keeps of what was before.
    #[test]
    fn what_a_core_writes_again_is_read_from_it_again() {
        for inclusion in [Inclusion::Exclusive, Inclusion::NonInclusive, Inclusion::Inclusive] {
            let (_, mut p) = system(4);
            (p.llc.inclusion, p.llc.device_reads) = (inclusion, DeviceReads::Share);
            let mut m = MemorySystem::new(&p, 2);
            let (latency, snoop) = (p.llc.device_latency.ps(), p.llc.snoop_latency.ps());
            let mut t = QUIET;
            for _ in 0..3 {
                let store = m.clock.cycle_at_or_after(t);
                let asked = m.store(0, ADDRESS, 0, store).0;
                assert!(asked >= store + m.clock.cycle_at_or_after(p.llc.latency.ps()), "{inclusion:?}: it asks");
                t += Ps::from_us(10);
                assert_eq!(m.dma_read((ADDRESS, 64), t, BY), t + latency + snoop, "{inclusion:?}");
                t += Ps::from_us(10);
            }
            let snoops = m.private_stats(1).snoop_hits;
            for n in 1..=2 {
                m.store(0, ADDRESS, 0, m.clock.cycle_at_or_after(t));
                t += Ps::from_us(10);
                assert_eq!(m.load(1, ADDRESS, 0, m.clock.cycle_at_or_after(t)).1, Level::Snoop, "{inclusion:?}");
                assert_eq!(m.private_stats(1).snoop_hits, snoops + n);
                t += Ps::from_us(10);
            }
        }
    }

    /// gem5's L3XBar: 3 ns a line, 1 ns a request; each line forwarded is asked for, brought, asked for, brought back.
    #[test]
    fn the_crossbar_bounds_what_devices_and_cores_move_together() {
        let (_, mut p) = system(4);
        p.llc.inclusion = Inclusion::Exclusive;
        (p.llc.crossbar_request, p.llc.crossbar_line) = ("1ns".parse().unwrap(), "3ns".parse().unwrap());
        (p.llc.io_cache, p.llc.banks, p.llc.bank_time) = (true, 1, "0.1ns".parse().unwrap());
        let mut m = MemorySystem::new(&p, 1);
        let each = |m: &mut MemorySystem, t: Ps, line: u64| {
            let written = written(m, (ADDRESS + line * 64, 64), t, BY);
            m.dma_read((ADDRESS + line * 64, 64), t, BY).max(written) - t
        };
        let lines = 200;
        let last = (0..lines).map(|n| each(&mut m, QUIET, n)).max().unwrap();
        let time = (last - p.llc.device_latency.ps()).as_f64() / lines as f64;
        assert!((time - 8000.0).abs() < 200.0, "{time} ps a line");
        // A core that asks meanwhile waits for its turn.
        let alone = m.llc_access(0, 1 << 20, QUIET + Ps::from_us(50), CoreAccess::Load).0 - QUIET - Ps::from_us(50);
        let beside = m.llc_access(0, (1 << 20) + 5000, QUIET, CoreAccess::Load).0 - QUIET;
        assert!(beside > alone + Ps::from_ns(1500), "{beside:?} against {alone:?}");
        // Past the cache, nothing of it is taken: as if it had no end of width.
        p.llc.dca_ways = 0;
        let past = |p: &Platform| {
            let mut m = MemorySystem::new(p, 1);
            let ends: Vec<Ps> = (0..lines).map(|n| each(&mut m, QUIET, n)).collect();
            (ends, m.llc_access(0, 1 << 20, QUIET, CoreAccess::Load).0)
        };
        let narrow = past(&p);
        (p.llc.crossbar_request, p.llc.crossbar_line) = ("0ns".parse().unwrap(), "0ns".parse().unwrap());
        assert_eq!(narrow, past(&p));
    }

    /// As with TPH steering or ways by class: descriptors and one queue's packets into the LLC, the rest to memory.
    #[test]
    fn a_policy_sees_device_queue_and_purpose() {
        let (mut m, _) = system(4);
        m.set_dca_policy(|by, ways| match by {
            DmaRequester { device: 1, purpose: Purpose { moves: Moves::Completions, .. } } => 1,
            DmaRequester { device: 1, purpose: Purpose { queue: 3, .. } } => ways,
            _ => 0,
        });
        let by = |device, queue, moves| DmaRequester { device, purpose: Purpose::new(Side::Receive, queue, moves) };
        for (n, (device, queue, moves, level)) in [
            (1, 0, Moves::Completions, Level::Llc),
            (1, 3, Moves::Payload, Level::Llc),
            (1, 2, Moves::Payload, Level::Dram),
            (0, 3, Moves::Payload, Level::Dram),
        ]
        .into_iter()
        .enumerate()
        {
            let address = ADDRESS + n as u64 * 4096;
            written(&mut m, (address, 64), QUIET, by(device, queue, moves));
            assert_eq!(m.llc_access(0, address / LINE, QUIET + Ps::from_us(1), CoreAccess::Load).1, level);
        }
    }
}
