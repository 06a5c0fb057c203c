//! Registers of a QDMA's physical function as CPM5 has them (PG347; the register headers of Xilinx's drivers), the tables that
//! its driver fills, and the window to its contexts. Doorbells are pages of memory.
//!
//! Left out: error and debug registers (they read as what was written), mailbox.

use super::contexts::{Context, Selector, SELECTORS, WORDS};
use crate::nic::pages::SharedRegisters;
use crate::requester::Side;
use std::ops::Range;

/// Size of the BARs: configuration, and user logic.
pub const CONFIG_SIZE: u64 = 256 << 10;
pub const USER_SIZE: u64 = 4096;
/// Vectors of MSI-X and where their table and pending bits are in the configuration BAR.
pub const VECTORS: u16 = 32;
pub const MSIX_TABLE: u32 = 0x10000;
pub const MSIX_PENDING: u32 = 0x14000;
/// Doorbells: 16 bytes a queue.
pub const DOORBELLS: u64 = 0x18000;
pub const QUEUES_MAX: u64 = 2048;
/// A bit that no doorbell has: the device marks those that it has found in their page, where nobody told it of a store. To store
/// the same again may arm an interrupt.
const FOUND: u32 = 1 << 31;
/// Pages that are memory.
pub const SHARED: Range<u64> = DOORBELLS..DOORBELLS + 16 * QUEUES_MAX;

/// Plain registers end here.
const PLAIN: u64 = 0x8000;
const IDENTIFIER: u64 = 0;
const USER_BAR: u64 = 0x10c;
const ENGINES: u64 = 0x118;
const QUEUE_COUNT: u64 = 0x120;
const FUNCTION: u64 = 0x12c;
const VERSION: u64 = 0x134;
const RING_SIZES: u64 = 0x204;
const DESCRIPTOR_CONFIG: u64 = 0x250;
const CONTEXT_DATA: u64 = 0x804;
const CONTEXT_MASK: u64 = 0x824;
const CONTEXT_COMMAND: u64 = 0x844;
const TIMERS: u64 = 0xa00;
const COUNTS: u64 = 0xa40;
const PREFETCH_CONFIG: u64 = 0xa84;
const BUFFER_SIZES: u64 = 0xab0;
const TIMER_TICK: u64 = 0xb0c;
const COALESCE: u64 = 0xb50;
const PREFETCH_DEPTH: u64 = 0xbe0;
const COALESCE_DEPTH: u64 = 0xbe4;
const H2C_THROTTLE: u64 = 0xe24;
const MAPPED_THROTTLE: u64 = 0xe2c;
/// Control of the channels between memories, of each direction: bit 0 lets one run.
const CHANNELS: [u64; 2] = [0x1004, 0x1204];
const CHANNEL_STEP: u64 = 0x100;

/// A doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bell {
    /// Consumer index of an interrupt ring.
    Interrupt,
    /// Producer index of a ring from the host.
    H2c,
    /// Producer index of a ring to the host.
    C2h,
    /// Consumer index of a completion ring.
    Completion,
}

impl Bell {
    /// In the order in which a queue's stand.
    pub const ALL: [Self; 4] = [Self::Interrupt, Self::H2c, Self::C2h, Self::Completion];
}

fn place(bell: Bell, queue: u16) -> u64 {
    DOORBELLS + 16 * u64::from(queue) + 4 * bell as u64
}

/// What the doorbell of a queue is that stands at this offset.
#[must_use]
pub fn bell(offset: u64) -> Option<(Bell, u16)> {
    let at = offset.checked_sub(SHARED.start).filter(|_| offset < SHARED.end && offset % 4 == 0)?;
    Some((Bell::ALL[(at / 4 % 4) as usize], (at / 16) as u16))
}

/// A context has been written or thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Which.
    pub selector: Selector,
    /// Of which queue.
    pub queue: u16,
}

/// How coalescing of completions is set: entries wait for so long, and at most so many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // said above
pub struct Coalesce {
    pub cycles: u64,
    pub most: usize,
}

/// See the module.
pub struct Registers<S> {
    plain: Vec<u32>,
    user: Vec<u32>,
    contexts: Vec<Vec<Context>>,
    /// Doorbells as memory, and as they were last seen.
    bells: S,
    seen: Vec<[u32; 4]>,
}

impl<S: SharedRegisters> Registers<S> {
    /// At power-on, of a function with so many queues.
    #[must_use]
    pub fn new(queues: usize, bells: S) -> Self {
        let mut new = Self {
            plain: vec![0; (PLAIN / 4) as usize],
            user: vec![0; (USER_SIZE / 4) as usize],
            contexts: vec![vec![[0; WORDS]; queues]; SELECTORS],
            bells,
            seen: vec![[0; 4]; queues],
        };
        new.reset();
        new
    }

    /// As at power-on.
    pub fn reset(&mut self) {
        self.plain.fill(0);
        self.user.fill(0);
        self.contexts.iter_mut().flatten().for_each(|c| *c = [0; WORDS]);
        for queue in 0..self.seen.len() as u16 {
            Bell::ALL.into_iter().for_each(|bell| self.forget(bell, queue));
        }
        for (offset, value) in [
            (IDENTIFIER, 0x1fd3_0000),
            (USER_BAR, 1 << 2),
            // Streams both ways, and two channels between memories.
            (ENGINES, 0b11 << 16 | 0b11 << 8 | 0b11),
            (QUEUE_COUNT, 0xfff),
            (FUNCTION, 0),
            // CPM5, hard.
            (VERSION, 2 << 28),
            (DESCRIPTOR_CONFIG, 2 << 3 | 5),
            (PREFETCH_CONFIG, 16),
            (TIMER_TICK, 25),
            (COALESCE, 16 << 26 | 25 << 14 | 5 << 2),
            (PREFETCH_DEPTH, 64),
            (COALESCE_DEPTH, 32),
            (H2C_THROTTLE, 1 << 31 | 192 << 19 | 1 << 18 | 57344),
        ] {
            self.set(offset, value);
        }
    }

    fn set(&mut self, offset: u64, value: u32) {
        if let Some(word) = self.plain.get_mut((offset / 4) as usize) {
            *word = value;
        }
    }

    fn get(&self, offset: u64) -> u32 {
        self.plain.get((offset / 4) as usize).copied().unwrap_or(0)
    }

    /// Entry of a table of sixteen.
    fn entry(&self, table: u64, index: usize) -> u32 {
        self.get(table + 4 * (index as u64 & 0xf))
    }

    /// What is read at `offset` of the configuration BAR.
    #[must_use]
    pub fn read(&self, offset: u64) -> u32 {
        if SHARED.contains(&offset) {
            return self.bells.load(offset & !3) & !FOUND;
        }
        self.get(offset)
    }

    /// A doorbell has been written.
    pub fn sees(&mut self, bell: Bell, queue: u16, value: u32) {
        if let Some(seen) = self.seen.get_mut(usize::from(queue)) {
            seen[bell as usize] = value;
        }
    }

    /// A doorbell as it is in memory, where it has not been seen so.
    pub fn changed(&mut self, bell: Bell, queue: u16) -> Option<u32> {
        let value = self.bells.load(place(bell, queue));
        let seen = &mut self.seen.get_mut(usize::from(queue))?[bell as usize];
        if *seen == value {
            return None;
        }
        *seen = value | FOUND;
        self.bells.store(place(bell, queue), value | FOUND);
        Some(value & !FOUND)
    }

    /// What has been written to a doorbell holds no longer.
    pub fn forget(&mut self, bell: Bell, queue: u16) {
        self.bells.store(place(bell, queue), 0);
        self.sees(bell, queue, 0);
    }

    /// A word of the user logic's BAR.
    #[must_use]
    pub fn read_user(&self, offset: u64) -> u32 {
        self.user.get((offset / 4) as usize).copied().unwrap_or(0)
    }

    /// The same is written.
    pub fn write_user(&mut self, offset: u64, value: u32) {
        if let Some(word) = self.user.get_mut((offset / 4) as usize) {
            *word = value;
        }
    }

    /// Whether what is written at `offset` lets a channel between memories run, or stops it.
    #[must_use]
    pub fn is_channel(offset: u64) -> bool {
        CHANNELS.iter().any(|&first| offset == first || offset == first + CHANNEL_STEP)
    }

    /// A word of the configuration BAR is written; the context that changes by it.
    pub fn write(&mut self, offset: u64, value: u32) -> Option<Changed> {
        match offset {
            // What it is cannot be changed.
            IDENTIFIER | USER_BAR | ENGINES | QUEUE_COUNT | FUNCTION | VERSION | PREFETCH_DEPTH | COALESCE_DEPTH => {
                None
            }
            CONTEXT_COMMAND => self.command(value),
            _ => {
                self.set(offset, value);
                None
            }
        }
    }

    fn command(&mut self, value: u32) -> Option<Changed> {
        let (selector, operation, queue) = (value >> 1 & 0xf, value >> 5 & 3, (value >> 7 & 0x1fff) as u16);
        // It is done at once: bit 0, busy, never shows.
        self.set(CONTEXT_COMMAND, value & !1);
        let data: Context = std::array::from_fn(|i| self.get(CONTEXT_DATA + 4 * i as u64));
        let mask: Context = std::array::from_fn(|i| self.get(CONTEXT_MASK + 4 * i as u64));
        let context = self.contexts.get_mut(selector as usize)?.get_mut(usize::from(queue))?;
        match operation {
            // Clear.
            0 => *context = [0; WORDS],
            // Invalidate: of rings only that they are on goes (PG344), their other values stay.
            3 if selector <= 1 => context[1] &= !1,
            3 => *context = [0; WORDS],
            1 => {
                for i in 0..WORDS {
                    context[i] = context[i] & !mask[i] | data[i] & mask[i];
                }
            }
            _ => {
                let read = *context;
                (0..).zip(read).for_each(|(i, word)| self.set(CONTEXT_DATA + 4 * i, word));
                return None;
            }
        }
        Some(Changed { selector: Selector::of(selector), queue })
    }

    /// A context.
    #[must_use]
    pub fn context(&self, selector: u8, queue: u16) -> Context {
        let all = self.contexts.get(usize::from(selector));
        all.and_then(|c| c.get(usize::from(queue))).copied().unwrap_or_default()
    }

    /// Entries of a ring of this index into the table of sizes, its status entry apart.
    #[must_use]
    pub fn ring_entries(&self, index: usize) -> u32 {
        (self.entry(RING_SIZES, index) & 0xffff).saturating_sub(1)
    }

    /// Bytes of a buffer of this index.
    #[must_use]
    pub fn buffer_size(&self, index: usize) -> u32 {
        self.entry(BUFFER_SIZES, index) & 0xffff
    }

    /// Entries at which a status is written.
    #[must_use]
    pub fn count(&self, index: usize) -> u32 {
        self.entry(COUNTS, index) & 0xff
    }

    /// Cycles after which one is written.
    #[must_use]
    pub fn timer(&self, index: usize) -> u64 {
        u64::from(self.entry(TIMERS, index) & 0xff) * u64::from(self.get(TIMER_TICK))
    }

    /// Most descriptors of a fetch.
    #[must_use]
    pub fn fetch_max(&self) -> u32 {
        8 << (self.get(DESCRIPTOR_CONFIG) >> 3 & 7).min(3)
    }

    /// Descriptors of a ring from the host of which one status tells.
    #[must_use]
    pub fn report_interval(&self) -> u32 {
        2 << (self.get(DESCRIPTOR_CONFIG) & 7)
    }

    /// Descriptors that are fetched ahead for a queue.
    #[must_use]
    pub fn prefetch(&self) -> u32 {
        self.get(PREFETCH_CONFIG) & 0x3f
    }

    /// See [`Coalesce`].
    #[must_use]
    pub fn coalesce(&self) -> Coalesce {
        let word = self.get(COALESCE);
        Coalesce { cycles: u64::from(word >> 14 & 0xfff), most: (word >> 26) as usize }
    }

    /// Whether a channel between memories runs.
    #[must_use]
    pub fn runs(&self, side: Side, channel: usize) -> bool {
        self.get(CHANNELS[side as usize] + CHANNEL_STEP * channel as u64) & 1 != 0
    }

    /// Reads, and bytes of reads, under way to the streams from the host.
    #[must_use]
    pub fn h2c_throttle(&self) -> (u32, u64) {
        self.throttle(H2C_THROTTLE)
    }

    /// The same between memories.
    #[must_use]
    pub fn mapped_throttle(&self) -> (u32, u64) {
        self.throttle(MAPPED_THROTTLE)
    }

    fn throttle(&self, register: u64) -> (u32, u64) {
        let word = self.get(register);
        let requests = if word >> 31 != 0 { word >> 19 & 0xfff } else { u32::MAX };
        let bytes = if word >> 18 & 1 != 0 { u64::from(word & 0x3ffff) } else { u64::MAX };
        (requests.max(1), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::pages::LocalPages;

    fn registers() -> Registers<LocalPages> {
        Registers::new(4, LocalPages::new(SHARED))
    }

    #[test]
    fn a_driver_finds_what_it_looks_for() {
        let r = registers();
        assert_eq!(r.read(0) >> 16, 0x1fd3);
        assert_eq!((r.read(0x134) >> 28, r.read(0x120) & 0xfff), (2, 0xfff), "CPM5, 4096 queues");
        // Bits 16 and 17 are streams, 0 to 3 and 8 to 11 the engines of memory: Xilinx's driver refuses queues without them.
        assert_eq!(r.read(0x118), 3 << 16 | 3 << 8 | 3);
        assert_eq!((r.read(0xbe0), r.read(0xbe4)), (64, 32));
        assert_eq!((r.fetch_max(), r.report_interval(), r.prefetch()), (32, 64, 16));
        assert_eq!((r.h2c_throttle(), r.mapped_throttle()), ((192, 57344), (u32::MAX, u64::MAX)));
    }

    #[test]
    fn contexts_go_through_the_window() {
        let mut r = registers();
        for i in 0..8 {
            r.write(CONTEXT_DATA + 4 * i, 0x100 + i as u32);
            r.write(CONTEXT_MASK + 4 * i, if i == 7 { 0 } else { u32::MAX });
        }
        let changed = r.write(CONTEXT_COMMAND, 1 | 6 << 1 | 1 << 5 | 3 << 7);
        assert_eq!(changed, Some(Changed { selector: Selector::Completion, queue: 3 }));
        assert_eq!(r.read(CONTEXT_COMMAND) & 1, 0, "no longer busy");
        assert_eq!(r.context(6, 3), [0x100, 0x101, 0x102, 0x103, 0x104, 0x105, 0x106, 0]);
        (0..8).for_each(|i| assert_eq!(r.write(CONTEXT_DATA + 4 * i, 0), None));
        assert_eq!(r.write(CONTEXT_COMMAND, 6 << 1 | 2 << 5 | 3 << 7), None);
        assert_eq!(r.read(CONTEXT_DATA), 0x100);
        assert!(r.write(CONTEXT_COMMAND, 6 << 1 | 3 << 5 | 3 << 7).is_some());
        assert_eq!(r.context(6, 3), [0; 8]);
        assert_eq!(r.write(CONTEXT_COMMAND, 6 << 1 | 1 << 5 | 4 << 7), None, "no such queue");
    }

    /// Of a ring's context only that it is on (PG344); others are cleared.
    #[test]
    fn a_ring_that_is_invalidated_keeps_its_values() {
        let mut r = registers();
        for selector in [0u8, 1, 6] {
            for i in 0..8 {
                r.write(CONTEXT_DATA + 4 * i, 0x11);
                r.write(CONTEXT_MASK + 4 * i, u32::MAX);
            }
            r.write(CONTEXT_COMMAND, u32::from(selector) << 1 | 1 << 5);
            r.write(CONTEXT_COMMAND, u32::from(selector) << 1 | 3 << 5);
            let left = if selector < 2 { [0x11, 0x10, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11] } else { [0; 8] };
            assert_eq!(r.context(selector, 0), left, "selector {selector}");
        }
    }

    #[test]
    fn a_doorbell_that_nobody_saw_is_found_in_its_page() {
        let mut r = registers();
        r.bells.store(place(Bell::C2h, 2), 17);
        assert_eq!((r.changed(Bell::C2h, 2), r.changed(Bell::C2h, 2)), (Some(17), None), "once");
        assert_eq!(r.read(place(Bell::C2h, 2)), 17);
        r.bells.store(place(Bell::C2h, 2), 17);
        assert_eq!((r.changed(Bell::C2h, 2), r.changed(Bell::C2h, 2)), (Some(17), None), "stored again, once more");
        r.sees(Bell::H2c, 1, 5);
        r.bells.store(place(Bell::H2c, 1), 5);
        assert_eq!(r.changed(Bell::H2c, 1), None, "seen as it was stored");
        r.forget(Bell::C2h, 2);
        assert_eq!((r.changed(Bell::C2h, 2), r.read(place(Bell::C2h, 2))), (None, 0), "its queue began anew");
    }

    #[test]
    fn doorbells_by_queue() {
        assert_eq!(bell(0x18004), Some((Bell::H2c, 0)));
        assert_eq!(bell(0x18018), Some((Bell::C2h, 1)));
        assert_eq!(bell(0x18000 + 2047 * 16 + 12), Some((Bell::Completion, 2047)));
        assert_eq!([bell(0x17ffc), bell(0x20000), bell(0x18001)], [None; 3]);
    }
}
