//! Hardware prefetchers: next line, stride by instruction address, streams inside 4 KiB pages.
//!
//! Trained by the misses of their cache and by the first use of what they brought. Left out: throttling by accuracy,
//! prefetching over page boundaries.

use super::PAGE_LINES;
use crate::params::{self, PrefetcherKind};

const STREAMS: usize = 16;
const STRIDES: usize = 256;
/// Repetitions before a stream or stride is believed.
const CONFIDENT: u8 = 2;

#[derive(Clone, Copy)]
struct Stream {
    page: u64,
    last: u64,
    /// The line up to which lines have been asked for.
    ahead: u64,
    down: bool,
    confidence: u8,
    used: u32,
}

#[derive(Clone, Copy, Default)]
struct Stride {
    pc: u64,
    last: u64,
    stride: i64,
    confidence: u8,
}

/// A prefetcher of one cache.
pub struct Prefetcher {
    kind: PrefetcherKind,
    degree: u64,
    distance: u64,
    streams: [Stream; STREAMS],
    strides: [Stride; STRIDES],
    clock: u32,
}

/// Lines to fetch: `first + k * step` for k below `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub first: u64,
    pub step: i64,
    pub count: u64,
}

impl Wanted {
    /// These lines, nearest first.
    pub fn lines(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |k| self.first.wrapping_add_signed(self.step * k as i64))
    }
}

const NOTHING: Wanted = Wanted { first: 0, step: 0, count: 0 };

impl Prefetcher {
    pub fn new(p: &params::Prefetcher) -> Self {
        let none = Stream { page: u64::MAX, last: 0, ahead: 0, down: false, confidence: 0, used: 0 };
        Self {
            kind: p.kind,
            degree: p.degree.into(),
            distance: p.distance.into(),
            streams: [none; STREAMS],
            strides: [Stride::default(); STRIDES],
            clock: 0,
        }
    }

    /// Whether it does anything.
    #[inline]
    pub fn on(&self) -> bool {
        self.kind != PrefetcherKind::Off
    }

    /// An access at `pc` missed `line`, or used what was prefetched.
    pub fn train(&mut self, pc: u64, line: u64) -> Wanted {
        match self.kind {
            PrefetcherKind::Off => NOTHING,
            PrefetcherKind::NextLine => {
                self.within_page(line, 1, line + self.distance - (self.degree - 1), self.degree)
            }
            PrefetcherKind::Stride => self.stride(pc, line),
            PrefetcherKind::Stream => self.stream(line),
        }
    }

    /// Cuts a run of lines at the end of `line`'s page.
    fn within_page(&self, line: u64, step: i64, first: u64, count: u64) -> Wanted {
        let page = line / PAGE_LINES;
        let whole = Wanted { first, step, count };
        Wanted { count: whole.lines().take_while(|l| l / PAGE_LINES == page).count() as u64, ..whole }
    }

    fn stride(&mut self, pc: u64, line: u64) -> Wanted {
        let entry = &mut self.strides[(pc >> 2 ^ pc >> 10) as usize % STRIDES];
        if entry.pc != pc {
            *entry = Stride { pc, last: line, stride: 0, confidence: 0 };
            return NOTHING;
        }
        let stride = line.wrapping_sub(entry.last) as i64;
        entry.last = line;
        if stride == 0 {
            return NOTHING;
        }
        if stride == entry.stride {
            entry.confidence = (entry.confidence + 1).min(CONFIDENT);
        } else {
            (entry.stride, entry.confidence) = (stride, 0);
        }
        if entry.confidence < CONFIDENT {
            return NOTHING;
        }
        let first = line.wrapping_add_signed(stride * (self.distance - self.degree + 1) as i64);
        self.within_page(line, stride, first, self.degree)
    }

    fn stream(&mut self, line: u64) -> Wanted {
        self.clock = self.clock.wrapping_add(1);
        let (page, clock) = (line / PAGE_LINES, self.clock);
        let Some(i) = self.streams.iter().position(|s| s.page == page) else {
            let oldest = self.streams.iter().enumerate().max_by_key(|(_, s)| clock.wrapping_sub(s.used));
            if let Some(i) = oldest.map(|(i, _)| i) {
                self.streams[i] = Stream { page, last: line, ahead: line, down: false, confidence: 0, used: clock };
            }
            return NOTHING;
        };
        let s = &mut self.streams[i];
        s.used = clock;
        if line == s.last {
            return NOTHING;
        }
        let down = line < s.last;
        if down == s.down {
            s.confidence = (s.confidence + 1).min(CONFIDENT);
        } else {
            (s.down, s.confidence, s.ahead) = (down, 1, line);
        }
        s.last = line;
        if s.confidence < CONFIDENT || line == 0 {
            return NOTHING;
        }
        // From where it has got to, up to `degree` lines, no further than `distance` from here.
        let (first, limit, step) = if down {
            (s.ahead.min(line).saturating_sub(1), line.saturating_sub(self.distance), -1)
        } else {
            (s.ahead.max(line) + 1, line + self.distance, 1)
        };
        let room = if down { (first + 1).saturating_sub(limit) } else { (limit + 1).saturating_sub(first) };
        let count = room.min(self.degree);
        let wanted = self.within_page(line, step, first, count);
        if wanted.count > 0 {
            self.streams[i].ahead = first.wrapping_add_signed(step * (wanted.count as i64 - 1));
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefetcher(kind: PrefetcherKind, degree: u32, distance: u32) -> Prefetcher {
        Prefetcher::new(&params::Prefetcher { kind, degree, distance })
    }

    fn lines(w: Wanted) -> Vec<u64> {
        w.lines().collect()
    }

    #[test]
    fn next_line_stops_at_the_page() {
        let mut p = prefetcher(PrefetcherKind::NextLine, 2, 2);
        assert_eq!(lines(p.train(0, 10)), [11, 12]);
        assert_eq!(lines(p.train(0, 62)), [63]);
        assert_eq!(lines(p.train(0, 63)), [0u64; 0]);
    }

    #[test]
    fn a_stride_by_instruction() {
        let mut p = prefetcher(PrefetcherKind::Stride, 2, 4);
        for line in [0, 3, 6] {
            assert_eq!(lines(p.train(0x40, line)), [0u64; 0]);
            p.train(0x80, line * 7 % 5); // another instruction does not disturb
        }
        assert_eq!(lines(p.train(0x40, 9)), [18, 21]);
    }

    #[test]
    fn a_stream_runs_ahead_and_asks_for_no_line_twice() {
        for down in [false, true] {
            let mut p = prefetcher(PrefetcherKind::Stream, 4, 16);
            let mut asked = Vec::new();
            for k in 0..40u64 {
                let line = if down { 6400 + 63 - k } else { 6400 + k };
                asked.extend(lines(p.train(0, line)));
            }
            let mut sorted = asked.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), asked.len());
            assert!(asked.len() > 45 && asked.iter().all(|l| l / 64 == 100), "{asked:?}");
        }
    }
}
