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
#[cfg(test)]
mod tests;
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
        if self.channels[place.channel].writes.answers(line, t) {
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
            let counted = (self.stats.row_hits, self.stats.row_misses);
            let column = self.schedule(s.place, t, Command::Write);
            if s.booked.is_some() {
                // It counts as what it found when it was booked first: counters never fall.
                (self.stats.row_hits, self.stats.row_misses) = counted;
            }
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
