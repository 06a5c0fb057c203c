//! Direction predictors: bimodal, gshare, BiMode, TAGE-like.
//!
//! Each predicts and learns in one step, as if every earlier branch had resolved. Left out: speculative history and its
//! repair, which cost real predictors some accuracy in tight loops.

use super::table::{Entry, Table};
use crate::params;

/// A saturating two-bit counter.
#[inline]
fn trained(counter: u8, taken: bool, max: u8) -> u8 {
    if taken {
        (counter + 1).min(max)
    } else {
        counter.saturating_sub(1)
    }
}

/// One tagged table of a TAGE-like predictor.
struct Tagged {
    entries: Table<TaggedEntry>,
    history: u64,
}

#[derive(Clone, Copy, Default, PartialEq)]
struct TaggedEntry {
    tag: u16,
    counter: u8,
    useful: u8,
}

impl Entry for TaggedEntry {
    fn word(self) -> u64 {
        u64::from(self.tag) << 16 | u64::from(self.counter) << 8 | u64::from(self.useful)
    }
}

const TAGE_TABLES: u32 = 4;
/// Hash multiplier: 2^64 by the golden ratio (Knuth, vol. 3).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash whose middle bits move with each bit of `x`: both halves of a product, as predictors fold their histories.
#[inline]
fn folded(x: u64, by: u64) -> u64 {
    let product = u128::from(x) * u128::from(by);
    product as u64 ^ (product >> 64) as u64
}

/// A direction predictor and its global history.
pub struct Direction {
    kind: params::Direction,
    /// Bimodal, gshare and the base of TAGE; BiMode's choice.
    counters: Table<u8>,
    /// BiMode's two tables.
    taken: Table<u8>,
    not_taken: Table<u8>,
    tagged: Vec<Tagged>,
    history: u64,
    history_mask: u64,
    mask: u64,
}

impl Direction {
    pub fn new(p: &params::Predictor) -> Self {
        use params::Direction::{BiMode, Tage};
        let entries = p.entries as usize;
        let tables = if p.direction == Tage { TAGE_TABLES } else { 0 };
        let bimode = if p.direction == BiMode { entries } else { 0 };
        Self {
            kind: p.direction,
            counters: Table::new(1, entries),
            taken: Table::new(2, bimode),
            not_taken: Table::new(1, bimode),
            tagged: (1..=tables)
                .map(|n| Tagged {
                    entries: Table::new(TaggedEntry::default(), (entries / TAGE_TABLES as usize).max(1)),
                    // Geometric: the longest history, halved from table to table.
                    history: (1u64 << (p.history >> (tables - n)).clamp(1, 63)) - 1,
                })
                .collect(),
            history: 0,
            history_mask: (1u64 << p.history.min(63)) - 1,
            mask: u64::from(p.entries) - 1,
        }
    }

    /// What it will predict, by words that change with it.
    pub fn stand(&self, words: &mut Vec<u64>) {
        words.extend([self.history, self.counters.sum(), self.taken.sum(), self.not_taken.sum()]);
        words.extend(self.tagged.iter().map(|table| table.entries.sum()));
    }

    /// Predicts the branch at `pc`, then learns that it was `taken`; returns whether the prediction was right.
    #[inline]
    pub fn predict(&mut self, pc: u64, taken: bool) -> bool {
        let predicted = match self.kind {
            params::Direction::Bimodal => self.table(pc >> 2, taken),
            params::Direction::Gshare => self.table(pc >> 2 ^ self.history, taken),
            params::Direction::BiMode => self.bimode(pc, taken),
            params::Direction::Tage => self.tage(pc, taken),
        };
        self.history = (self.history << 1 | u64::from(taken)) & self.history_mask;
        predicted == taken
    }

    fn table(&mut self, index: u64, taken: bool) -> bool {
        let at = (index & self.mask) as usize;
        let counter = self.counters.get(at);
        self.counters.set(at, trained(counter, taken, 3));
        counter >= 2
    }

    fn bimode(&mut self, pc: u64, taken: bool) -> bool {
        let at = (pc >> 2 & self.mask) as usize;
        let choice = self.counters.get(at);
        let index = ((pc >> 2 ^ self.history) & self.mask) as usize;
        let chosen = choice >= 2;
        let table = if chosen { &mut self.taken } else { &mut self.not_taken };
        let counter = table.get(index);
        let predicted = counter >= 2;
        table.set(index, trained(counter, taken, 3));
        // The choice stays where it was wrong about the bias but its table was right.
        if predicted != taken || chosen == taken {
            self.counters.set(at, trained(choice, taken, 3));
        }
        predicted
    }

    fn tage(&mut self, pc: u64, taken: bool) -> bool {
        let mut slots = [(0usize, 0u16); TAGE_TABLES as usize];
        let mut provider = None;
        let place = folded(pc >> 2, GOLDEN);
        for (n, table) in self.tagged.iter().enumerate() {
            // Every outcome in it moves index and tag.
            let hash = folded(place ^ self.history & table.history, GOLDEN.rotate_left(13 * n as u32 + 7));
            let index = (hash >> 32) as usize & (table.entries.len() - 1);
            let tag = (hash >> 20) as u16 | 1;
            slots[n] = (index, tag);
            if table.entries.get(index).tag == tag {
                provider = Some(n);
            }
        }
        let base = self.table(pc >> 2, taken);
        let predicted = match provider {
            None => base,
            Some(n) => {
                let (table, at) = (&mut self.tagged[n].entries, slots[n].0);
                let mut entry = table.get(at);
                let predicted = entry.counter >= 4;
                entry.counter = trained(entry.counter, taken, 7);
                if predicted != base {
                    entry.useful = trained(entry.useful, predicted == taken, 3);
                }
                table.set(at, entry);
                predicted
            }
        };
        if predicted != taken {
            self.allocate(provider.map_or(0, |n| n + 1), &slots, taken);
        }
        predicted
    }

    /// A wrong prediction takes an entry in a table with a longer history; where none is free, all age.
    fn allocate(&mut self, from: usize, slots: &[(usize, u16)], taken: bool) {
        for (table, &(index, tag)) in self.tagged.iter_mut().zip(slots).skip(from) {
            if table.entries.get(index).useful == 0 {
                table.entries.set(index, TaggedEntry { tag, counter: if taken { 4 } else { 3 }, useful: 0 });
                return;
            }
        }
        for (table, &(index, _)) in self.tagged.iter_mut().zip(slots).skip(from) {
            let entry = table.entries.get(index);
            table.entries.set(index, TaggedEntry { useful: entry.useful - 1, ..entry });
        }
    }
}
