//! Commands that have been booked, by bank, rank and channel, in order of their time.
//!
//! Requests come in any order of time: each takes the first times that are legal against what has been booked before
//! *and* behind them. Which row is open is what holds at a request's time, whatever has been booked for later.

use super::timing::{Command, Near, Timing};
use std::collections::VecDeque;
use wiretime_base::{sorted, Ps};

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
    /// Whether the row that this access leaves open is closed in time for `next`, which opens another.
    pub fn leaves_room_for(&self, next: &Self, closes: Ps) -> bool {
        if next.begin < next.opened {
            self.precharge <= next.begin // its first command closes a row
        } else {
            self.precharge + closes <= next.opened
        }
    }
}

/// How many of `list`, sorted by `time`, are at or before `t`.
#[inline]
fn before<T>(list: &VecDeque<T>, t: Ps, time: impl Fn(&T) -> Ps) -> usize {
    sorted::count(list, |entry| time(entry) <= t)
}

/// A bank.
#[derive(Default)]
pub struct Bank {
    /// In order of `begin`.
    uses: VecDeque<Use>,
}

impl Bank {
    /// The last access that begins at or before `t`.
    #[inline]
    pub fn before(&self, t: Ps) -> Option<&Use> {
        before(&self.uses, t, |u| u.begin).checked_sub(1).and_then(|i| self.uses.get(i))
    }

    /// When the row of `new` may be closed, with what uses it before.
    #[inline]
    pub fn precharge(&self, new: &Use) -> Ps {
        let before = self.before(new.begin).filter(|_| !new.opens);
        before.map_or(new.precharge, |u| new.precharge.max(u.precharge))
    }

    /// The first behind `t` that wants another row than `new`, or opens its row itself.
    #[inline]
    pub fn behind(&self, t: Ps, new: &Use) -> Option<&Use> {
        let from = before(&self.uses, t, |u| u.begin);
        self.uses.range(from..).find(|u| u.opens || u.row != new.row || u.epoch != new.epoch)
    }

    /// The first behind `t` that opens a row.
    pub fn opens_behind(&self, t: Ps) -> Option<&Use> {
        self.uses.range(before(&self.uses, t, |u| u.begin)..).find(|u| u.opens)
    }

    /// Accesses of the same open row behind it let it be closed no earlier.
    pub fn insert(&mut self, new: Use) {
        let at = before(&self.uses, new.begin, |u| u.begin);
        for u in self.uses.range_mut(at..).take_while(|u| !u.opens) {
            u.precharge = u.precharge.max(new.precharge);
        }
        self.uses.insert(at, new);
    }

    /// The first access behind `behind`, a hit so far, opens its row itself, at `at`, and those of the row with it.
    pub fn reopen(&mut self, behind: Ps, begin: Ps, at: Ps, closed: Ps) {
        let from = before(&self.uses, behind, |u| u.begin);
        if let Some(first) = self.uses.get_mut(from) {
            (first.opens, first.begin, first.opened) = (true, begin, at);
            first.precharge = first.precharge.max(closed);
        }
        for u in self.uses.range_mut((from + 1).min(self.uses.len())..).take_while(|u| !u.opens) {
            u.opened = at;
            u.precharge = u.precharge.max(closed);
        }
    }

    /// Takes the access out whose read or write comes at `column`; returns it and the one behind it if that finds its row
    /// open.
    pub fn remove(&mut self, column: Ps) -> Option<(Use, Option<Use>)> {
        let at = self.uses.iter().rposition(|u| u.column == column)?;
        let gone = self.uses.remove(at)?;
        Some((gone, self.uses.get(at).filter(|next| !next.opens).copied()))
    }

    #[cfg(test)]
    pub fn all(&self) -> impl Iterator<Item = &Use> {
        self.uses.iter()
    }

    /// The last access before `t` says which row is open; those before it are of no use.
    pub fn reached(&mut self, t: Ps) {
        while self.uses.get(1).is_some_and(|next| next.begin <= t) {
            self.uses.pop_front();
        }
    }
}

/// Commands that keep a distance from each other: activations of a rank, or reads and writes of a channel.
#[derive(Default)]
pub struct Commands {
    booked: VecDeque<Booked>,
    /// First and last of runs that follow each other so closely that nothing fits in between.
    runs: VecDeque<(Ps, Ps)>,
}

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
    fn near(&self, other: &Self) -> Near {
        if self.bank == other.bank {
            Near::Bank
        } else if self.group == other.group {
            Near::Group
        } else if self.rank == other.rank {
            Near::Rank
        } else {
            Near::Channel
        }
    }
}

impl Commands {
    /// How many are at or before `t`.
    #[inline]
    fn before(&self, t: Ps) -> usize {
        before(&self.booked, t, |b| b.time)
    }

    /// Where a run is in which nothing finds room at `t`: its end.
    #[inline]
    fn behind_run(&self, t: Ps) -> Ps {
        let i = before(&self.runs, t, |run| run.0);
        i.checked_sub(1).map_or(t, |i| t.max(self.runs[i].1))
    }

    /// Until when the command has to wait at its time at least; its own time where it is legal.
    #[inline]
    fn legal(&self, new: &Booked, at: usize, t: &Timing) -> Ps {
        let old_to_new = |old: &Booked| old.time + t.after(old.command, new.command, old.near(new));
        let reach = t.reach_to(new.command);
        let mut i = at;
        while i > 0 && self.booked[i - 1].time + reach > new.time {
            i -= 1;
            let allowed = old_to_new(&self.booked[i]);
            if allowed > new.time {
                return allowed;
            }
        }
        let reach = t.reach_from(new.command);
        let mut i = at;
        while let Some(later) = self.booked.get(i).filter(|later| later.time < new.time + reach) {
            if new.time + t.after(new.command, later.command, new.near(later)) > later.time {
                // Behind it, at the earliest.
                return old_to_new(later).max(later.time + 1);
            }
            i += 1;
        }
        new.time
    }

    /// When a read or write may come, at `new.time` or later.
    pub fn first_column(&self, mut new: Booked, t: &Timing) -> Ps {
        loop {
            new.time = self.behind_run(new.time);
            let allowed = self.legal(&new, self.before(new.time), t);
            if allowed == new.time {
                return allowed;
            }
            new.time = allowed;
        }
    }

    /// When a row may be opened, at `new.time` or later: no more than four in any window.
    pub fn first_activate(&self, mut new: Booked, t: &Timing) -> Ps {
        loop {
            new.time = self.behind_run(new.time);
            let at = self.before(new.time);
            let mut allowed = self.legal(&new, at, t);
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
                    let behind = self.booked.get(at).map_or(begin + t.four_activates, |next| next.time + 1);
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

    pub fn insert(&mut self, new: Booked, t: &Timing) {
        let at = self.before(new.time);
        let joins = at > 0 && Self::nothing_between(&self.booked[at - 1], &new, t);
        let joined = self.booked.get(at).is_some_and(|next| Self::nothing_between(&new, next, t));
        self.booked.insert(at, new);
        let mut i = before(&self.runs, new.time, |run| run.0);
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
        self.booked.remove(at);
        // The run that it was in is cut there, unless its neighbours still leave no room.
        let run = before(&self.runs, time, |run| run.0).checked_sub(1);
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
        while self.booked.get(4).is_some_and(|fifth| fifth.time + reach < t) {
            self.booked.pop_front();
        }
        while self.runs.front().is_some_and(|run| run.1 + reach < t) {
            self.runs.pop_front();
        }
    }
}
