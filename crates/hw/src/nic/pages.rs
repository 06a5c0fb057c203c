//! Register pages that guest and device share as memory, so that a doorbell costs the guest a store.

/// Where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePages {
    /// The BAR.
    pub bar: u8,
    /// Bytes of it.
    pub range: std::ops::Range<u64>,
    /// Each store to them tells something of its own, up to eight bytes: they are memory only while cores' stores are watched,
    /// and trap otherwise. Of others the words that they hold tell all.
    pub each_store: bool,
}

impl DevicePages {
    /// Pages whose words tell all.
    #[must_use]
    pub fn of_words(bar: u8, range: std::ops::Range<u64>) -> Self {
        Self { bar, range, each_store: false }
    }
}

/// The memory behind them. Offsets are the BAR's.
pub trait SharedRegisters {
    /// Reads the word at `offset`.
    fn load(&self, offset: u64) -> u32;
    /// Writes it.
    fn store(&self, offset: u64, value: u32);
}

impl<T: SharedRegisters> SharedRegisters for std::sync::Arc<T> {
    fn load(&self, offset: u64) -> u32 {
        (**self).load(offset)
    }
    fn store(&self, offset: u64, value: u32) {
        (**self).store(offset, value);
    }
}

/// Such pages for a bench without a guest: ordinary memory.
pub struct LocalPages {
    range: std::ops::Range<u64>,
    words: std::cell::RefCell<Vec<u32>>,
}

impl LocalPages {
    /// Pages at this range of a BAR, all zero.
    #[must_use]
    pub fn new(range: std::ops::Range<u64>) -> Self {
        let words = vec![0; ((range.end - range.start) / 4) as usize];
        Self { range, words: words.into() }
    }
}

impl SharedRegisters for LocalPages {
    fn load(&self, offset: u64) -> u32 {
        let at = offset.wrapping_sub(self.range.start) / 4;
        self.words.borrow().get(at as usize).copied().unwrap_or(0)
    }
    fn store(&self, offset: u64, value: u32) {
        let at = offset.wrapping_sub(self.range.start) / 4;
        if let Some(word) = self.words.borrow_mut().get_mut(at as usize) {
            *word = value;
        }
    }
}
