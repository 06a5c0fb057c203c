//! What keeps its order: posted writes, up and down. None is through before one that was asked for earlier, whatever gap its
//! packet would have found.

use wiretime_base::{Ps, Sorted};

/// Of each, when it was asked for and when it was through; in order of both.
#[derive(Default)]
pub struct InOrder {
    list: Sorted<(Ps, Ps)>,
}

impl InOrder {
    /// When the last of those that were asked for at `t` or before is through.
    #[inline]
    pub fn before(&self, t: Ps) -> Ps {
        let at = self.list.count(|&(asked, _)| asked <= t);
        at.checked_sub(1).map_or(Ps::ZERO, |last| self.list[last].1)
    }

    /// One that is asked for at `t` would be through at `through`; returns when it is, behind those before it.
    #[inline]
    pub fn follow(&mut self, t: Ps, through: Ps) -> Ps {
        let mut at = self.list.count(|&(asked, _)| asked <= t);
        let last = at.checked_sub(1).map(|last| &mut self.list[last]);
        let through = through.max(last.as_ref().map_or(Ps::ZERO, |last| last.1));
        match last {
            Some(last) if last.0 == t => last.1 = through,
            _ => {
                self.list.insert(at, (t, through));
                at += 1;
            }
        }
        // Nor is one that was asked for later, and entered before, told of before it from now on.
        for later in &mut self.list[at..] {
            later.1 = later.1.max(through);
        }
        through
    }

    /// Nobody asks for a time before `t` any more.
    pub fn reached(&mut self, t: Ps) {
        self.list.forget(|rest| rest.get(1).is_some_and(|next| next.0 <= t));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_before_what_was_asked_for_earlier() {
        let mut order = InOrder::default();
        assert_eq!(order.before(Ps(5)), Ps::ZERO);
        order.follow(Ps(10), Ps(30));
        order.follow(Ps(40), Ps(50));
        order.follow(Ps(20), Ps(60));
        assert_eq!([5, 10, 19, 20, 40, 90].map(|t| order.before(Ps(t)).0), [0, 30, 30, 60, 60, 60]);
        assert_eq!(order.follow(Ps(40), Ps(45)), Ps(60));
        assert_eq!(order.before(Ps(40)), Ps(60));
        order.reached(Ps(25));
        assert_eq!([25, 40].map(|t| order.before(Ps(t)).0), [60, 60]);
    }
}
