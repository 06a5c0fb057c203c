//! DRAM: channels of ranks and banks with row buffers, JEDEC's main timings, refresh, and a controller that gathers
//! writes and drains them together.
//!
//! Banks, activations and data buses are calendars: a read takes the first gap that all of them have, in the order in
//! which requests are timed. Against FR-FCFS, whole batches of row hits do not overtake an older conflict: rows switch
//! more often under mixed load. Left out: power-down, command bus, per-bank refresh, ECC.

use super::Requester;
use crate::params::{self, PagePolicy};
use wiretime_base::{stats, Calendar, Ps};

/// Remembered bookings behind the latest one: several quanta and the longest latency.
const WINDOW: Ps = 4_000_000;

stats! {
    /// What DRAM did.
    pub struct DramStats {
        reads_fetch: "lines", "lines read for instruction fetch";
        reads_load: "lines", "lines read for loads";
        reads_store: "lines", "lines read for stores";
        reads_prefetch: "lines", "lines read for software and hardware prefetches";
        reads_walk: "lines", "lines read for page walks";
        reads_dma: "lines", "lines read for device DMA";
        writes_cache: "lines", "dirty lines written back from caches";
        writes_dma: "lines", "lines written by device DMA past the caches";
        row_hits: "lines", "accesses to an open row";
        row_misses: "lines", "accesses that had to open a row";
        write_drains: "drains", "times that a channel turned to writing";
    }
}

/// A bank: its open row and when it is taken.
struct Bank {
    row: u64,
    /// Which refresh interval the row was opened in: refresh closes it.
    epoch: u64,
    opened: Ps,
    calendar: Calendar,
}

const NO_ROW: u64 = u64::MAX;

struct Channel {
    banks: Vec<Bank>,
    /// Bursts of each bank group.
    groups: Vec<Calendar>,
    /// Activations of each rank.
    activations: Vec<Calendar>,
    bus: Calendar,
    writes: Vec<u64>,
}

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    channel: usize,
    rank: usize,
    bank: usize,
    group: usize,
    row: u64,
}

/// The bits of a line's number that say where it is: every size is a power of two.
#[derive(Clone, Copy)]
struct Split {
    interleave: u32,
    channels: u32,
    groups: u32,
    row_lines: u32,
    banks: u32,
    ranks: u32,
}

impl Split {
    fn new(p: &params::Dram) -> Self {
        let bits = |n: u64| n.max(1).trailing_zeros();
        Self {
            interleave: bits(u64::from(p.interleave) / super::LINE),
            channels: bits(p.channels.into()),
            groups: bits(p.bank_groups.into()),
            row_lines: bits(p.row_size.bytes() / super::LINE),
            banks: bits(u64::from(p.banks / p.bank_groups)),
            ranks: bits(p.ranks.into()),
        }
    }
}

/// The low `bits` of `n`.
#[inline]
fn low(n: u64, bits: u32) -> u64 {
    n & ((1 << bits) - 1)
}

/// Main memory.
pub struct Dram {
    p: params::Dram,
    split: Split,
    channels: Vec<Channel>,
    /// Gathered writes by bank and row, while they are sorted.
    order: Vec<(u32, u64, u64)>,
    burst: Ps,
    activation: Ps,
    /// Counters.
    pub stats: DramStats,
}

impl Dram {
    /// As the platform says.
    #[must_use]
    pub fn new(p: &params::Dram) -> Self {
        let calendar = || Calendar::new(WINDOW);
        let bank = || Bank { row: NO_ROW, epoch: 0, opened: 0, calendar: calendar() };
        let channel = || Channel {
            banks: (0..p.ranks * p.banks).map(|_| bank()).collect(),
            groups: (0..p.ranks * p.bank_groups).map(|_| calendar()).collect(),
            activations: (0..p.ranks).map(|_| calendar()).collect(),
            bus: calendar(),
            writes: Vec::with_capacity(p.write_queue_entries as usize),
        };
        // 64 bytes in transfers of the bus width; MT/s are transfers a microsecond.
        let transfers = super::LINE * 8 / u64::from(p.bus_width);
        Self {
            channels: (0..p.channels).map(|_| channel()).collect(),
            burst: (transfers.max(1) * 1_000_000).div_ceil(u64::from(p.transfer_rate)),
            activation: p.t_rrd.ps().max(p.t_faw.ps() / 4),
            split: Split::new(p),
            order: Vec::with_capacity(p.write_queue_entries as usize),
            p: p.clone(),
            stats: DramStats::default(),
        }
    }

    /// Row, rank, bank, column, bank group, channel, from high bits to low; the row's low bits spread over banks and
    /// channels. Lines that follow each other go to different bank groups, so that streams keep the bus busy.
    fn place(&self, line: u64) -> Place {
        let s = &self.split;
        let block = line >> s.interleave;
        let channel = low(block ^ block >> 7 ^ block >> 13, s.channels);
        let within = block >> s.channels << s.interleave | low(line, s.interleave);
        let group = low(within, s.groups);
        let rest = within >> s.groups >> s.row_lines;
        let row = rest >> s.banks >> s.ranks;
        let bank = low(rest ^ row, s.banks);
        let rank = low(rest >> s.banks, s.ranks);
        Place {
            channel: channel as usize,
            rank: rank as usize,
            bank: ((rank << s.groups | group) << s.banks | bank) as usize,
            group: (rank << s.groups | group) as usize,
            row,
        }
    }

    /// The refresh interval of `rank` that `t` is in, and when the rank can be used at or after `t`.
    fn refreshed(&self, rank: usize, t: Ps) -> (u64, Ps) {
        let (refi, rfc) = (self.p.t_refi.ps(), self.p.t_rfc.ps());
        // Ranks are refreshed in turn.
        let shifted = t + refi - rank as u64 * refi / u64::from(self.p.ranks);
        let into = shifted % refi;
        (shifted / refi, t + rfc.saturating_sub(into))
    }

    /// Reads a line that misses in the LLC at `t`; returns when it arrives.
    pub fn read(&mut self, line: u64, t: Ps, who: Requester) -> Ps {
        match who {
            Requester::Fetch => self.stats.reads_fetch += 1,
            Requester::Load => self.stats.reads_load += 1,
            Requester::Store => self.stats.reads_store += 1,
            Requester::Prefetch => self.stats.reads_prefetch += 1,
            Requester::Walk => self.stats.reads_walk += 1,
            Requester::Dma => self.stats.reads_dma += 1,
        }
        let half = self.p.controller_latency.ps() / 2;
        self.access(line, t + half) + self.p.controller_latency.ps() - half
    }

    /// One burst; returns its end on the bus.
    fn access(&mut self, line: u64, t: Ps) -> Ps {
        let place = self.place(line);
        let (epoch, t) = self.refreshed(place.rank, t);
        let p = &self.p;
        let (ccd, cl) = (p.t_ccd_l.ps(), p.t_cl.ps());
        let channel = &mut self.channels[place.channel];
        let bank = &mut channel.banks[place.bank];
        let open = bank.row != NO_ROW && bank.epoch == epoch;
        let column = if open && bank.row == place.row {
            self.stats.row_hits += 1;
            bank.calendar.reserve(t, ccd)
        } else {
            self.stats.row_misses += 1;
            // A row stays open for tRAS before it may be closed.
            let (precharge, from) = if open { (p.t_rp.ps(), t.max(bank.opened + p.t_ras.ps())) } else { (0, t) };
            let closed = p.page_policy == PagePolicy::Closed;
            let after = if closed { (p.t_ras.ps() - p.t_rcd.ps().min(p.t_ras.ps())) + p.t_rp.ps() } else { ccd };
            let begin = bank.calendar.reserve(from, precharge + p.t_rcd.ps() + after);
            let activate = channel.activations[place.rank].reserve(begin + precharge, self.activation);
            bank.opened = activate;
            bank.epoch = epoch;
            bank.row = if closed { NO_ROW } else { place.row };
            activate + p.t_rcd.ps()
        };
        let column = channel.groups[place.group].reserve(column, ccd);
        channel.bus.reserve(column + cl, self.burst) + self.burst
    }

    /// Writes a line; nobody waits for it, but a full queue takes the channel.
    pub fn write(&mut self, line: u64, t: Ps, dma: bool) {
        if dma {
            self.stats.writes_dma += 1;
        } else {
            self.stats.writes_cache += 1;
        }
        let channel = self.place(line).channel;
        self.channels[channel].writes.push(line);
        if self.channels[channel].writes.len() >= self.p.write_queue_entries as usize {
            self.drain(channel, t);
        }
    }

    /// Sends all gathered writes of a channel, row by row, then turns the bus round.
    fn drain(&mut self, channel: usize, t: Ps) {
        self.stats.write_drains += 1;
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(self.channels[channel].writes.iter().map(|&line| {
            let place = self.place(line);
            (place.bank as u32, place.row, line)
        }));
        order.sort_unstable();
        let p = &self.p;
        let switch = p.t_rp.ps() + p.t_rcd.ps() + p.t_wr.ps();
        let (mut longest, mut own, mut last) = (0, 0, None);
        for &(_, _, line) in &order {
            let place = self.place(line);
            let (epoch, _) = self.refreshed(place.rank, t);
            let bank = &mut self.channels[channel].banks[place.bank];
            if last != Some(place.bank) {
                own = 0;
            }
            last = Some(place.bank);
            if bank.row == place.row && bank.epoch == epoch {
                self.stats.row_hits += 1;
            } else {
                self.stats.row_misses += 1;
                own += switch;
                let closed = p.page_policy == PagePolicy::Closed;
                (bank.row, bank.epoch) = (if closed { NO_ROW } else { place.row }, epoch);
            }
            own += p.t_ccd_l.ps();
            longest = longest.max(own);
        }
        // Banks work side by side; the bus carries every burst.
        let bus = order.len() as u64 * self.burst;
        let turn = p.t_wtr.ps();
        self.channels[channel].bus.reserve(t, bus.max(longest) + turn);
        self.channels[channel].writes.clear();
        self.order = order;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{dram_grades, platform};

    fn dram(change: impl FnOnce(&mut params::Dram)) -> Dram {
        let mut p = platform().dram;
        change(&mut p);
        Dram::new(&p)
    }

    /// Lines from a place to another row of the same bank.
    fn row_step(p: &params::Dram) -> u64 {
        u64::from(p.ranks * p.banks) * p.row_size.bytes() / 64 * u64::from(p.banks / p.bank_groups)
    }

    fn read(d: &mut Dram, line: u64, t: Ps) -> Ps {
        d.read(line, t, Requester::Load) - t
    }

    /// A time right after a refresh of the first rank, far from the next.
    fn quiet(d: &Dram) -> Ps {
        10 * d.p.t_refi.ps() + d.p.t_rfc.ps()
    }

    #[test]
    fn idle_latencies_follow_the_formula_in_every_grade() {
        for mut p in dram_grades() {
            p.channels = 1;
            let mut d = Dram::new(&p);
            let (t, line) = (quiet(&d), 0);
            let same_row = u64::from(p.bank_groups);
            let other_row = row_step(&p);
            assert_eq!(d.place(line).bank, d.place(other_row).bank);
            assert_ne!(d.place(line).row, d.place(other_row).row);
            let base = p.controller_latency.ps() + p.t_cl.ps() + d.burst;
            assert_eq!(read(&mut d, line, t), base + p.t_rcd.ps(), "a closed bank");
            assert_eq!(read(&mut d, same_row, t + 500_000), base, "an open row");
            assert_eq!(read(&mut d, other_row, t + 1_000_000), base + p.t_rp.ps() + p.t_rcd.ps(), "another row");
            let again = read(&mut d, line, t + 1_000_001);
            assert!(again >= base + p.t_ras.ps(), "and back: not before tRAS");
        }
    }

    #[test]
    fn refresh_stops_a_rank() {
        let mut d = dram(|p| p.channels = 1);
        let p = d.p.clone();
        let t = 10 * p.t_refi.ps();
        let base = p.controller_latency.ps() + p.t_cl.ps() + d.burst + p.t_rcd.ps();
        assert_eq!(read(&mut d, 0, t), base + p.t_rfc.ps() - p.controller_latency.ps() / 2);
    }

    #[test]
    fn streams_reach_the_peak_less_refresh() {
        for (mut p, channels) in dram_grades().into_iter().flat_map(|p| [1, 2, 8].map(|n| (p.clone(), n))) {
            p.channels = channels;
            let mut d = Dram::new(&p);
            let peak = f64::from(p.transfer_rate) * 1e6 * f64::from(p.bus_width) * f64::from(channels);
            let n = 200_000u64;
            let begin = quiet(&d);
            // Requests come somewhat faster than the bus takes them, as from many cores.
            let gap = |l: u64| l * d.burst * 9 / 10 / u64::from(channels);
            let arrivals: Vec<Ps> = (0..n).map(|l| begin + gap(l)).collect();
            let end = arrivals.iter().enumerate().map(|(l, &t)| d.read(l as u64, t, Requester::Load)).max().unwrap();
            let took = (end - begin) as f64;
            let efficiency = (n * 512) as f64 * 1e12 / took / peak;
            let refresh = 1.0 - d.p.t_rfc.ps() as f64 / d.p.t_refi.ps() as f64;
            let rate = p.transfer_rate;
            assert!(efficiency < 1.0 && efficiency > 0.9 * refresh, "{rate} MT/s, {channels}: {efficiency:.3}");
        }
    }

    #[test]
    fn random_rows_of_one_bank_take_the_row_cycle() {
        let mut d = dram(|p| p.channels = 1);
        let p = d.p.clone();
        let step = row_step(&p);
        let n = 1000u64;
        let begin = quiet(&d);
        let end = (0..n).map(|k| d.read(k * step, begin, Requester::Load)).max().unwrap();
        let cycle = (end - begin) as f64 / n as f64;
        let formula = (p.t_ras.ps() + p.t_rp.ps()) as f64;
        let ratio = cycle / formula;
        assert!((0.95..1.15).contains(&ratio), "{cycle} ps a row against {formula}");
    }

    #[test]
    fn writes_take_the_bus_in_batches() {
        let mut d = dram(|p| (p.channels, p.write_queue_entries) = (1, 32));
        let t = quiet(&d);
        let before = read(&mut d, 0, t);
        for line in 0..31 {
            d.write(line, t + 1_000_000, false);
        }
        assert_eq!(read(&mut d, 4, t + 1_000_000), before - d.p.t_rcd.ps(), "gathered writes do not disturb");
        d.write(31, t + 2_000_000, false);
        assert_eq!(d.stats.write_drains, 1);
        assert!(read(&mut d, 8, t + 2_000_000) > before + 31 * d.burst / 2, "a drain does");
    }
}
