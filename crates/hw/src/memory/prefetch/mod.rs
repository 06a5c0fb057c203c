//! Hardware prefetchers of a cache: next line, stride by instruction address, streams inside 4 KiB pages, best offset, spatial
//! patterns; several of them at once, each throttled by what comes of its lines where asked.
//!
//! Trained by the misses of their cache and by the first use of what they brought. Left out: hits on other lines, which a
//! cache's own prefetcher may see, and prefetching over page boundaries.

mod best_offset;
mod spatial;
mod stream;
mod stride;
mod throttle;

use super::PAGE_LINES;
use crate::params::{self, PrefetcherKind};
use best_offset::BestOffset;
use spatial::Spatial;
use stream::Streams;
use stride::Strides;
use throttle::Throttle;
use wiretime_base::Cycles;

/// What a prefetcher sees: an access at `pc` (0: none is known) missed `line` at `t`, or used what was prefetched; the line is there
/// at `ready`.
#[derive(Clone, Copy, Debug)]
pub struct Trigger {
    pub pc: u64,
    pub line: u64,
    pub used: bool,
    pub t: Cycles,
    pub ready: Cycles,
}

/// Lines to fetch: `first + k * step` for those k below `count` whose bit is in `which`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub first: u64,
    pub step: i64,
    pub count: u64,
    pub which: u64,
}

impl Wanted {
    /// A run of lines, or every `step`th.
    fn run(first: u64, step: i64, count: u64) -> Self {
        Self { first, step, count, which: u64::MAX }
    }

    /// These lines, nearest first.
    pub fn lines(self) -> impl Iterator<Item = u64> {
        (0..self.count)
            .filter(move |k| self.which >> k & 1 != 0)
            .map(move |k| self.first.wrapping_add_signed(self.step * k as i64))
    }

    /// What of it is in `line`'s page: its beginning.
    fn within_page(self, line: u64) -> Self {
        let page = line / PAGE_LINES;
        let inside = (0..self.count).take_while(|&k| {
            let there = self.first.wrapping_add_signed(self.step * k as i64);
            there / PAGE_LINES == page
        });
        Self { count: inside.count() as u64, ..self }
    }
}

const NOTHING: Wanted = Wanted { first: 0, step: 0, count: 0, which: 0 };

/// How far a prefetcher reaches: lines for a trigger, and how far ahead the last of them may be.
#[derive(Clone, Copy, Debug)]
struct Reach {
    degree: u64,
    distance: u64,
}

enum Kind {
    NextLine,
    Stride(Strides),
    Stream(Streams),
    BestOffset(BestOffset),
    Spatial(Spatial),
}

struct Prefetcher {
    kind: Kind,
    reach: Reach,
    throttle: Option<Throttle>,
}

impl Prefetcher {
    /// None where it is off.
    fn new(p: &params::Prefetcher) -> Option<Self> {
        let usual = match p.kind {
            PrefetcherKind::Stream => 16,
            PrefetcherKind::Spatial => 4096,
            _ => 256,
        };
        let entries = if p.entries == 0 { usual } else { p.entries as usize };
        let confidence = p.confidence as u8;
        let kind = match p.kind {
            PrefetcherKind::Off => return None,
            PrefetcherKind::NextLine => Kind::NextLine,
            PrefetcherKind::Stride => Kind::Stride(Strides::new(entries, confidence)),
            PrefetcherKind::Stream => Kind::Stream(Streams::new(entries, confidence)),
            PrefetcherKind::BestOffset => Kind::BestOffset(BestOffset::new(entries, p.distance.into())),
            PrefetcherKind::Spatial => Kind::Spatial(Spatial::new(entries, p.distance.into())),
        };
        let reach = Reach { degree: p.degree.into(), distance: p.distance.into() };
        Some(Self { kind, reach, throttle: (p.throttle_below > 0).then(|| Throttle::new(p.throttle_below)) })
    }

    fn train(&mut self, trigger: Trigger) -> Wanted {
        let mut reach = self.reach;
        if let Some(throttle) = &mut self.throttle {
            if trigger.used {
                throttle.used(trigger.line);
            }
            if throttle.holds() {
                reach = Reach { degree: 1, distance: reach.distance - (reach.degree - 1) };
            }
        }
        let line = trigger.line;
        match &mut self.kind {
            Kind::NextLine => {
                Wanted::run(line + reach.distance - (reach.degree - 1), 1, reach.degree).within_page(line)
            }
            Kind::Stride(strides) => strides.train(trigger.pc, line, reach),
            Kind::Stream(streams) => streams.train(line, reach),
            Kind::BestOffset(best) => best.train(trigger, reach),
            Kind::Spatial(spatial) => spatial.train(trigger.pc, line, reach),
        }
    }

    fn fetched(&mut self, line: u64, ready: Cycles) {
        if let Some(throttle) = &mut self.throttle {
            throttle.fetched(line);
        }
        if let Kind::BestOffset(best) = &mut self.kind {
            best.fetched(line, ready);
        }
    }

    fn present(&mut self, line: u64, there: Cycles) {
        if let Kind::BestOffset(best) = &mut self.kind {
            best.fetched(line, there);
        }
    }

    fn refused(&mut self, line: u64) {
        if let Kind::Stream(streams) = &mut self.kind {
            streams.refused(line);
        }
    }
}

/// All prefetchers of a cache.
pub struct Prefetchers(Box<[Prefetcher]>);

impl Prefetchers {
    pub fn new(all: &[params::Prefetcher]) -> Self {
        Self(all.iter().filter_map(Prefetcher::new).collect())
    }

    /// How many do anything.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What the `n`th one wants.
    pub fn train(&mut self, n: usize, trigger: Trigger) -> Wanted {
        self.0[n].train(trigger)
    }

    /// An access used a line that had been prefetched, and trains none of them.
    pub fn used(&mut self, line: u64) {
        self.0.iter_mut().filter_map(|p| p.throttle.as_mut()).for_each(|throttle| throttle.used(line));
    }

    /// A line that it wanted was not there and has been asked for; it comes at `ready`.
    #[inline]
    pub fn fetched(&mut self, n: usize, line: u64, ready: Cycles) {
        self.0[n].fetched(line, ready);
    }

    /// A line that it wanted was asked for before, and comes or has come at `there`.
    #[inline]
    pub fn present(&mut self, n: usize, line: u64, there: Cycles) {
        self.0[n].present(line, there);
    }

    /// No register was free for a line that it wanted, and for those behind it.
    #[inline]
    pub fn refused(&mut self, n: usize, line: u64) {
        self.0[n].refused(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefetcher(kind: PrefetcherKind, degree: u32, distance: u32, throttle_below: u32) -> Prefetcher {
        let entries = if kind == PrefetcherKind::Stream { 16 } else { 256 };
        let p = params::Prefetcher { kind, degree, distance, entries, confidence: 2, throttle_below };
        Prefetcher::new(&p).unwrap()
    }

    fn lines(p: &mut Prefetcher, pc: u64, line: u64) -> Vec<u64> {
        p.train(Trigger { pc, line, used: true, t: Cycles(0), ready: Cycles(0) }).lines().collect()
    }

    #[test]
    fn next_line_stops_at_the_page() {
        let mut p = prefetcher(PrefetcherKind::NextLine, 2, 2, 0);
        assert_eq!(lines(&mut p, 0, 10), [11, 12]);
        assert_eq!(lines(&mut p, 0, 62), [63]);
        assert_eq!(lines(&mut p, 0, 63), [0u64; 0]);
    }

    #[test]
    fn one_whose_lines_nobody_uses_is_held_back() {
        for (used, after) in [(true, &[1u64, 2][..]), (false, &[1])] {
            let mut p = prefetcher(PrefetcherKind::NextLine, 2, 2, 50);
            // Pages in groups: the same place of each, before any of them is used.
            for group in 0..10 {
                let mut all = Vec::new();
                for page in 32 * group..32 * (group + 1) {
                    let t = Trigger { pc: 0, line: 64 * page, used: false, t: Cycles(0), ready: Cycles(0) };
                    for line in p.train(t).lines() {
                        p.fetched(line, Cycles(0));
                        all.push(line);
                    }
                }
                for line in all.into_iter().filter(|_| used) {
                    lines(&mut p, 0, line);
                }
            }
            assert_eq!(lines(&mut p, 0, 64 * 1000), after.iter().map(|l| 64 * 1000 + l).collect::<Vec<_>>(), "{used}");
        }
    }

    #[test]
    fn those_that_are_off_are_none() {
        let p =
            |kind| params::Prefetcher { kind, degree: 1, distance: 1, entries: 1, confidence: 1, throttle_below: 0 };
        let all = [p(PrefetcherKind::Off), p(PrefetcherKind::NextLine), p(PrefetcherKind::BestOffset)];
        assert_eq!(Prefetchers::new(&all).len(), 2);
    }
}
