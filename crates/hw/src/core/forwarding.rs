//! Which stores of the queue loads find: by bytes.
//!
//! A table by eight bytes, hashed, of four places for each store that the queue holds; a store takes one or two of them. Where two that wait
//! fall on one place the older one is forgotten, and loads of it read the L1D. A load that stores cover takes its bytes from
//! them; one that they cover in part waits until they have left, as cores do that forward from one store alone.

use crate::memory::spread;
use wiretime_base::Cycles;

/// Eight bytes that a store, or several, wait to write: which of them, when its address is known, when it has its data, and when
/// the L1D has them.
#[derive(Clone, Copy)]
struct Waiting {
    place: u64,
    known: Cycles,
    data: Cycles,
    leaves: Cycles,
}

impl Waiting {
    const NONE: Self = Self { place: u64::MAX, known: Cycles::ZERO, data: Cycles::ZERO, leaves: Cycles::ZERO };

    /// Which bytes.
    #[inline]
    fn bytes(self) -> u8 {
        (self.place >> EIGHTS) as u8
    }

    /// Whether it is these eight.
    #[inline]
    fn is_at(self, eight: u64) -> bool {
        (self.place ^ eight) << (u64::BITS - EIGHTS) == 0
    }
}

/// Bits of a number of eight bytes; which of them are meant is above.
const EIGHTS: u32 = 56;

/// Places a store of the queue.
const PLACES: usize = 4;

/// Stores that a load finds to write its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// When the last of their addresses is known.
    pub known: Cycles,
    /// When its bytes can be had: where all of them wait, with the last of the data; else once the last store has left.
    pub there: Cycles,
    /// Whether all of them wait.
    pub all: bool,
}

/// The stores of the queue.
pub struct Forwarding {
    waiting: Box<[Waiting]>,
    /// When the last has left.
    until: Cycles,
    /// Bits of a place's number.
    bits: u32,
}

impl Forwarding {
    /// Of a queue with so many stores.
    pub fn new(stores: u32) -> Self {
        let places = (stores as usize * PLACES).next_power_of_two();
        Self { waiting: vec![Waiting::NONE; places].into(), until: Cycles::ZERO, bits: places.trailing_zeros() }
    }

    /// A store of `size` bytes: when its address is known, when it has its data, when it has left.
    #[inline]
    pub fn note(&mut self, paddr: u64, size: u8, when: (Cycles, Cycles, Cycles)) {
        self.until = self.until.max(when.2);
        match within(paddr, size) {
            Some(one) => self.note_eight(one, when),
            None => eights(paddr, size).for_each(|eight| self.note_eight(eight, when)),
        }
    }

    #[inline]
    fn note_eight(&mut self, (eight, bytes): (u64, u8), (known, data, leaves): (Cycles, Cycles, Cycles)) {
        let waiting = &mut self.waiting[spread(eight, self.bits) as usize];
        let before = *waiting;
        let mut new = Waiting { place: eight | u64::from(bytes) << EIGHTS, known, data, leaves };
        // Older bytes beside them still wait.
        if before.is_at(eight) && before.bytes() & !bytes != 0 && before.leaves > known {
            new.place |= before.place;
            new.known = new.known.max(before.known);
            new.data = new.data.max(before.data);
            new.leaves = new.leaves.max(before.leaves);
        }
        *waiting = new;
    }

    /// What a load of `size` bytes finds that starts at `start`.
    #[inline]
    pub fn find(&self, paddr: u64, size: u8, start: Cycles) -> Option<Found> {
        if self.until <= start {
            return None;
        }
        match within(paddr, size) {
            Some(one) => self.look(std::iter::once(one), start),
            None => self.look(eights(paddr, size), start),
        }
    }

    #[inline]
    fn look(&self, wanted: impl Iterator<Item = (u64, u8)>, start: Cycles) -> Option<Found> {
        let (mut any, mut all) = (false, true);
        let (mut known, mut data, mut leaves) = (Cycles::ZERO, Cycles::ZERO, Cycles::ZERO);
        for (eight, bytes) in wanted {
            let w = &self.waiting[spread(eight, self.bits) as usize];
            let found = if w.is_at(eight) && w.leaves > start { w.bytes() & bytes } else { 0 };
            all &= found == bytes;
            if found != 0 {
                any = true;
                (known, data, leaves) = (known.max(w.known), data.max(w.data), leaves.max(w.leaves));
            }
        }
        any.then_some(Found { known, there: if all { data } else { leaves }, all })
    }

    /// Who has not left at `now`.
    pub fn stand(&self, now: Cycles, words: &mut Vec<u64>) {
        for (i, store) in self.waiting.iter().enumerate().filter(|(_, store)| store.leaves > now) {
            let times = [store.known, store.data, store.leaves].map(|t| t.saturating_sub(now).0);
            words.extend([i as u64, store.place].into_iter().chain(times));
        }
    }

    /// All comes so much later.
    pub fn shift(&mut self, by: Cycles) {
        self.until += by;
        for store in &mut self.waiting {
            (store.known, store.data, store.leaves) = (store.known + by, store.data + by, store.leaves + by);
        }
    }
}

/// The number of the eight bytes that an access lies in, and which of them.
#[inline]
fn within(paddr: u64, size: u8) -> Option<(u64, u8)> {
    let first = paddr as u8 & 7;
    (first.saturating_add(size) <= 8).then(|| (paddr >> 3, (((1u16 << size) - 1) << first) as u8))
}

/// The numbers of the eight bytes that an access touches, and which of each.
#[inline]
fn eights(paddr: u64, size: u8) -> impl Iterator<Item = (u64, u8)> {
    let (mut at, end) = (paddr, paddr.saturating_add(size.into()));
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (first, next) = (at, ((at | 7) + 1).min(end));
        at = next;
        let bytes = ((1u16 << (next - first)) - 1) << (first & 7);
        Some((first >> 3, bytes as u8))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHEN: (Cycles, Cycles, Cycles) = (Cycles(3), Cycles(5), Cycles(20));

    fn table(stores: &[(u64, u8)]) -> Forwarding {
        let mut f = Forwarding::new(16);
        stores.iter().for_each(|&(paddr, size)| f.note(paddr, size, WHEN));
        f
    }

    #[test]
    fn loads_take_what_stores_cover() {
        let all = Some(Found { known: Cycles(3), there: Cycles(5), all: true });
        let part = Some(Found { known: Cycles(3), there: Cycles(20), all: false });
        let find = |stores: &[(u64, u8)], (paddr, size)| table(stores).find(paddr, size, Cycles(10));
        for (stores, load, found) in [
            (&[(0x100, 16)][..], (0x108, 8), all),        // the upper half of a pair
            (&[(0x108, 8)], (0x100, 16), part),           // a pair of which one is there
            (&[(0x100, 4)], (0x104, 4), None),            // beside it
            (&[(0x100, 4), (0x104, 4)], (0x100, 4), all), // the older of two
            (&[(0x100, 4), (0x104, 4)], (0x100, 8), all), // both, which are one here
            (&[(0x100, 1)], (0x100, 8), part),
            (&[(0x105, 4)], (0x108, 1), all), // over the border of eight bytes
            (&[(0x105, 4)], (0x109, 1), None),
            (&[(0x100, 8), (0x100 + 8 * 64, 8)], (0x100, 8), all), // 512 bytes further on
        ] {
            assert_eq!(find(stores, load), found, "{stores:x?} {load:x?}");
        }
        assert_eq!(table(&[(0x100, 8)]).find(0x100, 8, Cycles(20)), None, "it has left");
    }

    #[test]
    fn a_store_that_has_left_adds_nothing() {
        let mut f = table(&[(0x100, 4)]);
        f.note(0x104, 4, (Cycles(30), Cycles(31), Cycles(40)));
        assert_eq!(f.find(0x100, 8, Cycles(35)), Some(Found { known: Cycles(30), there: Cycles(40), all: false }));
    }
}
