//! Ascending and descending streams, one in a page of 4 KiB.

use super::{Reach, Wanted, NOTHING};
use crate::memory::PAGE_LINES;

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

/// The streams that are followed: the one used longest ago makes room.
pub struct Streams {
    streams: Box<[Stream]>,
    confident: u8,
    clock: u32,
}

impl Streams {
    pub fn new(entries: usize, confident: u8) -> Self {
        let none = Stream { page: u64::MAX, last: 0, ahead: 0, down: false, confidence: 0, used: 0 };
        Self { streams: vec![none; entries].into(), confident, clock: 0 }
    }

    pub fn train(&mut self, line: u64, reach: Reach) -> Wanted {
        self.clock = self.clock.wrapping_add(1);
        let (page, clock) = (line / PAGE_LINES, self.clock);
        let Some(s) = self.streams.iter_mut().find(|s| s.page == page) else {
            if let Some(oldest) = self.streams.iter_mut().max_by_key(|s| clock.wrapping_sub(s.used)) {
                *oldest = Stream { page, last: line, ahead: line, down: false, confidence: 0, used: clock };
            }
            return NOTHING;
        };
        s.used = clock;
        if line == s.last {
            return NOTHING;
        }
        let down = line < s.last;
        if down == s.down {
            s.confidence = (s.confidence + 1).min(self.confident);
        } else {
            (s.down, s.confidence, s.ahead) = (down, 1, line);
        }
        s.last = line;
        if s.confidence < self.confident || line == 0 {
            return NOTHING;
        }
        // From where it has got to, up to `degree` lines, no further than `distance` from here.
        let (first, limit, step) = if down {
            (s.ahead.min(line).saturating_sub(1), line.saturating_sub(reach.distance), -1)
        } else {
            (s.ahead.max(line) + 1, line + reach.distance, 1)
        };
        let room = if down { (first + 1).saturating_sub(limit) } else { (limit + 1).saturating_sub(first) };
        let wanted = Wanted::run(first, step, room.min(reach.degree)).within_page(line);
        if wanted.count > 0 {
            s.ahead = first.wrapping_add_signed(step * (wanted.count as i64 - 1));
        }
        wanted
    }

    /// From this line on none of what was wanted last could be asked for: it still is.
    pub fn refused(&mut self, line: u64) {
        if let Some(s) = self.streams.iter_mut().find(|s| s.page == line / PAGE_LINES) {
            s.ahead = if s.down { line + 1 } else { line.wrapping_sub(1) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REACH: Reach = Reach { degree: 4, distance: 16 };

    #[test]
    fn a_stream_runs_ahead_and_asks_for_no_line_twice() {
        for down in [false, true] {
            let mut streams = Streams::new(16, 2);
            let mut asked = Vec::new();
            for k in 0..40u64 {
                let line = if down { 6400 + 63 - k } else { 6400 + k };
                asked.extend(streams.train(line, REACH).lines());
            }
            let mut sorted = asked.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), asked.len());
            assert!(asked.len() > 45 && asked.iter().all(|l| l / 64 == 100), "{asked:?}");
        }
    }

    #[test]
    fn what_found_no_register_is_wanted_again() {
        for down in [false, true] {
            let mut streams = Streams::new(16, 2);
            let at = |k: u64| if down { 6400 + 63 - k } else { 6400 + k };
            let wanted: Vec<u64> =
                (0..3).flat_map(|k| streams.train(at(k), REACH).lines().collect::<Vec<_>>()).collect();
            streams.refused(wanted[1]);
            assert_eq!(streams.train(at(3), REACH).lines().next(), Some(wanted[1]));
        }
    }

    #[test]
    fn more_streams_than_entries_push_each_other_out() {
        for (entries, follows) in [(4, true), (3, false)] {
            let mut streams = Streams::new(entries, 2);
            let asked = (0..20).flat_map(|k| (0..4).map(move |page| 64 * page + k));
            let any = asked.map(|line| streams.train(line, REACH).count).sum::<u64>() > 0;
            assert_eq!(any, follows);
        }
    }
}
