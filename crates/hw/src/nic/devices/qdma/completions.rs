//! Completion rings: entries gathered on their way, status entries that tell software how far they have come, moderated
//! (PG347, "Completion engine").
//!
//! Left out: entries with data of the user logic (they are zeros), timers of real hardware's resolution (ours are exact), the
//! tick count of coalescing (bits 13:2 of its register), whose meaning the guides at hand do not tell.

use super::contexts::{Completion, Trigger};
use std::collections::VecDeque;
use wiretime_base::Ps;

/// Bytes of a line that entries of a queue share in one write.
const LINE: u32 = 64;

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The packet that it tells of.
    pub packet: u64,
    /// Its bytes.
    pub length: u32,
}

/// Entries of one queue that leave together.
#[derive(Debug)]
struct Slot {
    queue: u16,
    entries: Vec<Entry>,
    /// When the first came.
    since: Ps,
    /// Its line, or the ring, ends with them.
    complete: bool,
}

/// What one queue's software is told.
#[derive(Debug, Default)]
pub struct CompletionRing {
    /// As its context has it.
    pub context: Completion,
    /// Entries; none, where it is off.
    pub entries: u32,
    /// Next to write, and next that software reads.
    pub produced: u32,
    pub consumed: u32,
    /// The color of this turn.
    color: bool,
    /// Entries that are given away to slots and not written.
    reserved: u32,
    /// A status has been written, or an interrupt sent, and software has not answered.
    told: bool,
    /// It wants to be interrupted by the next.
    armed: bool,
    /// A timer runs, and which one: one that ran for what has been told by then says nothing.
    timing: bool,
    pub timer: u32,
    /// A status waits to be written.
    pub due: bool,
    /// Entries and packets that no status has told of.
    pub untold: VecDeque<(u32, u64)>,
    /// Counts lives.
    pub epoch: u32,
}

/// What follows from an event of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Nothing.
    Nothing,
    /// A status is due.
    Status,
    /// A timer starts.
    Timer,
}

impl CompletionRing {
    /// As its context says; it starts anew.
    pub fn configure(&mut self, context: Completion, entries: u32) {
        let epoch = self.epoch.wrapping_add(1);
        let entries = if context.valid { entries } else { 0 };
        // Nothing is told before software has read up to its first entry once (PG302, queue setup).
        *self = Self { context, entries, color: context.color, epoch, told: true, ..Self::default() };
    }

    /// Entries that software has not read.
    #[must_use]
    pub fn unread(&self) -> u32 {
        if self.entries == 0 {
            0
        } else {
            (self.produced + self.entries - self.consumed) % self.entries
        }
    }

    /// Whether one more fits behind those that are on their way.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.unread() + self.reserved + 1 < self.entries
    }

    /// Address of an entry; the status is behind the last.
    #[must_use]
    pub fn at(&self, entry: u32) -> u64 {
        self.context.base.wrapping_add(u64::from(entry) * u64::from(self.context.size))
    }

    /// The bytes of an entry that is written now.
    pub fn format(&mut self, entry: &Entry, bytes: &mut Vec<u8>) -> u32 {
        let at = self.produced;
        let word = u64::from(self.color) << 1 | 1 << 3 | u64::from(entry.length & 0xffff) << 4;
        let end = bytes.len() + self.context.size as usize;
        bytes.extend_from_slice(&word.to_le_bytes());
        bytes.resize(end, 0);
        self.produced = (at + 1) % self.entries.max(1);
        self.color ^= self.produced == 0;
        self.reserved = self.reserved.saturating_sub(1);
        at
    }

    /// The status entry as it is now.
    #[must_use]
    pub fn status(&self) -> [u8; 8] {
        let word = u64::from(self.produced) | u64::from(self.consumed) << 16 | u64::from(self.color) << 32;
        word.to_le_bytes()
    }

    /// Whether software wants to be told anything.
    fn tells_anything(&self) -> bool {
        self.context.status || self.context.interrupts.enabled && self.armed
    }

    /// Whether the status is due or a timer starts, where `count` entries make it due.
    fn moderate(&mut self, count: u32) -> Follows {
        let unread = self.unread();
        if !self.tells_anything() || self.due || unread == 0 {
            return Follows::Nothing;
        }
        let enough = unread >= count.max(1);
        let (now, timed) = match self.context.trigger {
            Trigger::Disabled | Trigger::User => (false, false),
            Trigger::Every => (true, false),
            Trigger::Count => (enough, false),
            Trigger::Timer => (false, true),
            Trigger::TimerAndCount => (enough, true),
        };
        if self.told {
            return Follows::Nothing; // one at a time, whatever makes it due
        }
        if now {
            self.due = true;
            return Follows::Status;
        }
        if timed && !self.timing {
            self.timing = true;
            return Follows::Timer;
        }
        Follows::Nothing
    }

    /// Entries have been written.
    pub fn written(&mut self, count: u32) -> Follows {
        self.moderate(count)
    }

    /// Its timer has ended.
    pub fn expired(&mut self) -> Follows {
        self.timing = false;
        if !matches!(self.context.trigger, Trigger::Timer | Trigger::TimerAndCount) {
            return Follows::Nothing; // it has been changed meanwhile
        }
        if self.told || self.due || self.unread() == 0 || !self.tells_anything() {
            return Follows::Nothing;
        }
        self.due = true;
        Follows::Status
    }

    /// Software has read up to `index`, and wants to be interrupted or not; `None` where it cannot have: nothing of it holds.
    pub fn read_up_to(&mut self, index: u32, count: u32, armed: bool) -> Option<Follows> {
        let entries = self.entries;
        if index >= entries || (index + entries - self.consumed) % entries > self.unread() {
            return None;
        }
        (self.consumed, self.armed, self.told) = (index, armed, false);
        Some(self.moderate(count))
    }

    /// Its status is written, where it is; whether software is interrupted.
    pub fn tells(&mut self) -> bool {
        self.due = false;
        self.told = true;
        (self.timing, self.timer) = (false, self.timer.wrapping_add(1));
        self.context.interrupts.enabled && std::mem::take(&mut self.armed)
    }
}

/// Entries on their way, of all queues.
#[derive(Debug, Default)]
pub struct Coalescing {
    slots: VecDeque<Slot>,
    spare: Vec<Vec<Entry>>,
}

impl Coalescing {
    /// An entry of a queue joins those before it, or waits for others.
    pub fn push(&mut self, t: Ps, queue: u16, ring: &mut CompletionRing, entry: Entry) {
        let (size, entries) = (ring.context.size.max(1), ring.entries.max(1));
        let at = (ring.produced + ring.reserved) % entries;
        ring.reserved += 1;
        let complete = (at + 1) * size % LINE == 0 || at + 1 == entries;
        if let Some(slot) = self.slots.iter_mut().rev().find(|s| s.queue == queue).filter(|s| !s.complete) {
            slot.entries.push(entry);
            slot.complete = complete;
            return;
        }
        let mut entries = self.spare.pop().unwrap_or_default();
        entries.push(entry);
        self.slots.push_back(Slot { queue, entries, since: t, complete });
    }

    /// When the next entries leave, where they wait for others for `wait` at most, and so many.
    #[must_use]
    pub fn due(&self, t: Ps, most: usize, wait: Ps) -> Option<Ps> {
        let first = self.slots.front()?;
        let now = self.slots.len() > most || self.slots.iter().any(|s| s.complete);
        Some(if now { t } else { (first.since + wait).max(t) })
    }

    /// Takes the entries that leave next: the first complete ones, else the oldest.
    pub fn take(&mut self) -> Option<(u16, Vec<Entry>)> {
        let at = self.slots.iter().position(|s| s.complete).unwrap_or(0);
        let slot = self.slots.remove(at)?;
        Some((slot.queue, slot.entries))
    }

    /// A list that has been written, to be used again.
    pub fn recycle(&mut self, mut entries: Vec<Entry>) {
        entries.clear();
        self.spare.push(entries);
    }

    /// What a queue has on its way is gone.
    pub fn forget(&mut self, queue: u16) {
        self.slots.retain(|s| s.queue != queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(trigger: Trigger) -> CompletionRing {
        let mut r = CompletionRing::default();
        let context = Completion {
            valid: true,
            status: true,
            trigger,
            size: 16,
            base: 0x1000,
            color: true,
            ..Completion::default()
        };
        r.configure(context, 16);
        assert_eq!(r.read_up_to(0, 100, false), Some(Follows::Nothing));
        r
    }

    fn write(r: &mut CompletionRing, count: u32) -> Follows {
        let mut bytes = Vec::new();
        r.format(&Entry { packet: 0, length: 100 }, &mut bytes);
        r.written(count)
    }

    #[test]
    fn entries_say_length_and_color() {
        let mut r = ring(Trigger::Disabled);
        let mut bytes = Vec::new();
        for i in 0..17 {
            bytes.clear();
            assert_eq!(r.format(&Entry { packet: 0, length: 1000 }, &mut bytes), i % 16);
            let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert_eq!((word >> 4 & 0xffff, word >> 1 & 1), (1000, u64::from(i < 16)), "the color changes each turn");
            assert_eq!(bytes.len(), 16);
        }
        assert_eq!(r.at(16), 0x1100);
    }

    #[test]
    fn a_status_at_the_count_or_after_the_time_and_one_at_a_time() {
        let mut r = ring(Trigger::TimerAndCount);
        assert_eq!(
            (write(&mut r, 3), write(&mut r, 3), write(&mut r, 3)),
            (Follows::Timer, Follows::Nothing, Follows::Status)
        );
        r.tells();
        assert_eq!(
            (write(&mut r, 3), r.expired()),
            (Follows::Nothing, Follows::Nothing),
            "until software has answered"
        );
        assert_eq!(r.read_up_to(3, 3, false), Some(Follows::Timer));
        assert_eq!(r.expired(), Follows::Status);
        r.tells();
        (0..4).for_each(|_| assert_eq!(write(&mut r, 3), Follows::Nothing));
        assert_eq!(r.read_up_to(4, 3, false), Some(Follows::Status), "at once, where enough wait");
    }

    #[test]
    fn a_timer_that_ends_in_another_mode_tells_nothing() {
        for (mode, follows) in [(Trigger::Timer, Follows::Status), (Trigger::Disabled, Follows::Nothing)] {
            let mut r = ring(Trigger::TimerAndCount);
            assert_eq!(write(&mut r, 3), Follows::Timer);
            r.context.trigger = mode;
            assert_eq!(r.expired(), follows, "{mode:?}");
        }
    }

    #[test]
    fn an_interrupt_where_software_waits_for_one() {
        let mut r = ring(Trigger::Every);
        (r.context.status, r.context.interrupts.enabled) = (false, true);
        assert_eq!(write(&mut r, 1), Follows::Nothing, "it does not wait");
        assert_eq!(r.read_up_to(0, 1, true), Some(Follows::Status), "what has come before is told at once");
        assert!(r.tells());
        assert_eq!(write(&mut r, 1), Follows::Nothing, "once each time that it asks");
        assert_eq!(r.read_up_to(2, 1, true), Some(Follows::Nothing));
        assert_eq!((write(&mut r, 1), r.tells(), r.tells()), (Follows::Status, true, false));
    }

    #[test]
    fn other_modes() {
        let mut r = ring(Trigger::Every);
        assert_eq!(write(&mut r, 3), Follows::Status);
        r.tells();
        assert_eq!(write(&mut r, 3), Follows::Nothing, "one at a time");
        assert_eq!(r.read_up_to(1, 3, false), Some(Follows::Status));
        for (mode, second) in
            [(Trigger::Count, Follows::Status), (Trigger::Timer, Follows::Nothing), (Trigger::User, Follows::Nothing)]
        {
            let mut r = ring(mode);
            let first = if mode == Trigger::Timer { Follows::Timer } else { Follows::Nothing };
            assert_eq!((write(&mut r, 2), write(&mut r, 2)), (first, second), "{mode:?}");
        }
    }

    #[test]
    fn nothing_is_told_before_software_has_said_that_it_reads() {
        let mut r = ring(Trigger::Every);
        r.configure(r.context, 16);
        assert_eq!(write(&mut r, 1), Follows::Nothing);
        assert_eq!(r.read_up_to(0, 1, false), Some(Follows::Status));
    }

    #[test]
    fn what_software_cannot_have_read_is_refused() {
        let mut r = ring(Trigger::Disabled);
        (0..4).for_each(|_| _ = write(&mut r, 1));
        for (index, taken) in [(5, false), (16, false), (70_000, false), (4, true), (3, false), (4, true)] {
            assert_eq!(r.read_up_to(index, 1, false).is_some(), taken, "{index}");
        }
        assert_eq!((r.unread(), r.has_room()), (0, true));
    }

    #[test]
    fn a_timer_is_over_once_software_is_told() {
        let mut r = ring(Trigger::TimerAndCount);
        assert_eq!(write(&mut r, 2), Follows::Timer);
        let first = r.timer;
        assert_eq!(write(&mut r, 2), Follows::Status);
        r.tells();
        r.read_up_to(2, 2, false);
        assert_eq!(
            (write(&mut r, 2), r.timer == first),
            (Follows::Timer, false),
            "another one, from its own first entry on"
        );
    }

    #[test]
    fn entries_of_a_line_leave_together() {
        let (mut c, mut r) = (Coalescing::default(), ring(Trigger::Every));
        let entry = |packet| Entry { packet, length: 64 };
        c.push(Ps(0), 5, &mut r, entry(0));
        assert_eq!(c.due(Ps(10), 2, Ps(100)), Some(Ps(100)));
        (1..5).for_each(|i| c.push(Ps(20), 5, &mut r, entry(i)));
        assert_eq!(c.due(Ps(30), 2, Ps(100)), Some(Ps(30)), "a whole line");
        assert_eq!(c.take().map(|(q, e)| (q, e.len())), Some((5, 4)));
        assert_eq!(c.due(Ps(30), 2, Ps(100)), Some(Ps(120)));
        let mut other = ring(Trigger::Every);
        (0..2).for_each(|_| c.push(Ps(40), 6, &mut other, entry(9)));
        assert_eq!(c.due(Ps(50), 2, Ps(100)), Some(Ps(120)), "two slots");
        c.push(Ps(60), 7, &mut ring(Trigger::Every), entry(8));
        assert_eq!(c.due(Ps(60), 2, Ps(100)), Some(Ps(60)), "more than may wait");
        c.forget(5);
        assert_eq!(c.take().map(|(q, e)| (q, e.len())), Some((6, 2)));
    }
}
