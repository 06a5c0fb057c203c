//! Search in a sorted queue that is nearly always asked about its end.

use std::collections::VecDeque;

/// Entries looked at from the end before all are searched.
const NEAR: usize = 8;

/// How many entries, from the front, `is_before` holds for; it holds for none behind them.
#[inline]
pub fn count<T>(list: &VecDeque<T>, is_before: impl Fn(&T) -> bool) -> usize {
    let mut i = list.len();
    for _ in 0..NEAR {
        if i == 0 || is_before(&list[i - 1]) {
            return i;
        }
        i -= 1;
    }
    list.partition_point(is_before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_from_either_end() {
        let list: VecDeque<u32> = (0..40).collect();
        for n in 0..=40 {
            assert_eq!(count(&list, |&e| e < n), n as usize);
        }
        assert_eq!(count(&VecDeque::<u32>::new(), |_| true), 0);
    }
}
