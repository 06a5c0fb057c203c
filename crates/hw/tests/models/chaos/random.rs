//! Numbers for tests that repeat: drawn from a seed, or read from the bytes that a fuzzer makes.
#![allow(dead_code)] // bytes are for fuzzers by coverage, numbers from a seed for tests

/// xorshift64*: a failure repeats. Or bytes, of which a choice among few takes one, so that what a fuzzer changes in them
/// changes one choice.
pub struct Random {
    state: u64,
    bytes: Option<std::vec::IntoIter<u8>>,
}

impl Random {
    pub fn new(seed: u64) -> Random {
        Random { state: seed, bytes: None }
    }

    pub fn of_bytes(bytes: &[u8]) -> Random {
        Random { state: 1, bytes: Some(Vec::from(bytes).into_iter()) }
    }

    /// What the next number comes from: of one that nothing was drawn from, its seed.
    pub fn seed(&self) -> u64 {
        self.state
    }

    /// Whether its bytes are used up: what is drawn then is 0.
    pub fn is_over(&self) -> bool {
        self.bytes.as_ref().is_some_and(|bytes| bytes.len() == 0)
    }

    fn take(&mut self, count: usize) -> Option<u64> {
        let bytes = self.bytes.as_mut()?;
        Some((0..count).fold(0, |word, _| word << 8 | u64::from(bytes.next().unwrap_or(0))))
    }

    pub fn word(&mut self) -> u64 {
        if let Some(given) = self.take(8) {
            return given;
        }
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        let count = (64 - (n - 1).leading_zeros()).div_ceil(8) as usize;
        self.take(count).unwrap_or_else(|| self.word()) % n
    }
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    pub fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}
