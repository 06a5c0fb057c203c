//! Commands that have been booked, by bank, rank and channel, in order of their time.
//!
//! Requests come in any order of time: each takes the first times that are legal against what has been booked before
//! *and* behind them. Which row is open is what holds at a request's time, whatever has been booked for later.

use super::timing::{Command, Near, Timing};
use wiretime_base::{Ps, Sorted};

/// An access as its bank saw it.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Its first command.
    pub begin: Ps,
    /// When its row was opened, which may have been for an earlier access.
    pub opened: Ps,
    /// It opens its row itself.
    pub opens: bool,
    /// Which refresh interval that was in: refresh closes rows.
    pub epoch: u64,
    pub row: u64,
    /// Its read or write.
    pub column: Ps,
    /// When the row may be closed; with closed rows, when it is.
    pub precharge: Ps,
}

impl Use {
    /// Whether its row is still open at `t`, where rows are for some time behind an access.
    #[inline]
    pub fn stays_open(&self, time: Ps, t: Ps) -> bool {
        t <= self.column.saturating_add(time)
    }

    /// Whether the row that this access leaves open is closed in time for `next`, which opens another.
    pub fn leaves_room_for(&self, next: &Self, closes: Ps) -> bool {
        if next.begin < next.opened {
            self.precharge <= next.begin // its first command closes a row
        } else {
            self.precharge + closes <= next.opened
        }
    }
}

/// A bank.
#[derive(Default)]
pub struct Bank {
    /// In order of `begin`.
    uses: Sorted<Use>,
}

impl Bank {
    /// How many accesses begin at or before `t`.
    #[inline]
    pub fn until(&self, t: Ps) -> usize {
        self.uses.count(|u| u.begin <= t)
    }

    /// The last of the first `n`.
    #[inline]
    pub fn last_of(&self, n: usize) -> Option<&Use> {
        n.checked_sub(1).and_then(|i| self.uses.get(i))
    }

    /// The last of all.
    #[inline]
    pub fn last(&self) -> Option<&Use> {
        self.uses.last()
    }

    /// When the row of `new` may be closed, with what uses it before.
    #[inline]
    pub fn precharge(&self, new: &Use) -> Ps {
        let before = self.last_of(self.until(new.begin)).filter(|_| !new.opens);
        before.map_or(new.precharge, |u| new.precharge.max(u.precharge))
    }

    /// The first behind `n` others that wants another row than `new`, or opens its row itself.
    #[inline]
    pub fn behind(&self, n: usize, new: &Use) -> Option<&Use> {
        self.uses[n..].iter().find(|u| u.opens || u.row != new.row || u.epoch != new.epoch)
    }

    /// The first behind `t` that opens a row.
    pub fn opens_behind(&self, t: Ps) -> Option<&Use> {
        self.uses[self.until(t)..].iter().find(|u| u.opens)
    }

    /// Accesses of the same open row behind it let it be closed no earlier.
    #[inline]
    pub fn insert(&mut self, new: Use) {
        let at = self.until(new.begin);
        if at == self.uses.len() {
            self.uses.push(new);
            return;
        }
        for u in self.uses[at..].iter_mut().take_while(|u| !u.opens) {
            u.precharge = u.precharge.max(new.precharge);
        }
        self.uses.insert(at, new);
    }

    /// The first access behind `behind`, a hit so far, opens its row itself, at `at`, and those of the row with it.
    pub fn reopen(&mut self, behind: Ps, begin: Ps, at: Ps, closed: Ps) {
        let from = self.until(behind);
        if let Some(first) = self.uses.get_mut(from) {
            (first.opens, first.begin, first.opened) = (true, begin, at);
            first.precharge = first.precharge.max(closed);
        }
        for u in self.uses.iter_mut().skip(from + 1).take_while(|u| !u.opens) {
            u.opened = at;
            u.precharge = u.precharge.max(closed);
        }
    }

    /// Takes the access out whose read or write comes at `column`; returns it and the one behind it if that finds its row
    /// open.
    pub fn remove(&mut self, column: Ps) -> Option<(Use, Option<Use>)> {
        let at = self.uses.iter().rposition(|u| u.column == column)?;
        let gone = self.uses.remove(at);
        Some((gone, self.uses.get(at).filter(|next| !next.opens).copied()))
    }

    #[cfg(test)]
    pub fn all(&self) -> impl Iterator<Item = &Use> {
        self.uses.iter()
    }

    /// The last access before `t` says which row is open; those before it are of no use.
    pub fn reached(&mut self, t: Ps) {
        self.uses.forget(|rest| rest.get(1).is_some_and(|next| next.begin <= t));
    }
}

/// Commands that keep a distance from each other: activations of a rank, or reads and writes of a channel.
#[derive(Default)]
pub struct Commands {
    booked: Sorted<Booked>,
    /// First and last of runs that follow each other so closely that nothing fits in between.
    runs: Sorted<(Ps, Ps)>,
    /// The last read and the last write of each group, and of each rank: all that matters to a read or write behind them.
    /// Nothing of activations.
    last_of_group: Vec<Last>,
    last_of_rank: Vec<Last>,
}

/// The last time of each command, by its number, or that there is none.
type Last = [Option<Ps>; 4];

/// A command and where it goes.
#[derive(Clone, Copy, Debug)]
pub struct Booked {
    pub time: Ps,
    pub command: Command,
    pub rank: u16,
    pub group: u16,
    pub bank: u16,
}

impl Booked {
    /// A bank's number says its group and rank, a group's its rank.
    #[inline]
    fn near(&self, other: &Self) -> Near {
        let apart = |one: u16, two: u16| usize::from(one != two);
        Near::ALL[apart(self.bank, other.bank) + apart(self.group, other.group) + apart(self.rank, other.rank)]
    }
}

impl Commands {
    /// Reads and writes of so many ranks and groups, all ranks' together.
    pub fn new(ranks: u32, groups: u32) -> Self {
        let none = |n: u32| vec![Last::default(); n as usize];
        Self { last_of_group: none(groups), last_of_rank: none(ranks), ..Self::default() }
    }

    /// How many are at or before `t`.
    #[inline]
    fn before(&self, t: Ps) -> usize {
        self.booked.count(|b| b.time <= t)
    }

    /// Where `t` is: among the runs, and among all.
    fn place(&self, t: Ps) -> (usize, usize) {
        (self.runs.count(|run| run.0 <= t), self.before(t))
    }

    /// Where there is a run in which nothing finds room at `t`, that becomes its end. Returns how many are at or before it. A search goes on
    /// from the place of an earlier time, which is mostly near.
    #[inline]
    fn behind_run(&self, (run, at): &mut (usize, usize), t: &mut Ps) -> usize {
        *run += self.runs[*run..].iter().take_while(|run| run.0 <= *t).count();
        if let Some(last) = run.checked_sub(1) {
            *t = (*t).max(self.runs[last].1);
        }
        *at += self.booked[*at..].iter().take_while(|b| b.time <= *t).count();
        *at
    }

    /// The first time from its own on at which the command is legal beside the first `at` alone.
    #[inline]
    fn after_all_of(&self, new: &Booked, at: usize, t: &Timing) -> Ps {
        let (reach, mut legal, mut i) = (t.reach_to(new.command), new.time, at);
        while i > 0 {
            let old = &self.booked[i - 1];
            if old.time + reach <= legal {
                break;
            }
            legal = legal.max(old.time + t.after(old.command, new.command, old.near(new)));
            i -= 1;
        }
        legal
    }

    /// The same behind all that is booked, for a read or a write: a bank is no more to it than its group.
    #[inline]
    fn column_after_all(&self, new: &Booked, t: &Timing) -> Ps {
        let mut legal = new.time;
        let mut behind = |last: &Last, near| {
            for old in [Command::Read, Command::Write] {
                if let Some(time) = last[old as usize] {
                    legal = legal.max(time + t.after(old, new.command, near));
                }
            }
        };
        behind(&self.last_of_group[usize::from(new.group)], Near::Group);
        for (rank, last) in self.last_of_rank.iter().enumerate() {
            behind(last, if rank == usize::from(new.rank) { Near::Rank } else { Near::Channel });
        }
        legal
    }

    /// When the command may come at the earliest if at its time it would come too shortly before one of those behind the
    /// first `at`.
    #[inline]
    fn behind_those_after(&self, new: &Booked, at: usize, t: &Timing) -> Option<Ps> {
        let reach = t.reach_from(new.command);
        let mut i = at;
        while let Some(later) = self.booked.get(i).filter(|later| later.time < new.time + reach) {
            let near = new.near(later);
            if new.time + t.after(new.command, later.command, near) > later.time {
                return Some((later.time + t.after(later.command, new.command, near)).max(later.time + Ps(1)));
            }
            i += 1;
        }
        None
    }

    /// When a read or write may come, at `new.time` or later: the first legal time.
    #[inline]
    pub fn first_column(&self, mut new: Booked, t: &Timing) -> Ps {
        // Nearly always in the last run, or behind it: what is booked last ends it.
        match self.runs.last() {
            Some(&(first, last)) if new.time >= first => {
                new.time = new.time.max(last);
                self.column_after_all(&new, t)
            }
            _ => self.first_column_between(new, t),
        }
    }

    fn first_column_between(&self, mut new: Booked, t: &Timing) -> Ps {
        let mut place = self.place(new.time);
        loop {
            let at = self.behind_run(&mut place, &mut new.time);
            new.time = self.after_all_of(&new, at, t);
            match self.booked.get(at) {
                None => return new.time,
                Some(next) if next.time <= new.time => continue,
                Some(_) => {}
            }
            match self.behind_those_after(&new, at, t) {
                None => return new.time,
                Some(behind) => new.time = behind,
            }
        }
    }

    /// When a row may be opened, at `new.time` or later: no more than four in any window.
    #[inline]
    pub fn first_activate(&self, mut new: Booked, t: &Timing) -> Ps {
        // Nearly always behind all that is booked, as columns are.
        match self.runs.last() {
            Some(&(first, last)) if new.time >= first => {
                let at = self.booked.len();
                new.time = self.after_all_of(&Booked { time: new.time.max(last), ..new }, at, t);
                let fourth = at.checked_sub(4).map(|i| self.booked[i].time + t.four_activates);
                new.time.max(fourth.unwrap_or(Ps::ZERO))
            }
            _ => self.first_activate_between(new, t),
        }
    }

    fn first_activate_between(&self, mut new: Booked, t: &Timing) -> Ps {
        let mut place = self.place(new.time);
        loop {
            let at = self.behind_run(&mut place, &mut new.time);
            let mut allowed = self.after_all_of(&new, at, t);
            if allowed == new.time {
                allowed = self.behind_those_after(&new, at, t).unwrap_or(allowed);
            }
            // With it, any five in a row span the window.
            for first in at.saturating_sub(4)..=at {
                // The fifth of those that begin with `first`, the new one among them.
                let fifth = first + 4;
                let begin = if first < at { self.booked[first].time } else { new.time };
                let end = match fifth.checked_sub(at) {
                    Some(0) => new.time,
                    Some(_) => match self.booked.get(fifth - 1) {
                        Some(later) => later.time,
                        None => continue,
                    },
                    None => continue,
                };
                if begin + t.four_activates > end {
                    // Later than what closes the window too early, be it itself or one behind it.
                    let behind = self.booked.get(at).map_or(begin + t.four_activates, |next| next.time + Ps(1));
                    allowed = allowed.max(if fifth == at { begin + t.four_activates } else { behind });
                }
            }
            if allowed == new.time {
                return allowed;
            }
            new.time = allowed;
        }
    }

    #[cfg(test)]
    pub fn all(&self) -> impl Iterator<Item = &Booked> {
        self.booked.iter()
    }

    #[inline]
    pub fn insert(&mut self, new: Booked, t: &Timing) {
        for last in self.last_with(&new).into_iter().flatten() {
            *last = (*last).max(Some(new.time));
        }
        match (self.booked.last(), self.runs.last_mut()) {
            (Some(last), Some(run)) if last.time <= new.time => {
                if Self::nothing_between(last, &new, t) {
                    run.1 = run.1.max(new.time);
                } else {
                    self.runs.push((new.time, new.time));
                }
                self.booked.push(new);
            }
            _ => self.insert_between(new, t),
        }
    }

    /// When a command like this one was the last of its group, and of its rank; nothing where that is not kept.
    #[inline]
    fn last_with(&mut self, new: &Booked) -> [Option<&mut Option<Ps>>; 2] {
        let (group, rank) = (usize::from(new.group), usize::from(new.rank));
        let last = [self.last_of_group.get_mut(group), self.last_of_rank.get_mut(rank)];
        last.map(|last| last.map(|commands| &mut commands[new.command as usize]))
    }

    fn insert_between(&mut self, new: Booked, t: &Timing) {
        let at = self.before(new.time);
        let joins = at > 0 && Self::nothing_between(&self.booked[at - 1], &new, t);
        let joined = self.booked.get(at).is_some_and(|next| Self::nothing_between(&new, next, t));
        self.booked.insert(at, new);
        let mut i = self.runs.count(|run| run.0 <= new.time);
        if joins && i > 0 {
            i -= 1;
            self.runs[i].1 = self.runs[i].1.max(new.time);
        } else {
            self.runs.insert(i, (new.time, new.time));
        }
        if let (true, Some(&(_, last))) = (joined, self.runs.get(i + 1)) {
            self.runs[i].1 = last;
            self.runs.remove(i + 1);
        }
    }

    /// Takes out the command to `bank` at `time`.
    pub fn remove(&mut self, time: Ps, bank: u16, t: &Timing) {
        let mut at = self.before(time);
        loop {
            let Some(i) = at.checked_sub(1) else { return };
            if self.booked[i].time != time {
                return;
            }
            at = i;
            if self.booked[i].bank == bank {
                break;
            }
        }
        let gone = self.booked.remove(at);
        if gone.command != Command::Activate {
            let left = |near: &dyn Fn(&Booked) -> bool| {
                self.booked.iter().rev().find(|b| b.command == gone.command && near(b)).map(|b| b.time)
            };
            let before = [left(&|b| b.group == gone.group), left(&|b| b.rank == gone.rank)];
            for (last, before) in self.last_with(&gone).into_iter().zip(before) {
                if let Some(last) = last {
                    *last = before;
                }
            }
        }
        // The run that it was in is cut there, unless its neighbours still leave no room.
        let run = self.runs.count(|run| run.0 <= time).checked_sub(1);
        let Some((i, (first, last))) = run.and_then(|i| Some((i, *self.runs.get(i)?))) else { return };
        let near = at > 0 && self.booked.get(at).is_some_and(|b| Self::nothing_between(&self.booked[at - 1], b, t));
        if time > last || near && first < time && time < last {
            return;
        }
        self.runs.remove(i);
        if let Some(next) = self.booked.get(at).filter(|b| b.time <= last) {
            self.runs.insert(i, (next.time, last));
        }
        if let Some(before) = at.checked_sub(1).map(|b| self.booked[b]).filter(|b| b.time >= first) {
            self.runs.insert(i, (first, before.time));
        }
    }

    /// Whether no third command finds room between two that follow each other.
    fn nothing_between(a: &Booked, b: &Booked, t: &Timing) -> bool {
        b.time - a.time < t.room(a.command, b.command)
    }

    /// Nothing is asked for before `t` any more, and nothing reaches further than `reach` or four commands.
    pub fn reached(&mut self, t: Ps, reach: Ps) {
        self.booked.forget(|rest| rest.get(4).is_some_and(|fifth| fifth.time + reach < t));
        self.runs.forget(|rest| rest[0].1 + reach < t);
    }
}
