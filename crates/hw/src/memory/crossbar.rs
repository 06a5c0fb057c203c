//! The one crossbar into the last-level cache that all cores and devices share, as gem5's L3XBar: requests without data
//! take a little of it, lines more, and whoever comes while it is taken waits.
//!
//! The way through it is part of the cache's latency; here is only what its width costs. Left out: the direction back,
//! which gem5 keeps apart for each that asks.

use wiretime_base::{Calendar, Ps};

/// What goes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An address.
    Request,
    /// A line with its data.
    Line,
}

/// The crossbar's time; without any, nobody waits.
pub struct Crossbar {
    calendar: Calendar<Ps>,
    request: Ps,
    line: Ps,
    /// Devices' lines come by a cache of their own.
    pub io_cache: bool,
}

impl Crossbar {
    pub fn new(request: Ps, line: Ps, io_cache: bool) -> Self {
        Self { calendar: Calendar::default(), request, line, io_cache }
    }

    /// Goes in at `t` or later; returns when.
    #[inline]
    pub fn enter(&mut self, entry: Entry, t: Ps) -> Ps {
        let time = match entry {
            Entry::Request => self.request,
            Entry::Line => self.line,
        };
        if time == Ps::ZERO {
            return t;
        }
        self.calendar.reserve(t, time)
    }

    /// A device writes a line into the cache: it asks for the line, and brings it, then or when its own cache needs
    /// the place, for which it does not wait.
    #[inline]
    pub fn device_writes(&mut self, t: Ps) -> Ps {
        if !self.io_cache {
            return self.enter(Entry::Line, t);
        }
        let asked = self.enter(Entry::Request, t);
        self.enter(Entry::Line, asked);
        asked
    }

    /// A device has read a line that the cache gave away: it comes back.
    #[inline]
    pub fn device_returns(&mut self, t: Ps) {
        if self.io_cache {
            self.enter(Entry::Line, t);
        }
    }

    /// Nobody asks for a time before `t` any more.
    pub fn reached(&mut self, t: Ps) {
        self.calendar.reached(t);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gem5's: a nanosecond of header, two of data.
    const GEM5: (Ps, Ps) = (Ps(1000), Ps(3000));

    #[test]
    fn a_line_forwarded_through_an_io_cache_takes_eight_nanoseconds() {
        let mut c = Crossbar::new(GEM5.0, GEM5.1, true);
        let lines = 1000;
        let mut last = Ps::ZERO;
        for _ in 0..lines {
            last = last.max(c.device_writes(Ps::ZERO));
            last = last.max(c.enter(Entry::Request, Ps::ZERO));
            c.device_returns(Ps::ZERO);
        }
        let each = last.0 as f64 / f64::from(lines);
        assert!((each - 8000.0).abs() < 10.0, "{each} ps: asked and brought, asked and brought back");
    }

    #[test]
    fn who_comes_while_it_is_taken_waits_and_nobody_without_a_width() {
        let mut c = Crossbar::new(GEM5.0, GEM5.1, false);
        assert_eq!(c.device_writes(Ps(5000)), Ps(5000));
        assert_eq!(c.enter(Entry::Request, Ps(6000)), Ps(8000));
        assert_eq!(c.enter(Entry::Request, Ps(1000)), Ps(1000), "before all of them");
        c.device_returns(Ps(20_000));
        assert_eq!(c.enter(Entry::Request, Ps(20_000)), Ps(20_000), "no I/O cache: nothing comes back");
        let mut wide = Crossbar::new(Ps::ZERO, Ps::ZERO, true);
        assert_eq!((wide.device_writes(Ps(7)), wide.device_writes(Ps(7))), (Ps(7), Ps(7)));
    }
}
