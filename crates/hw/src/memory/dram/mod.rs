//! DRAM: channels of ranks and banks with row buffers, JEDEC's timings, refresh, and a controller that gathers writes and
//! drains them together.
//!
//! - `timing`: what the standards allow, a constraint a line; `bank`: what has been booked; `writes`: what waits.
//!
//! A request is scheduled once, when it is timed: it takes the first commands that are legal beside those booked so
//! far, in any order of time. Against FR-FCFS, whole batches of row hits do not overtake an older conflict: near the
//! most that is carried loads wait longer: at 371 GB/s with a third of writes 471 ns, 334 on Grace (Mess). An access
//! that is entered late and closes a row under one that was booked for later opens that one's row again in time, or
//! comes behind it. A read of a line whose write waits is answered by the queue. Left out: power-down, command bus,
//! that some devices refresh banks in pairs, ECC, policies of rows that learn.

mod bank;
mod timing;
mod writes;

use crate::params::{self, Mapping, PagePolicy, Refresh};
use crate::requester::{CoreAccess, DmaRequester, Requester};
use bank::{Bank, Booked, Commands, Use};
use timing::{Command, Near, Timing};
use wiretime_base::{stats, Ps};
use writes::WriteQueue;

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
        rows_reopened: "rows", "rows opened once more for an access booked for later, which had found its row open";
        write_drains: "drains", "times that a channel turned to writing";
        writes_moved: "lines", "writes booked anew, since their queue turned out to have been full before";
        writes_merged: "lines", "lines written again while their write waited, which replaces it";
        reads_forwarded: "lines", "lines read while their write waited: the queue answers";
    }
}

struct Channel {
    banks: Vec<Bank>,
    /// Activations of each rank.
    activations: Vec<Commands>,
    /// Reads and writes.
    columns: Commands,
    writes: WriteQueue,
}

/// Refreshes that an access gives way to: where hardly any time is left between them, it comes all the same.
const REFRESHES: u32 = 4;

/// Times tried from the latest one back, a window of four activations each, where a row is opened again.
const REOPENED: u64 = 4;

/// The bits of what writes are ordered by that say which it is: more than a queue has.
const INDEX: u64 = (1 << 14) - 1;

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    channel: usize,
    rank: usize,
    bank: usize,
    group: usize,
    row: u64,
}

/// A write on its way from the queue to its bank.
#[derive(Clone, Copy)]
struct Sending {
    place: Place,
    line: u64,
    /// Which of the queue's sent ones.
    index: usize,
    /// When its command had been booked for, if it was sent later so far.
    booked: Option<Ps>,
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
    contiguous: bool,
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
            contiguous: p.mapping == Mapping::RowContiguous,
        }
    }

    /// Row, rank, bank, then column and bank group or, along a row, bank group and column, then channel, from high bits to
    /// low. Unless lines go along a row, the row's low bits spread over banks and channels, and lines that follow each
    /// other go to different bank groups, so that streams keep the bus busy.
    #[inline]
    fn place(&self, line: u64) -> Place {
        let block = line >> self.interleave;
        let within = block >> self.channels << self.interleave | low(line, self.interleave);
        let rest = within >> self.groups >> self.row_lines;
        let row = rest >> self.banks >> self.ranks;
        let rank = low(rest >> self.banks, self.ranks);
        let (channel, group, bank) = if self.contiguous {
            (block, within >> self.row_lines, rest)
        } else {
            (block ^ block >> 7 ^ block >> 13, within, rest ^ row)
        };
        let (channel, group, bank) = (low(channel, self.channels), low(group, self.groups), low(bank, self.banks));
        Place {
            channel: channel as usize,
            rank: rank as usize,
            bank: ((rank << self.groups | group) << self.banks | bank) as usize,
            group: (rank << self.groups | group) as usize,
            row,
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
    timing: Timing,
    channels: Vec<Channel>,
    /// Writes that are being sent, and what they are ordered by, their index among them last.
    sending: Vec<Sending>,
    order: Vec<u64>,
    /// How long a row stays open after an access; `None`: it is closed at once.
    stays_open: Option<Ps>,
    /// How far any command's constraints reach.
    reach: Ps,
    /// The refresh interval that each unit of refresh was last used in, and when it begins: most accesses are in the same one.
    intervals: Vec<(u64, Ps)>,
    /// Counters.
    pub stats: DramStats,
}

impl Dram {
    /// As the platform says.
    #[must_use]
    pub fn new(p: &params::Dram) -> Self {
        let channel = || Channel {
            banks: (0..p.ranks * p.banks).map(|_| Bank::default()).collect(),
            activations: (0..p.ranks).map(|_| Commands::default()).collect(),
            columns: Commands::new(p.ranks, p.ranks * p.bank_groups),
            writes: WriteQueue::default(),
        };
        let timing = Timing::new(p);
        let reach = [Command::Read, Command::Write].map(|c| timing.reach_from(c));
        let mut dram = Self {
            channels: (0..p.channels).map(|_| channel()).collect(),
            split: Split::new(p),
            reach: reach.into_iter().fold(timing.four_activates, Ps::max),
            timing,
            stays_open: match p.page_policy {
                PagePolicy::Open => Some(Ps::MAX),
                PagePolicy::Closed => None,
                PagePolicy::Timed => Some(p.page_timeout.ps()),
            },
            intervals: Vec::new(),
            sending: Vec::with_capacity(p.write_queue_entries as usize),
            order: Vec::with_capacity(p.write_queue_entries as usize),
            p: p.clone(),
            stats: DramStats::default(),
        };
        dram.intervals = (0..dram.units() as usize).map(|unit| dram.interval(unit, Ps::ZERO)).collect();
        dram
    }

    /// Nobody asks for a time before `t` any more.
    pub fn reached(&mut self, t: Ps) {
        let reach = self.reach;
        for channel in &mut self.channels {
            channel.writes.reached(t);
            channel.columns.reached(t, reach);
            channel.activations.iter_mut().for_each(|rank| rank.reached(t, reach));
            channel.banks.iter_mut().for_each(|bank| bank.reached(t));
        }
    }

    #[inline]
    fn place(&self, line: u64) -> Place {
        self.split.place(line)
    }

    /// What is refreshed at a time: ranks, or banks.
    fn units(&self) -> u32 {
        match self.p.refresh {
            Refresh::Rank => self.p.ranks,
            Refresh::Bank => self.p.ranks * self.p.banks,
        }
    }

    /// The unit of refresh of a place.
    #[inline]
    fn unit(&self, place: Place) -> usize {
        match self.p.refresh {
            Refresh::Rank => place.rank,
            Refresh::Bank => place.bank,
        }
    }

    /// The refresh interval of a unit that `t` is in, and when the unit can be used at or after `t`.
    #[inline]
    fn refreshed(&self, unit: usize, t: Ps) -> (u64, Ps) {
        let (mut interval, mut begin) = self.intervals[unit];
        if t.wrapping_sub(begin) >= self.p.t_refi.ps() {
            (interval, begin) = self.interval(unit, t);
        }
        (interval, t + self.p.t_rfc.ps().saturating_sub(t.wrapping_sub(begin)))
    }

    /// The interval that `t` is in and when it begins. Units are refreshed in turn.
    fn interval(&self, unit: usize, t: Ps) -> (u64, Ps) {
        let refi = self.p.t_refi.ps();
        let turn = unit as u64 * refi / u64::from(self.units());
        let interval = (t + refi - turn) / refi;
        // The first may have begun before power-on.
        (interval, (interval * refi + turn).wrapping_sub(refi))
    }

    /// When the refresh that begins an interval is over.
    fn refresh_over(&self, unit: usize, interval: u64) -> Ps {
        let (refi, rfc) = (self.p.t_refi.ps(), self.p.t_rfc.ps());
        (interval * refi + unit as u64 * refi / u64::from(self.units())).saturating_sub(refi) + rfc
    }

    /// Reads a line that misses in the LLC at `t`; returns when it arrives.
    pub fn read(&mut self, line: u64, t: Ps, who: Requester) -> Ps {
        let s = &mut self.stats;
        *match who {
            Requester::Core { access: CoreAccess::Fetch, .. } => &mut s.reads_fetch,
            Requester::Core { access: CoreAccess::Load, .. } => &mut s.reads_load,
            Requester::Core { access: CoreAccess::Store, .. } => &mut s.reads_store,
            Requester::Core { access: CoreAccess::Prefetch, .. } => &mut s.reads_prefetch,
            Requester::Core { access: CoreAccess::Walk, .. } => &mut s.reads_walk,
            Requester::Device(_) => &mut s.reads_dma,
        } += 1;
        let latency = self.p.controller_latency.ps();
        let place = self.place(line);
        if self.channels[place.channel].writes.holds(line, t) {
            self.stats.reads_forwarded += 1;
            return t + latency;
        }
        let half = latency / 2;
        let column = self.schedule(place, t + half, Command::Read);
        column + self.p.t_cl.ps() + self.p.burst() + latency - half
    }

    /// Books one access at `t` or later; returns when its read or write comes.
    #[inline]
    fn schedule(&mut self, place: Place, t: Ps, command: Command) -> Ps {
        match self.hit(place, t, command) {
            Some(column) => column,
            None => self.schedule_any(place, t, command),
        }
    }

    /// The same for most accesses: the row that the bank has open for all that is booked in it from `t` on is the right
    /// one. `None` for any other.
    #[inline]
    fn hit(&mut self, place: Place, t: Ps, command: Command) -> Option<Ps> {
        let (epoch, begin) = self.intervals[self.unit(place)];
        let since = t.wrapping_sub(begin);
        if since >= self.p.t_refi.ps() || since < self.p.t_rfc.ps() {
            return None;
        }
        let stays_open = self.stays_open?;
        let timing = &self.timing;
        let closes = self.closes();
        let channel = &mut self.channels[place.channel];
        let bank = &mut channel.banks[place.bank];
        let open = |u: &&Use| u.epoch == epoch && u.opened <= t && u.stays_open(stays_open, t);
        let last = bank.last().filter(|u| u.row == place.row).filter(open)?;
        let opened = last.opened;
        let wanted = t.max(opened + timing.after(Command::Activate, command, Near::Bank));
        let column = channel.columns.first_column(place.booked(command, wanted), timing);
        let precharge = column + timing.after(command, Command::Precharge, Near::Bank);
        let mut found = Use { begin: column, opened, opens: false, epoch, row: place.row, column, precharge };
        found.precharge = bank.precharge(&found);
        if (found.precharge + closes - Ps(1)).wrapping_sub(begin) >= self.p.t_refi.ps() {
            return None;
        }
        self.stats.row_hits += 1;
        bank.insert(found);
        channel.columns.insert(place.booked(command, column), timing);
        Some(column)
    }

    fn schedule_any(&mut self, place: Place, t: Ps, command: Command) -> Ps {
        let (mut t, mut refreshes) = (t, 0);
        let unit = self.unit(place);
        if t.wrapping_sub(self.intervals[unit].1) >= self.p.t_refi.ps() {
            self.intervals[unit] = self.interval(unit, t);
        }
        let (found, reopened) = loop {
            let (epoch, free) = self.refreshed(unit, t);
            t = free;
            let bank = &self.channels[place.channel].banks[place.bank];
            let before = bank.until(t);
            let mut found = self.first(place, t, bank.last_of(before), epoch, command);
            found.precharge = bank.precharge(&found);
            // Rows are closed when a refresh begins: what does not come to its end before waits for the refresh.
            let (end, _) = self.refreshed(unit, found.precharge + self.closes() - Ps(1));
            if end != epoch && refreshes < REFRESHES {
                (t, refreshes) = (self.refresh_over(unit, end), refreshes + 1);
                continue;
            }
            // What is booked for later in this bank keeps its place.
            match bank.behind(before, &found).copied() {
                None => break (found, None),
                Some(next) if next.opens => {
                    if found.leaves_room_for(&next, self.closes()) {
                        break (found, None);
                    }
                    t = next.begin.max(t + Ps(1));
                }
                // It found its row open: it is opened once more, if there is time.
                Some(next) => match self.reopen(place, &found, &next) {
                    Some(at) => break (found, Some(at)),
                    None => t = next.begin.max(t + Ps(1)),
                },
            }
        };
        let timing = &self.timing;
        let channel = &mut self.channels[place.channel];
        let activations = &mut channel.activations[place.rank];
        if found.opens {
            self.stats.row_misses += 1;
            activations.insert(place.booked(Command::Activate, found.opened), timing);
        } else {
            self.stats.row_hits += 1;
        }
        channel.columns.insert(place.booked(command, found.column), timing);
        if let Some(at) = reopened {
            self.stats.rows_reopened += 1;
            self.open_at(place, found.begin, at, at - self.closes());
        }
        self.channels[place.channel].banks[place.bank].insert(found);
        found.column
    }

    /// How long a row takes to close.
    fn closes(&self) -> Ps {
        self.timing.after(Command::Precharge, Command::Activate, Near::Bank)
    }

    /// The first commands of an access that are legal from `t` on, in a refresh interval, behind `before` in its bank,
    /// whatever is booked there for later.
    #[inline]
    fn first(&self, place: Place, t: Ps, before: Option<&Use>, epoch: u64, command: Command) -> Use {
        let channel = &self.channels[place.channel];
        let timing = |from, to| self.timing.after(from, to, Near::Bank);
        let before = before.filter(|u| u.epoch == epoch);
        let open = before.filter(|u| self.stays_open.is_some_and(|time| u.stays_open(time, t)));
        let mut found =
            Use { begin: t, opened: t, opens: false, epoch, row: place.row, column: t, precharge: Ps::ZERO };
        match open {
            Some(u) if u.row == place.row => {
                found.opened = u.opened;
                found.column = t.max(u.opened + timing(Command::Activate, command));
                found.precharge = u.precharge;
            }
            _ => {
                // A row that is open is closed now, or is closed already.
                let precharge = open.map(|u| t.max(u.precharge));
                let time = self.stays_open.unwrap_or(Ps::ZERO);
                let by_itself = || before.map(|u| u.precharge.max(u.column.saturating_add(time)));
                let closed = precharge.or_else(by_itself).map_or(t, |p| t.max(p + self.closes()));
                let activate = place.booked(Command::Activate, closed);
                found.opens = true;
                found.opened = channel.activations[place.rank].first_activate(activate, &self.timing);
                found.begin = precharge.unwrap_or(found.opened);
                found.column = found.opened + timing(Command::Activate, command);
                found.precharge = found.opened + timing(Command::Activate, Command::Precharge);
            }
        }
        found.column = channel.columns.first_column(place.booked(command, found.column), &self.timing);
        if !found.opens {
            found.begin = found.column;
        }
        found.precharge = found.precharge.max(found.column + timing(command, Command::Precharge));
        found
    }

    /// When the row that `next` found open can be opened again behind `found`.
    fn reopen(&mut self, place: Place, found: &Use, next: &Use) -> Option<Ps> {
        // The row of `found` counts among those of its rank.
        let opened = place.booked(Command::Activate, found.opened);
        self.channels[place.channel].activations[place.rank].insert(opened, &self.timing);
        let at = self.latest_opening(place, found.precharge + self.closes(), next);
        self.channels[place.channel].activations[place.rank].remove(opened.time, opened.bank, &self.timing);
        at
    }

    /// When the row of `next`, a hit so far, can be opened at `earliest` or later, early enough for it and for what
    /// follows, and as late as can be: until then the bank is as if `next` were not booked.
    fn latest_opening(&self, place: Place, earliest: Ps, next: &Use) -> Option<Ps> {
        let timing = &self.timing;
        let after = |from, to| timing.after(from, to, Near::Bank);
        let channel = &self.channels[place.channel];
        let activations = &channel.activations[place.rank];
        let latest = next.column.checked_sub(after(Command::Activate, Command::Read)).filter(|&l| l >= earliest)?;
        let follows = channel.banks[place.bank].opens_behind(next.begin);
        let tries = (0..REOPENED).map(|n| latest.saturating_sub(n * timing.four_activates)).chain([earliest]);
        tries.map(|from| activations.first_activate(place.booked(Command::Activate, from.max(earliest)), timing)).find(
            |&at| {
                let open = Use { precharge: at + after(Command::Activate, Command::Precharge), ..*next };
                let (end, _) = self.refreshed(self.unit(place), open.precharge + self.closes() - Ps(1));
                let room = || follows.is_none_or(|u| open.leaves_room_for(u, self.closes()));
                at <= latest && end == next.epoch && room()
            },
        )
    }

    /// Books that the row of what comes behind `behind` in its bank, a hit so far, is opened at `at`.
    fn open_at(&mut self, place: Place, behind: Ps, at: Ps, begin: Ps) {
        let timing = &self.timing;
        let channel = &mut self.channels[place.channel];
        let closed = at + timing.after(Command::Activate, Command::Precharge, Near::Bank);
        channel.activations[place.rank].insert(place.booked(Command::Activate, at), timing);
        channel.banks[place.bank].reopen(behind, begin, at, closed);
    }

    /// A write that was booked comes at another time: its place is free again. A row that was opened for it is opened for
    /// what follows.
    fn take_back(&mut self, place: Place, column: Ps) {
        self.stats.writes_moved += 1;
        let channel = &mut self.channels[place.channel];
        channel.columns.remove(column, place.bank as u16, &self.timing);
        let Some((gone, next)) = channel.banks[place.bank].remove(column).filter(|(u, _)| u.opens) else {
            return;
        };
        channel.activations[place.rank].remove(gone.opened, place.bank as u16, &self.timing);
        if let Some(next) = next {
            let at = self.latest_opening(place, gone.opened, &next).unwrap_or(gone.opened);
            let begin = if gone.begin < gone.opened { at - self.closes() } else { at };
            self.open_at(place, gone.begin, at, begin);
        }
    }

    /// Writes a line, for a device or, written back, for a cache; nobody waits for it, but a full queue is drained.
    pub fn write(&mut self, line: u64, t: Ps, by: Option<DmaRequester>) {
        if by.is_some() {
            self.stats.writes_dma += 1;
        } else {
            self.stats.writes_cache += 1;
        }
        let at = self.place(line).channel;
        let writes = &mut self.channels[at].writes;
        if writes.merges(line, t) {
            self.stats.writes_merged += 1;
        } else {
            writes.push(line, t);
        }
        if writes.full(t, self.p.write_queue_entries as usize) {
            self.drain(at, t);
        }
    }

    /// Sends the writes that a channel has gathered until `t`, each where there is room: row by row in each bank, banks
    /// side by side, groups in turn. Reads of other banks go in between.
    fn drain(&mut self, channel: usize, t: Ps) {
        self.stats.write_drains += 1;
        let (mut sending, mut order) = (std::mem::take(&mut self.sending), std::mem::take(&mut self.order));
        sending.clear();
        let (channels, split) = (&mut self.channels, &self.split);
        channels[channel].writes.send(t, |index, line, booked| {
            sending.push(Sending { place: split.place(line), line, index, booked });
        });
        sending
            .iter()
            .filter_map(|s| Some((s.place, s.booked?)))
            .for_each(|(place, column)| self.take_back(place, column));
        self.order_of(&sending, &mut order);
        for key in &order {
            let s = &sending[(*key & INDEX) as usize];
            let column = self.schedule(s.place, t, Command::Write);
            self.channels[channel].writes.booked(s.index, column);
        }
        (self.sending, self.order) = (sending, order);
    }

    /// The first of each bank, groups in turn, then the second of each; a bank's lines in order, which is that of its rows.
    fn order_of(&self, sending: &[Sending], order: &mut Vec<u64>) {
        // Lines beyond 16 TiB are ordered by what is below.
        let key = |(i, s): (usize, &Sending)| (s.place.bank as u64) << 52 | s.line << 26 >> 12 | i as u64;
        order.clear();
        order.extend(sending.iter().enumerate().map(key));
        order.sort_unstable();
        let (mut turn, mut before) = (0, None);
        let banks = (1 << self.split.banks) - 1;
        for key in &mut *order {
            let Place { bank, group, .. } = sending[(*key & INDEX) as usize].place;
            turn = if before == Some(bank) { turn + 1 } else { 0 };
            before = Some(bank);
            *key = turn << 48 | ((bank & banks) as u64) << 32 | (group as u64) << 16 | *key & INDEX;
        }
        order.sort_unstable();
    }
}

impl Place {
    fn booked(&self, command: Command, time: Ps) -> Booked {
        Booked { time, command, rank: self.rank as u16, group: self.group as u16, bank: self.bank as u16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{dram_grades, platform};

    const LOAD: Requester = Requester::Core { core: 0, access: CoreAccess::Load };

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
        d.read(line, t, LOAD) - t
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
            let base = p.controller_latency.ps() + p.t_cl.ps() + d.p.burst();
            assert_eq!(read(&mut d, line, t), base + p.t_rcd.ps(), "a closed bank");
            assert_eq!(read(&mut d, same_row, t + Ps::from_ns(500)), base, "an open row");
            assert_eq!(read(&mut d, other_row, t + Ps::from_us(1)), base + p.t_rp.ps() + p.t_rcd.ps(), "another row");
            let again = read(&mut d, line, t + Ps(1_000_001));
            assert!(again >= base + p.t_ras.ps(), "and back: not before tRAS");
        }
    }

    #[test]
    fn refresh_stops_a_rank() {
        let mut d = dram(|p| p.channels = 1);
        let p = d.p.clone();
        let t = 10 * p.t_refi.ps();
        let base = p.controller_latency.ps() + p.t_cl.ps() + d.p.burst() + p.t_rcd.ps();
        assert_eq!(read(&mut d, 0, t), base + p.t_rfc.ps() - p.controller_latency.ps() / 2);
    }

    #[test]
    fn refresh_of_a_bank_stops_no_other() {
        let mut p = platform().dram;
        (p.refresh, p.channels, p.ranks) = (Refresh::Bank, 1, 1);
        let mut d = Dram::new(&p);
        // The first bank's turn comes when an interval begins.
        let t = p.t_refi.ps() * 20;
        let of = |d: &Dram, bank: usize| (0..).find(|&line| d.place(line).bank == bank).expect("a line");
        let opened = p.t_rcd.ps();
        let (first, other) = (of(&d, 0), of(&d, p.banks as usize / 2));
        let (first, other) = (d.place(first), d.place(other));
        assert_eq!(d.schedule(other, t, Command::Read), t + opened);
        assert!(d.schedule(first, t, Command::Read) >= t + p.t_rfc.ps() + opened);
    }

    #[test]
    fn streams_reach_the_peak_less_refresh() {
        for (mut p, channels) in dram_grades().into_iter().flat_map(|p| [1, 2, 8].map(|n| (p.clone(), n))) {
            p.channels = channels;
            let mut d = Dram::new(&p);
            let peak = f64::from(p.transfer_rate) * 1e6 * f64::from(p.bus_width) * f64::from(channels);
            let n = 50_000u64;
            let begin = quiet(&d);
            // Requests come somewhat faster than the bus takes them, as from many cores.
            let gap = |l: u64| l * d.p.burst() * 9 / 10 / u64::from(channels);
            let arrivals: Vec<Ps> = (0..n).map(|l| begin + gap(l)).collect();
            let end = arrivals.iter().enumerate().map(|(l, &t)| d.read(l as u64, t, LOAD)).max().unwrap();
            let took = (end - begin).as_f64();
            let efficiency = (n * 512) as f64 * 1e12 / took / peak;
            let refresh = 1.0 - d.p.t_rfc.ps().as_f64() / d.p.t_refi.ps().as_f64();
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
        let end = (0..n).map(|k| d.read(k * step, begin, LOAD)).max().unwrap();
        let cycle = (end - begin).as_f64() / n as f64;
        let formula = (p.t_ras.ps() + p.t_rp.ps()).as_f64();
        let ratio = cycle / formula;
        assert!((0.95..1.15).contains(&ratio), "{cycle} ps a row against {formula}");
    }

    /// One of each relation to bank 0 of group 0 of rank 0.
    fn other(near: Near) -> (u16, u16, u16) {
        match near {
            Near::Bank => (0, 0, 0),
            Near::Group => (0, 0, 1),
            Near::Rank => (0, 1, 4),
            Near::Channel => (1, 4, 16),
        }
    }

    fn booked(command: Command, time: Ps, (rank, group, bank): (u16, u16, u16)) -> Booked {
        Booked { time, command, rank, group, bank }
    }

    #[test]
    fn between_banks_a_command_is_legal_at_its_time_and_not_a_clock_before() {
        use Command::{Activate, Read, Write};
        for p in dram_grades() {
            let t = Timing::new(&p);
            let (booking, clock) = (Ps::from_us(1), Ps(2_000_000 / u64::from(p.transfer_rate)));
            for near in [Near::Group, Near::Rank, Near::Channel] {
                for (from, to) in [(Read, Read), (Read, Write), (Write, Read), (Write, Write)] {
                    let after = t.after(from, to, near);
                    assert!(after >= p.burst() || to == Read, "{from:?} {to:?} {near:?}");
                    let mut list = Commands::new(4, 64);
                    list.insert(booked(from, booking, (0, 0, 0)), &t);
                    let at = |time| list.first_column(booked(to, time, other(near)), &t);
                    let back = t.after(to, from, near);
                    // A read of another rank may come while a write waits to send its data: before it is then as good.
                    if after >= clock {
                        assert_eq!(at(booking + after - clock), booking + after, "{from:?} {to:?} {near:?}");
                    }
                    assert_eq!(at(booking + after), booking + after);
                    // Seen from the other side: no later than so long before what is booked.
                    if back > Ps::ZERO {
                        assert_eq!(at(booking - back), booking - back, "{to:?} before {from:?}, {near:?}");
                        assert!(at(booking - back + Ps(1)) >= booking + after);
                    }
                }
            }
            for near in [Near::Group, Near::Rank] {
                let after = t.after(Activate, Activate, near);
                let mut list = Commands::new(4, 64);
                list.insert(booked(Activate, booking, (0, 0, 0)), &t);
                let at = |time| list.first_activate(booked(Activate, time, other(near)), &t);
                assert_eq!((at(booking + after - clock), at(booking + after)), (booking + after, booking + after));
            }
            // The fifth row of a rank waits for the window, the fourth does not.
            let rrd = t.after(Activate, Activate, Near::Rank);
            let mut list = Commands::new(4, 64);
            for n in 0..4 {
                let new = booked(Activate, booking + n * rrd, (0, n as u16, 4 * n as u16));
                assert_eq!(list.first_activate(new, &t), new.time);
                list.insert(new, &t);
            }
            let fifth = booking + (4 * rrd).max(t.four_activates);
            for from in [fifth - clock, fifth] {
                assert_eq!(list.first_activate(booked(Activate, from, (0, 4, 16)), &t), fifth);
            }
        }
    }

    /// What of JEDEC's list concerns one bank, and refresh: each by what a second access to it sees.
    #[test]
    fn in_a_bank_a_command_is_legal_at_its_time_and_not_a_clock_before() {
        for mut p in dram_grades() {
            (p.channels, p.ranks) = (1, 1);
            let clock = 2_000_000 / u64::from(p.transfer_rate);
            let (row, column) = (row_step(&p), u64::from(p.bank_groups));
            // The first access opens a row at `t`; when does the second, of `line` at `t + after`, come?
            let second = |first: Command, line: u64, command: Command, after: Ps| {
                let mut d = Dram::new(&p);
                let t = quiet(&d);
                let place = |line| d.place(line);
                let (one, two) = (place(0), place(line));
                let begun = d.schedule(one, t, first);
                assert_eq!(begun, t + p.t_rcd.ps(), "tRCD");
                d.schedule(two, t + after, command) - t
            };
            let (read, write) = (Command::Read, Command::Write);
            let reopened = p.t_rp.ps() + p.t_rcd.ps();
            // Reads and writes of the open row.
            for (command, ccd) in [(read, p.t_ccd_l), (write, p.t_ccd_l_wr)] {
                let next = p.t_rcd.ps() + ccd.ps().max(p.burst());
                for after in [next - Ps(clock), next] {
                    assert_eq!(second(command, column, command, after), next, "tCCD_L, tCCD_L_WR");
                }
            }
            // Another row: after tRAS and tRTP, or tWR.
            let closes = p.t_ras.ps().max(p.t_rcd.ps() + p.t_rtp.ps());
            for after in [closes - Ps(clock), closes] {
                assert_eq!(second(read, row, read, after), closes + reopened, "tRAS, tRTP, tRP");
            }
            let closes = p.t_ras.ps().max(p.t_rcd.ps() + p.t_cwl.ps() + p.burst() + p.t_wr.ps());
            for after in [closes - Ps(clock), closes] {
                assert_eq!(second(write, row, read, after), closes + reopened, "tCWL, tWR");
            }
            // Refresh.
            let mut d = Dram::new(&p);
            let (refresh, place) = (10 * p.t_refi.ps(), d.place(0));
            let usable = refresh + p.t_rfc.ps();
            assert_eq!(d.schedule(place, usable - Ps(clock), read), usable + p.t_rcd.ps(), "tRFC");
            let mut d = Dram::new(&p);
            assert_eq!(d.schedule(place, usable, read), usable + p.t_rcd.ps());
            // A row is closed before the refresh: what comes too late for that waits, and opens its row right behind it.
            let took = p.t_ras.ps().max(p.t_rcd.ps() + p.t_rtp.ps()) + p.t_rp.ps();
            let mut d = Dram::new(&p);
            assert_eq!(d.schedule(place, refresh - took, read), refresh - took + p.t_rcd.ps(), "tRP before a refresh");
            let mut d = Dram::new(&p);
            assert_eq!(d.schedule(place, refresh - took + Ps(clock), read), usable + p.t_rcd.ps());
        }
    }

    /// A read that is entered late comes behind a write that was booked for later: the write's recovery holds all the same.
    #[test]
    fn a_row_is_closed_once_all_that_use_it_allow() {
        for mut p in dram_grades() {
            (p.channels, p.ranks) = (1, 1);
            let mut d = Dram::new(&p);
            let (t, other, column) = (quiet(&d), row_step(&p), u64::from(p.bank_groups));
            let places = [0, column, 2 * column, other].map(|line| d.place(line));
            d.schedule(places[0], t, Command::Read);
            let written = d.schedule(places[1], t + Ps::from_ns(200), Command::Write);
            let behind = d.schedule(places[2], t + Ps(199_999), Command::Read);
            assert!(behind > written);
            let closed = written + p.t_cwl.ps() + p.burst() + p.t_wr.ps();
            let reopened = d.schedule(places[3], behind + Ps(1), Command::Read);
            assert!(reopened >= closed + p.t_rp.ps() + p.t_rcd.ps(), "tWR");
        }
    }

    /// gem5's RoRaBaCoCh: 128 lines of a row of 8 KiB follow each other in one bank, channel by channel.
    #[test]
    fn a_contiguous_row_stays_in_its_bank() {
        let d = dram(|p| (p.channels, p.ranks, p.interleave, p.mapping) = (4, 2, 64, Mapping::RowContiguous));
        let row = d.p.row_size.bytes() / 64;
        let (first, last) = (d.place(0), d.place(4 * (row - 1)));
        assert_eq!((first, d.place(1).channel, d.place(5).channel), (last, 1, 1));
        assert_eq!((d.place(4 * row).group, d.place(4 * row).row), (1, first.row), "then the next group's");
        let all = u64::from(d.p.banks * d.p.ranks);
        assert_eq!((d.place(4 * row * all / 2).rank, d.place(4 * row * all).row), (1, first.row + 1));
        let mut seen: Vec<_> = (0..4 * row * all * 2).map(|l| d.place(l)).map(|p| (p.channel, p.bank, p.row)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len() as u64, 4 * all * 2, "no two rows in one place");
    }

    #[test]
    fn a_waiting_write_answers_reads_and_takes_further_writes() {
        let mut d = dram(|p| (p.channels, p.write_queue_entries) = (1, 32));
        let t = quiet(&d);
        let closed = read(&mut d, 4, t);
        for line in 0..31 {
            d.write(line, t + Ps::from_us(1), None);
        }
        d.write(7, t + Ps::from_ns(1100), None);
        assert_eq!((d.stats.writes_merged, d.stats.write_drains), (1, 0));
        assert_eq!(read(&mut d, 4, t + Ps::from_ns(1200)), d.p.controller_latency.ps(), "the queue has it");
        assert_eq!(
            read(&mut d, 4, t + Ps::from_ns(900)),
            closed - d.p.t_rcd.ps(),
            "before it was written the queue had not"
        );
        assert_eq!(d.stats.reads_forwarded, 1);
        assert_eq!(read(&mut d, 40, t + Ps::from_ns(1300)), closed - d.p.t_rcd.ps(), "gathered writes do not disturb");
    }

    /// A row is open for an access ahead, and another row of its bank is wanted before: it is opened again in time.
    #[test]
    fn a_row_that_is_closed_under_a_later_access_is_opened_again() {
        let mut d = dram(|p| (p.channels, p.ranks) = (1, 1));
        let (t, row, column) = (quiet(&d), row_step(&d.p), u64::from(d.p.bank_groups));
        read(&mut d, 0, t);
        let ahead = read(&mut d, column, t + Ps::from_us(2));
        let other = read(&mut d, row, t + Ps::from_us(1));
        assert_eq!(other, ahead + d.p.t_rp.ps() + d.p.t_rcd.ps(), "as if nothing came later");
        assert_eq!((d.stats.row_hits, d.stats.row_misses, d.stats.rows_reopened), (1, 2, 1));
        // Until then the bank is as if it were not.
        assert_eq!(read(&mut d, 2 * column, t + Ps::from_ns(1500)), other);
        assert_eq!(d.stats.rows_reopened, 1, "the later access finds that row open now");
        // Right before it there is no time to: it comes behind.
        let mut d = dram(|p| (p.channels, p.ranks) = (1, 1));
        read(&mut d, 0, t);
        read(&mut d, column, t + Ps::from_us(2));
        assert!(read(&mut d, row, t + Ps::from_ns(1990)) > other + Ps::from_ns(10));
        assert_eq!(d.stats.rows_reopened, 0);
    }

    /// A row is open for as long as its policy says: then the next access opens its own, of whatever row, without waiting
    /// for another to be closed.
    #[test]
    fn a_row_stays_open_for_as_long_as_is_said() {
        let after = |policy: PagePolicy, row: u64, pause: u64| {
            let mut d = dram(|p| {
                (p.channels, p.ranks, p.page_policy) = (1, 1, policy);
                p.page_timeout = "300ns".parse().expect("a duration");
            });
            let (t, p) = (quiet(&d), d.p.clone());
            let column = d.schedule(d.place(0), t, Command::Read);
            let again = d.place(row * row_step(&p) + u64::from(p.bank_groups));
            let at = column + Ps::from_ns(pause);
            (d.schedule(again, at, Command::Read) - at, p)
        };
        let (open, p) = after(PagePolicy::Open, 0, 900);
        let (opened, reopened) = (p.t_rcd.ps(), p.t_rp.ps() + p.t_rcd.ps());
        assert_eq!((open, after(PagePolicy::Open, 1, 900).0), (Ps::ZERO, reopened));
        assert_eq!((after(PagePolicy::Closed, 0, 100).0, after(PagePolicy::Closed, 1, 100).0), (opened, opened));
        let timed = |row, pause| after(PagePolicy::Timed, row, pause).0;
        assert_eq!((timed(0, 300), timed(1, 300)), (Ps::ZERO, reopened), "still open");
        assert_eq!((timed(0, 400), timed(1, 400)), (opened, opened), "closed");
        assert_eq!(timed(0, 301), reopened - Ps::from_ns(1), "being closed");
    }

    /// A write that is entered late fills the queue at an earlier time: what was sent later by then is sent earlier.
    #[test]
    fn a_queue_that_was_full_before_is_sent_before_and_once() {
        let mut d = dram(|p| (p.channels, p.ranks, p.write_queue_entries) = (1, 1, 4));
        let t = quiet(&d);
        for (line, at) in [(0, 0), (40, 10), (80, 20), (120, 2_000_000)] {
            d.write(line, t + Ps(at), None);
        }
        let columns = |d: &Dram| d.channels[0].columns.all().map(|c| c.time).collect::<Vec<_>>();
        assert!(columns(&d).len() == 4 && columns(&d)[0] > t + Ps::from_us(2));
        d.write(160, t + Ps::from_us(1), None);
        assert_eq!((d.stats.write_drains, d.stats.writes_moved), (2, 3));
        let (earlier, later): (Vec<Ps>, Vec<Ps>) = columns(&d).iter().partition(|&&c| c < t + Ps::from_us(2));
        assert_eq!((earlier.len(), later.len()), (4, 1), "each once");
        assert_eq!(d.channels[0].banks.iter().map(|b| b.all().count()).sum::<usize>(), 5);
    }

    #[test]
    fn while_one_bank_is_written_others_are_read() {
        let n = 32;
        let mut d = dram(|p| (p.channels, p.ranks, p.write_queue_entries) = (1, 1, n));
        let (t, step) = (quiet(&d), row_step(&d.p));
        // Rows of one bank, one after the other.
        for row in 0..u64::from(n) {
            assert_eq!(d.place(row * step).bank, d.place(0).bank);
            d.write(row * step, t, None);
        }
        assert_eq!((d.stats.write_drains, d.stats.writes_moved), (1, 0));
        let cycle = d.p.t_rcd.ps() + d.p.t_cwl.ps() + d.p.burst() + d.p.t_wr.ps() + d.p.t_rp.ps();
        let p = d.p.clone();
        let idle = p.controller_latency.ps() + p.t_rcd.ps() + p.t_cl.ps() + p.burst();
        // Another group's bank waits for the bus to turn at most; the written bank for all of its rows.
        let turns = p.t_cwl.ps() + p.burst() + p.t_wtr_l.ps() + p.t_rtw.ps() + p.t_cl.ps();
        let aside = read(&mut d, 1, t + cycle);
        assert!(aside <= idle + turns, "{aside:?} against {idle:?}");
        let same = read(&mut d, u64::from(n + 1) * step, t + cycle);
        assert!(same > u64::from(n - 2) * cycle, "{same:?} for {n} rows of {cycle:?}");
    }

    use proptest::prelude::*;

    const POLICIES: [PagePolicy; 3] = [PagePolicy::Open, PagePolicy::Closed, PagePolicy::Timed];

    /// Line, time and whether it is written.
    type Access = (u64, Ps, bool);

    fn play(d: &mut Dram, (line, t, write): Access) -> Ps {
        if write {
            d.write(line, t, None);
            return Ps::ZERO;
        }
        d.read(line, t, LOAD)
    }

    /// All commands of a channel but precharges.
    fn commands(d: &Dram) -> Vec<Booked> {
        let c = &d.channels[0];
        let all = c.activations.iter().chain(std::iter::once(&c.columns));
        all.flat_map(|list| list.all().copied()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// In whatever order they are entered, no two commands are nearer than the standard allows, checked pair by pair; every
        /// access finds its row open; every write is booked once.
        #[test]
        fn every_pair_of_commands_is_legal(
            mut accesses in prop::collection::vec((0u64..4096, 0u64..3_000_000, any::<bool>()), 1..200),
            grade in 0usize..4,
            policy in 0usize..3,
            sorted in any::<bool>(),
        ) {
            let mut p = dram_grades().remove(grade);
            (p.channels, p.ranks, p.write_queue_entries) = (1, 2, 8);
            p.page_policy = POLICIES[policy];
            let mut d = Dram::new(&p);
            if sorted {
                accesses.sort_unstable_by_key(|a| a.1);
            }
            let from = quiet(&d);
            for &(line, t, write) in &accesses {
                play(&mut d, (line * 37, from + Ps(t), write));
            }
            let entered = accesses.iter().filter(|a| a.2).count() as u64;
            let c = &d.channels[0];
            let written = c.columns.all().filter(|c| c.command == Command::Write).count() as u64;
            prop_assert_eq!(written + c.writes.left() as u64 + d.stats.writes_merged, entered);
            let uses: Vec<Use> = c.banks.iter().flat_map(|bank| bank.all().copied()).collect();
            prop_assert_eq!(uses.len(), c.columns.all().count());
            prop_assert_eq!(uses.iter().filter(|u| u.opens).count(), c.activations.iter().map(|a| a.all().count()).sum::<usize>());
            for bank in &c.banks {
                let uses: Vec<&Use> = bank.all().collect();
                for pair in uses.windows(2) {
                    let (one, two) = (pair[0], pair[1]);
                    prop_assert!(one.begin <= two.begin && one.begin <= one.opened.max(one.column));
                    if two.opens {
                        prop_assert!(one.epoch != two.epoch || one.leaves_room_for(two, d.closes()), "{one:?} {two:?}");
                    } else {
                        prop_assert_eq!((one.row, one.opened, one.epoch), (two.row, two.opened, two.epoch));
                        prop_assert!(one.precharge <= two.precharge);
                    }
                    prop_assert!(one.column >= one.opened + p.t_rcd.ps());
                }
            }
            let mut all = commands(&d);
            all.sort_by_key(|c| c.time);
            let mut rows = vec![Vec::new(); p.ranks as usize];
            for (i, one) in all.iter().enumerate() {
                for two in &all[i + 1..] {
                    let near = if one.bank == two.bank { Near::Bank } else if one.group == two.group { Near::Group }
                        else if one.rank == two.rank { Near::Rank } else { Near::Channel };
                    if near == Near::Channel && (one.command == Command::Activate || two.command == Command::Activate) {
                        continue;
                    }
                    let after = |from, to| d.timing.after(from, to, near);
                    // A row is closed first.
                    let closing = near == Near::Bank && one.command != Command::Activate && two.command == Command::Activate;
                    let closing = if closing { after(one.command, Command::Precharge) + d.closes() } else { Ps::ZERO };
                    let allowed = one.time + after(one.command, two.command).max(closing);
                    // A refresh in between closes rows: what its banks did before it does not matter.
                    let unit = usize::from(if p.refresh == Refresh::Rank { one.rank } else { one.bank });
                    let together = p.refresh == Refresh::Rank || near == Near::Bank;
                    let refreshed = together && d.refreshed(unit, one.time).0 != d.refreshed(unit, two.time).0;
                    prop_assert!(two.time >= allowed || refreshed, "{one:?} {two:?}");
                }
                if one.command == Command::Activate {
                    rows[usize::from(one.rank)].push(one.time);
                }
            }
            for times in rows {
                for five in times.windows(5) {
                    prop_assert!(five[4] - five[0] >= d.timing.four_activates);
                }
            }
        }

        /// Whatever is entered for later, what is over before gets the same.
        #[test]
        fn what_is_booked_ahead_never_delays_what_is_earlier(
            earlier in prop::collection::vec((0u64..2048, 0u64..2_000_000, any::<bool>()), 1..100),
            later in prop::collection::vec((0u64..2048, 0u64..40_000_000, any::<bool>()), 1..100),
            policy in 0usize..3,
        ) {
            let make = || dram(|p| {
                (p.channels, p.ranks, p.write_queue_entries) = (1, 2, 8);
                p.page_policy = POLICIES[policy];
            });
            let (mut alone, mut mixed) = (make(), make());
            let begin = quiet(&alone);
            let ends: Vec<Ps> = earlier.iter().map(|&(l, t, w)| play(&mut alone, (l * 5, begin + Ps(t), w))).collect();
            // Drains go on after the last read.
            let over = commands(&alone).iter().map(|c| c.time).max().unwrap_or(Ps::ZERO).max(begin + Ps::from_us(2)) + Ps::from_ns(200);
            for (i, &(line, t, write)) in later.iter().enumerate() {
                play(&mut mixed, (line * 5, over + Ps(t), write));
                if let Some(&(l, t, w)) = earlier.get(i) {
                    prop_assert_eq!(play(&mut mixed, (l * 5, begin + Ps(t), w)), ends[i]);
                }
            }
        }

        /// Forgetting what nobody can reach changes nothing.
        #[test]
        fn forgetting_changes_nothing(
            mut accesses in prop::collection::vec((0u64..2048, 0u64..20_000_000, any::<bool>()), 1..300),
        ) {
            accesses.sort_unstable_by_key(|a| a.1 / 300_000);
            let make = || dram(|p| (p.channels, p.ranks, p.write_queue_entries) = (1, 2, 8));
            let (mut all, mut some) = (make(), make());
            for (line, t, write) in accesses {
                some.reached(Ps(t / 300_000 * 300_000));
                prop_assert_eq!(play(&mut some, (line * 5, Ps(t), write)), play(&mut all, (line * 5, Ps(t), write)));
            }
        }
    }
}
