//! Writes that a channel's controller gathers. What is written later neither fills the queue now nor empties it.

use crate::memory::marks::Marks;
use wiretime_base::Ps;

/// A write that has left the queue.
struct Sent {
    line: u64,
    since: Ps,
    until: Ps,
    /// Its write command, once booked.
    column: Ps,
}

impl Sent {
    fn waits(&self, t: Ps) -> bool {
        self.since <= t && t < self.until
    }

    /// Whether the controller still has its data at `t`: until it is written.
    fn answers(&self, t: Ps) -> bool {
        self.since <= t && t < self.until.max(self.column)
    }
}

/// Bits of the lines' marks: several times as many as a queue holds.
const MARKS: u32 = 10;

/// The queue of a channel.
#[derive(Default)]
pub struct WriteQueue {
    /// Lines that wait, and since when.
    lines: Vec<u64>,
    since: Vec<Ps>,
    /// Those that have been sent at a time that somebody may still ask for.
    sent: Vec<Sent>,
    last_sent: Ps,
    /// When the last of them is written.
    last_written: Ps,
    /// The last time at which anything was written or sent.
    latest: Ps,
    marks: Marks<MARKS>,
}

impl WriteQueue {
    /// Whether a write of `line` waits at `t` that has not been sent at any time.
    #[inline]
    fn gathers(&self, line: u64, t: Ps) -> bool {
        self.lines.iter().zip(&self.since).any(|(&l, &since)| l == line && since <= t)
    }

    /// Whether a write of `line` waits in the queue at `t`.
    #[inline]
    fn holds(&self, line: u64, t: Ps) -> bool {
        self.gathers(line, t) || t < self.last_sent && self.sent.iter().any(|w| w.line == line && w.waits(t))
    }

    /// Whether a read of `line` at `t` is answered from here: its write waits, or has been sent and its turn has not come.
    #[inline]
    pub fn answers(&self, line: u64, t: Ps) -> bool {
        self.marks.may_have(line)
            && (self.gathers(line, t)
                || t < self.last_written && self.sent.iter().any(|w| w.line == line && w.answers(t)))
    }

    /// Whether a write of `line` at `t` needs no entry of its own: one waits, or one that comes later waits from now on.
    #[inline]
    pub fn merges(&mut self, line: u64, t: Ps) -> bool {
        if !self.marks.may_have(line) {
            return false;
        }
        if self.holds(line, t) {
            return true;
        }
        if t >= self.latest {
            return false;
        }
        let waits = self.lines.iter().zip(&mut self.since).filter(|(&l, _)| l == line).map(|(_, since)| since);
        let sent = self.sent.iter_mut().filter(|w| w.line == line && w.since > t).map(|w| &mut w.since);
        let later = waits.chain(sent).min_by_key(|since| **since);
        later.map(|since| *since = t).is_some()
    }

    /// Adds a write.
    #[inline]
    pub fn push(&mut self, line: u64, t: Ps) {
        self.lines.push(line);
        self.since.push(t);
        self.marks.add(line);
        self.latest = self.latest.max(t);
    }

    /// Whether `entries` wait at `t`.
    #[inline]
    pub fn full(&self, t: Ps, entries: usize) -> bool {
        if t >= self.last_sent && (t >= self.latest || self.lines.len() < entries) {
            return self.lines.len() >= entries;
        }
        self.waiting(t) >= entries
    }

    /// How many wait at `t`.
    fn waiting(&self, t: Ps) -> usize {
        let waiting = self.since.iter().filter(|&&since| since <= t).count();
        let later = if t < self.last_sent { self.sent.iter().filter(|w| w.waits(t)).count() } else { 0 };
        waiting + later
    }

    /// All that waits at `t` is sent then: which of the sent ones, line, and when its command had been booked for, if it
    /// was sent later so far.
    pub fn send(&mut self, t: Ps, mut each: impl FnMut(usize, u64, Option<Ps>)) {
        for (i, w) in self.sent.iter_mut().enumerate().filter(|(_, w)| w.waits(t)) {
            w.until = t;
            each(i, w.line, Some(w.column));
        }
        let mut kept = 0;
        for i in 0..self.lines.len() {
            let (line, since) = (self.lines[i], self.since[i]);
            if since <= t {
                each(self.sent.len(), line, None);
                self.sent.push(Sent { line, since, until: t, column: Ps::ZERO });
            } else {
                (self.lines[kept], self.since[kept]) = (line, since);
                kept += 1;
            }
        }
        self.lines.truncate(kept);
        self.since.truncate(kept);
        self.last_sent = self.last_sent.max(t);
        self.last_written = self.last_written.max(t);
        self.latest = self.latest.max(t);
    }

    /// The command of a sent write comes at `column`.
    pub fn booked(&mut self, index: usize, column: Ps) {
        self.sent[index].column = column;
        self.last_written = self.last_written.max(column);
    }

    #[cfg(test)]
    pub fn left(&self) -> usize {
        self.lines.len()
    }

    /// Nobody asks for a time before `t` any more.
    pub fn reached(&mut self, t: Ps) {
        let marks = &mut self.marks;
        self.sent.retain(|w| {
            let kept = w.until.max(w.column) > t;
            if !kept {
                marks.remove(w.line);
            }
            kept
        });
    }
}
