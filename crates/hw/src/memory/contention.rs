//! Lines that several cores use at the same time.
//!
//! Cores take turns in windows, so within one window a line changes hands once, however often both use it. Here a line
//! that went to and fro in successive windows is marked, and its accesses are counted by window: an access then pays for
//! a transfer as often as other cores have used the line in the window before. Two cores that hammer on one line each pay
//! for every access, as on hardware; one that looks seldom costs the other only so much.

use rustc_hash::FxHashMap;
use wiretime_base::Ps;

/// Lines remembered: beyond, all are forgotten.
const MOST: usize = 1 << 16;
/// Windows in which nobody else has used a line before it is no longer contended.
const PATIENCE: u32 = 3;

#[derive(Default)]
struct Line {
    window: u64,
    /// Accesses in the window before and in this one, and transfers charged in this one, by core.
    before: Vec<u32>,
    now: Vec<u32>,
    charged: Vec<u32>,
    /// Windows in a row in which one core alone has used it.
    alone: u32,
}

/// All contended lines.
pub struct Contention {
    quantum: Ps,
    cores: usize,
    /// When a line last went from one core to another.
    moved: FxHashMap<u64, u64>,
    lines: FxHashMap<u64, Line>,
}

impl Contention {
    pub fn new(quantum: Ps, cores: usize) -> Self {
        Self { quantum: quantum.max(Ps(1)), cores, moved: FxHashMap::default(), lines: FxHashMap::default() }
    }

    /// The line goes from one core to another at `t`; again so soon, it is contended.
    pub fn moves(&mut self, line: u64, t: Ps) {
        let window = t / self.quantum;
        if self.moved.len() > MOST {
            self.moved.clear();
        }
        if self.lines.len() > MOST {
            // Whom nobody has looked at for so long nobody fights for.
            self.lines.retain(|_, l| l.window + u64::from(PATIENCE) >= window);
        }
        if self.moved.insert(line, window).is_some_and(|last| window <= last + 1) {
            let n = self.cores;
            self.lines.entry(line).or_insert_with(|| Line {
                window,
                before: vec![0; n],
                now: vec![0; n],
                charged: vec![0; n],
                alone: 0,
            });
        }
    }

    /// Whether the line is contended.
    #[inline]
    pub fn has(&self, line: u64) -> bool {
        !self.lines.is_empty() && self.lines.contains_key(&line)
    }

    /// Core `i` uses a contended line at `t`: whether it pays for a transfer; `None` once nobody else uses it.
    pub fn access(&mut self, i: usize, line: u64, t: Ps) -> Option<bool> {
        let window = t / self.quantum;
        let l = self.lines.get_mut(&line)?;
        if window > l.window {
            let next = window == l.window + 1;
            std::mem::swap(&mut l.before, &mut l.now);
            if !next {
                l.before.fill(0);
            }
            l.now.fill(0);
            l.charged.fill(0);
            l.window = window;
            // The first core of a turn may run over into the next window before the others have had theirs.
            let alone = l.before.iter().enumerate().all(|(core, &n)| core == i || n == 0);
            l.alone = if alone { l.alone + 1 } else { 0 };
            if l.alone > PATIENCE {
                self.lines.remove(&line);
                return None;
            }
        }
        l.now[i] += 1;
        let uses = l.before.iter().zip(&l.now).enumerate();
        let others: u32 = uses.filter(|&(core, _)| core != i).map(|(_, (&before, &now))| before.max(now)).sum();
        let pays = l.charged[i] < others;
        l.charged[i] += u32::from(pays);
        Some(pays)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_pay_for_what_the_other_used() {
        let mut c = Contention::new(Ps(100), 2);
        c.moves(7, Ps(10));
        assert!(!c.has(7), "once is no contention");
        c.moves(7, Ps(110));
        assert!(c.has(7));
        for t in [110, 120, 130] {
            assert_eq!(c.access(0, 7, Ps(t)), Some(false), "nothing is known yet");
        }
        c.access(1, 7, Ps(150));
        let paid = |c: &mut Contention, core, t| (0..5).filter(|_| c.access(core, 7, t) == Some(true)).count();
        assert_eq!(paid(&mut c, 1, Ps(210)), 3);
        assert_eq!(paid(&mut c, 0, Ps(220)), 5, "as often as the other one uses it now");
    }

    #[test]
    fn ends_when_one_is_left() {
        let mut c = Contention::new(Ps(100), 2);
        c.moves(7, Ps(10));
        c.moves(7, Ps(110));
        c.access(0, 7, Ps(120));
        assert!((2..10).any(|window| c.access(0, 7, Ps(window * 100 + 20)).is_none()));
        assert!(!c.has(7));
    }
}
