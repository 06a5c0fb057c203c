//! Writes that a channel's controller gathers. What is written later neither fills the queue now nor empties it.

use wiretime_base::Ps;

/// The queue of a channel.
#[derive(Default)]
pub struct WriteQueue {
    /// Lines that wait, and since when.
    lines: Vec<u64>,
    since: Vec<Ps>,
    /// Lines that have been sent at a time that somebody may still ask for: line, since, until.
    sent: Vec<(u64, Ps, Ps)>,
    last_sent: Ps,
}

impl WriteQueue {
    /// Whether a write of `line` waits at `t`.
    #[inline]
    pub fn holds(&self, line: u64, t: Ps) -> bool {
        let found = self.lines.iter().position(|&l| l == line).is_some_and(|i| self.since[i] <= t);
        found || t < self.last_sent && self.sent.iter().any(|&(l, since, until)| l == line && since <= t && t < until)
    }

    /// Adds a write; returns how many wait at its time, itself included.
    #[inline]
    pub fn push(&mut self, line: u64, t: Ps) -> usize {
        self.lines.push(line);
        self.since.push(t);
        let mut waiting = self.since.iter().filter(|&&since| since <= t).count();
        if t < self.last_sent {
            waiting += self.sent.iter().filter(|w| w.1 <= t && t < w.2).count();
        }
        waiting
    }

    /// All that waits at `t` is sent then.
    pub fn send(&mut self, t: Ps, mut each: impl FnMut(u64)) {
        for w in self.sent.iter_mut().filter(|w| w.1 <= t && t < w.2) {
            each(w.0);
            w.2 = t;
        }
        let mut kept = 0;
        for i in 0..self.lines.len() {
            let (line, since) = (self.lines[i], self.since[i]);
            if since <= t {
                each(line);
                self.sent.push((line, since, t));
            } else {
                (self.lines[kept], self.since[kept]) = (line, since);
                kept += 1;
            }
        }
        self.lines.truncate(kept);
        self.since.truncate(kept);
        self.last_sent = self.last_sent.max(t);
    }

    /// Nobody asks for a time before `t` any more.
    pub fn reached(&mut self, t: Ps) {
        self.sent.retain(|w| w.2 > t);
    }
}
