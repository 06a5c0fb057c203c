//! What fuzzers share: memory that notes what lies outside it, numbers that repeat, a load.

pub mod connectx;
mod random;
pub mod registers;

pub use random::Random;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use wiretime_hw::memory::GuestMemory;
use wiretime_hw::nic::{devices, BookSettings, Books, DropClasses};
use wiretime_hw::params::Platform;
use wiretime_hw::wire::{Arrivals, Cable, Flows, Load, Recognition, Sink, Sizes};

/// Bytes of memory.
pub const MEMORY: u64 = 1 << 20;
/// The NIC's address.
pub const MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];

/// Memory of the host.
pub struct Ram {
    pub bytes: Vec<u8>,
    pub outside: Cell<u64>,
    /// Words that a device read and that would be addresses here. What it writes may be read as a descriptor again (a
    /// packet lies where a ring is), so a fuzzer cannot know beforehand all that it hands over.
    read: RefCell<BTreeSet<u64>>,
}

impl Ram {
    pub fn new(bytes: Vec<u8>) -> Ram {
        Ram { bytes, outside: Cell::new(0), read: RefCell::default() }
    }

    /// Whether a device read, as a word of something, an address whose next `length` bytes include this one.
    #[allow(dead_code)] // not every fuzzer asks
    pub fn was_read(&self, address: u64, length: u64) -> bool {
        self.read.borrow().range(address.saturating_sub(length - 1)..=address).next().is_some()
    }

    fn range(&self, address: u64, length: usize) -> Option<std::ops::Range<usize>> {
        let end = address.checked_add(length as u64).filter(|&end| end <= MEMORY);
        if end.is_none() {
            self.outside.set(self.outside.get() + 1);
        }
        end.map(|end| address as usize..end as usize)
    }
}

impl GuestMemory for Ram {
    fn read(&self, address: u64, data: &mut [u8]) -> bool {
        let Some(r) = self.range(address, data.len()) else { return false };
        data.copy_from_slice(&self.bytes[r]);
        let words = data.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        self.read.borrow_mut().extend(words.filter(|&word| word < MEMORY));
        true
    }
    fn write(&mut self, address: u64, data: &[u8]) -> bool {
        let Some(r) = self.range(address, data.len()) else { return false };
        self.bytes[r].copy_from_slice(data);
        true
    }
}

/// A machine.
#[allow(dead_code)] // a fuzzer by coverage has a smaller one
pub fn platform() -> Platform {
    toml::from_str(include_str!("../../../../../platforms/neoverse-n1.toml")).expect("a valid platform")
}

/// Books of a port: of a forwarder's, or of a program's that takes what comes.
pub fn books(p: &Platform, forwards: bool) -> Books {
    let sink = Sink::new(Recognition::Probe, 42);
    devices::books(p, BookSettings { forwards, copies: false, sink, classes: DropClasses::Wiretime })
}

/// Short packets of many flows: of 1 Gb/s, one in half a microsecond.
pub fn cable(p: &Platform, seed: u64, rate: &str) -> Cable {
    let load = Load {
        sizes: Sizes::Fixed { size: 64 },
        rate: rate.parse().unwrap(),
        arrivals: Arrivals::Poisson,
        flows: Flows { count: 50, ..Flows::default() },
        seed,
        ..Load::default()
    };
    Cable::new(&load, 0, (p.link[0].rate, p.link[0].gap_bytes), MAC).unwrap()
}

/// The corpus, and as many others as `WIRETIME_FUZZ_SEEDS` says: a failing seed is named, and belongs into the corpus.
#[allow(dead_code)] // a fuzzer by coverage has none
pub fn seeds(corpus: &[u64]) -> Vec<u64> {
    let others: u64 = std::env::var("WIRETIME_FUZZ_SEEDS").map_or(0, |n| n.parse().expect("a number of seeds"));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let drawn = (0..others).map(|n| now.wrapping_add(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let seeds: Vec<u64> = corpus.iter().copied().chain(drawn).collect();
    println!("seeds {seeds:#x?}");
    seeds
}
