//! Write streaming: a core that goes on writing whole lines which its L1D does not have reads them no longer before it
//! overwrites them, and leaves them further and further out the longer it goes on.
//!
//! After the Neoverse N1's Technical Reference Manual: 7.2.7, and the thresholds of its control register (13.32). A stream is
//! told by its addresses: each store begins at most as far behind the one before as one instruction writes. Left out:
//! more than one stream at a time, descending ones, what a line costs that is left half written but for the read that it
//! then takes, and others that ask for it before it is whole; a loop that leaves gaps of 24 bytes and less counts as one that leaves none.

use super::{Address, LINE};
use crate::params::WriteStreaming;

/// What one instruction writes: a pair of vector registers.
const STEP: u64 = 32;

/// Where the lines of a stream go that the L1D does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// They are read, and written in the L1D.
    L1,
    /// Into the L2.
    L2,
    /// Into the LLC, past the L2.
    Llc,
    /// Past all caches.
    Memory,
}

/// One core's stream of stores.
pub struct Streaming {
    /// Bytes after which lines go to each target, in order of the targets; 0: never.
    after: [(u64, Target); 3],
    zeroes_after: u64,
    patience: u64,
    /// Virtual address of its last store.
    last: u64,
    /// Whole lines in a row that the L1D did not have.
    lines: u64,
    /// Stores since the last of them that the L1D had.
    hits: u64,
    /// The line that is being written without having been read, as the L1D would place it.
    open: Option<u64>,
}

/// How a store goes on from the stream: whether it does, and how far that had got.
#[derive(Clone, Copy)]
pub struct Step {
    before: u64,
    follows: bool,
}

/// What a store is to do that the L1D does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// Where its line goes.
    pub target: Target,
    /// Another line, left half written, that has to be read now.
    pub broken: Option<u64>,
}

impl Streaming {
    pub fn new(p: &WriteStreaming) -> Self {
        Self {
            after: [
                (p.memory_after.bytes(), Target::Memory),
                (p.llc_after.bytes(), Target::Llc),
                (p.after.bytes(), Target::L2),
            ],
            zeroes_after: p.zeroes_after.bytes(),
            patience: p.patience.into(),
            last: u64::MAX / 2,
            lines: 0,
            hits: 0,
            open: None,
        }
    }

    /// A store, whose line the L1D may have or not.
    #[inline]
    pub fn step(&mut self, address: Address) -> Step {
        let before = self.last;
        let follows = address.virtual_.wrapping_sub(before) <= STEP;
        if follows {
            self.last = address.virtual_;
        }
        Step { before, follows }
    }

    /// So many stores found their lines at rest in the L1D.
    #[inline]
    pub fn hit(&mut self, stores: u64) {
        self.hits = self.hits.saturating_add(stores);
    }

    /// Whether it is the line at `place` that is being written, by a store that goes on from the stream.
    #[inline]
    pub fn writes(&self, place: u64, step: Step) -> bool {
        step.follows && self.open == Some(place)
    }

    /// Somebody wants the line: it is no longer being written.
    #[inline]
    pub fn end(&mut self, place: u64) {
        if self.open == Some(place) {
            self.open = None;
        }
    }

    /// The L1D does not have the line of a store that goes on from the stream, or begins another.
    pub fn missed(&mut self, address: Address, place: u64, Step { before, follows }: Step) -> Miss {
        // What was written last reached the end of its line.
        let whole = before % LINE >= LINE - STEP;
        let broken = self.open.take().filter(|&open| !whole && open != place);
        let goes_on = follows && whole && address.virtual_ % LINE < STEP && self.hits <= self.patience;
        self.lines = if goes_on { self.lines + 1 } else { 0 };
        (self.last, self.hits) = (address.virtual_, 0);
        let target = self.target(self.after[2].0);
        if target != Target::L1 {
            self.open = Some(place);
        }
        Miss { target, broken }
    }

    /// A whole line is zeroed by one instruction.
    pub fn zeroed(&mut self, address: Address) -> Target {
        let step = address.virtual_.wrapping_sub(self.last);
        self.lines = if step <= LINE && self.hits <= self.patience { self.lines + 1 } else { 0 };
        (self.last, self.hits, self.open) = (address.virtual_ | (LINE - 1), 0, None);
        self.target(self.zeroes_after)
    }

    fn target(&self, first: u64) -> Target {
        let bytes = self.lines * LINE;
        let reached = |&&(after, target): &&(u64, Target)| {
            let after = if target == Target::L2 { first } else { after };
            after > 0 && bytes >= after
        };
        self.after.iter().find(reached).map_or(Target::L1, |&(_, target)| target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::platform;

    fn streaming() -> Streaming {
        Streaming::new(&platform().write_streaming)
    }

    fn at(virtual_: u64) -> Address {
        Address { physical: virtual_, virtual_ }
    }

    /// Writes from `from` to `to` in steps, where the L1D has nothing; returns where each line went.
    fn write(s: &mut Streaming, from: u64, to: u64, step: u64) -> Vec<Target> {
        let mut targets = Vec::new();
        let mut line = u64::MAX;
        for address in (from..to).step_by(step as usize) {
            let step = s.step(at(address));
            if address / LINE != line {
                line = address / LINE;
                targets.push(s.missed(at(address), line, step).target);
            }
        }
        targets
    }

    #[test]
    fn the_longer_a_stream_the_further_out() {
        let p = platform().write_streaming;
        for step in [1, 8, 16, 32] {
            let targets = write(&mut streaming(), 0, 2 << 20, step);
            let first = |target| targets.iter().position(|&t| t == target).map(|n| n as u64 * LINE);
            assert_eq!(first(Target::L2), Some(p.after.bytes()), "{step}");
            assert_eq!(first(Target::Llc), Some(p.llc_after.bytes()), "{step}");
            assert_eq!(first(Target::Memory), Some(p.memory_after.bytes()), "{step}");
        }
    }

    #[test]
    fn gaps_and_other_work_end_it() {
        let sparse = write(&mut streaming(), 0, 1 << 20, 40);
        assert!(sparse.iter().all(|&t| t == Target::L1), "8 bytes in 40 leave gaps");
        let mut s = streaming();
        assert_eq!(write(&mut s, 0, 8192, 16).last(), Some(&Target::L2));
        s.hit(platform().write_streaming.patience.into());
        assert_eq!(write(&mut s, 8192, 8192 + LINE, 16), [Target::L2]);
        s.hit(u64::from(platform().write_streaming.patience) + 1);
        assert_eq!(write(&mut s, 8192 + LINE, 8192 + 2 * LINE, 16), [Target::L1]);
    }

    #[test]
    fn a_line_that_is_left_half_written_is_read() {
        let mut s = streaming();
        write(&mut s, 0, 8192 + 16, 16);
        let place = 8192 / LINE;
        let step = s.step(at(8192 + 16));
        assert!(s.writes(place, step) && !s.writes(place - 1, step));
        let step = s.step(at(1 << 30));
        assert!(!s.writes(place, step), "another store, however soon");
        let miss = s.missed(at(1 << 30), 1 << 24, step);
        assert_eq!(miss, Miss { target: Target::L1, broken: Some(place) });
    }

    #[test]
    fn zeroes_stream_sooner() {
        let mut s = streaming();
        let targets: Vec<_> = (0..64).map(|n| s.zeroed(at(n * LINE))).collect();
        let first = targets.iter().position(|&t| t == Target::L2).expect("some") as u64;
        assert_eq!(first * LINE, platform().write_streaming.zeroes_after.bytes());
    }
}
