//! Reads of data from the host that are under way: answered in order, so many at a time, of so many bytes.

use std::collections::VecDeque;
use wiretime_base::Ps;

/// One of them: when it is answered; its bytes; what comes of it then.
#[derive(Clone, Copy, Debug)]
struct Asked<E> {
    until: Ps,
    bytes: u64,
    then: Option<E>,
}

/// See the module.
#[derive(Debug)]
pub struct Requests<E> {
    asked: VecDeque<Asked<E>>,
    /// Of these so many are answered; the others, and their bytes, are under way.
    answered: usize,
    under_way: (u32, u64),
}

impl<E> Default for Requests<E> {
    fn default() -> Self {
        Self { asked: VecDeque::with_capacity(1024), answered: 0, under_way: (0, 0) }
    }
}

impl<E> Requests<E> {
    /// Those that are answered by `t` are no longer under way.
    fn reach(&mut self, t: Ps) {
        while let Some(asked) = self.asked.get(self.answered).filter(|asked| asked.until <= t) {
            self.under_way.0 -= 1;
            self.under_way.1 -= asked.bytes;
            self.answered += 1;
        }
    }

    /// Whether one more, of `next` bytes at most, may be under way at `t` beside so many requests and bytes; else from when on.
    pub fn throttled(&mut self, t: Ps, (requests, bytes): (u32, u64), next: u32) -> Option<Ps> {
        self.reach(t);
        let full = self.under_way.0 >= requests || self.under_way.1 + u64::from(next) > bytes;
        self.asked.get(self.answered).filter(|_| full).map(|asked| asked.until)
    }

    /// Another is to be answered at `until`, not before those that are under way; when it is.
    pub fn push(&mut self, until: Ps, bytes: u64, then: Option<E>) -> Ps {
        let until = until.max(self.asked.back().map_or(Ps::ZERO, |last| last.until));
        self.asked.push_back(Asked { until, bytes, then });
        self.under_way.0 += 1;
        self.under_way.1 += bytes;
        until
    }

    /// What comes at `t` of the first that something comes of; it is answered by then, and those before it.
    pub fn pop(&mut self, t: Ps) -> Option<E> {
        self.reach(t);
        while self.answered > 0 {
            self.answered -= 1;
            if let Some(then) = self.asked.pop_front().and_then(|asked| asked.then) {
                return Some(then);
            }
        }
        None
    }

    /// Nothing is under way.
    pub fn clear(&mut self) {
        self.asked.clear();
        (self.answered, self.under_way) = (0, (0, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_so_many_and_in_order() {
        let mut r = Requests::default();
        assert_eq!(
            (r.throttled(Ps(0), (2, 100), 200), r.push(Ps(50), 60, None)),
            (None, Ps(50)),
            "alone it may be longer"
        );
        assert_eq!(r.throttled(Ps(0), (2, 100), 40), None);
        assert_eq!(r.throttled(Ps(0), (2, 100), 41), Some(Ps(50)), "bytes");
        assert_eq!(r.push(Ps(40), 10, Some('a')), Ps(50), "not before the first");
        assert_eq!(r.throttled(Ps(0), (2, 100), 10), Some(Ps(50)), "requests");
        assert_eq!((r.pop(Ps(49)), r.throttled(Ps(50), (2, 100), 100)), (None, None));
        assert_eq!((r.pop(Ps(50)), r.pop(Ps(50))), (Some('a'), None));
        r.push(Ps(90), 10, Some('b'));
        r.clear();
        assert_eq!((r.throttled(Ps(0), (1, 1), 1), r.pop(Ps(99))), (None, None));
    }
}
