//! Constant strides by instruction address.

use super::{Reach, Wanted, NOTHING};

#[derive(Clone, Copy, Default)]
struct Stride {
    pc: u64,
    last: u64,
    stride: i64,
    confidence: u8,
}

/// A table of instructions.
pub struct Strides {
    entries: Box<[Stride]>,
    confident: u8,
}

impl Strides {
    pub fn new(entries: usize, confident: u8) -> Self {
        Self { entries: vec![Stride::default(); entries].into(), confident }
    }

    /// What no instruction is known of (page walks, prefetches, instruction fetch) has no stride.
    pub fn train(&mut self, pc: u64, line: u64, reach: Reach) -> Wanted {
        if pc == 0 {
            return NOTHING;
        }
        let count = self.entries.len();
        let entry = &mut self.entries[(pc >> 2 ^ pc >> 10) as usize % count];
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
            entry.confidence = (entry.confidence + 1).min(self.confident);
        } else {
            (entry.stride, entry.confidence) = (stride, 0);
        }
        if entry.confidence < self.confident {
            return NOTHING;
        }
        let first = line.wrapping_add_signed(stride * (reach.distance - reach.degree + 1) as i64);
        Wanted::run(first, stride, reach.degree).within_page(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_by_instruction() {
        let mut strides = Strides::new(256, 2);
        let mut lines =
            |pc, line| -> Vec<u64> { strides.train(pc, line, Reach { degree: 2, distance: 4 }).lines().collect() };
        for line in [0, 3, 6] {
            assert_eq!(lines(0x40, line), [0u64; 0]);
            lines(0x80, line * 7 % 5); // another instruction does not disturb
        }
        assert_eq!(lines(0x40, 9), [18, 21]);
    }

    #[test]
    fn what_no_instruction_asked_for_has_no_stride() {
        let mut strides = Strides::new(256, 2);
        assert!((0..20).all(|line| strides.train(0, line, Reach { degree: 1, distance: 1 }) == NOTHING));
    }

    #[test]
    fn instructions_that_share_an_entry_learn_nothing() {
        let mut strides = Strides::new(1, 2);
        for line in 0..20 {
            for pc in [0x40, 0x80] {
                assert_eq!(strides.train(pc, line, Reach { degree: 1, distance: 1 }), NOTHING);
            }
        }
    }
}
