//! The register interface against a guest that does anything: random accesses of any size and offset, random
//! descriptors (addresses outside memory, lengths 0 and 65535, rings of length 0, absurd segmentation), traffic
//! meanwhile. No panic, and nothing written outside what was handed over.

use std::cell::{Cell, RefCell};
use wiretime_base::Ps;
use wiretime_hw::memory::{GuestMemory, MemorySystem};
use wiretime_hw::nic::e1000::{reg, Registers, SharedRegisters, BAR_SIZE, SHARED};
use wiretime_hw::nic::Port;
use wiretime_hw::params::Platform;
use wiretime_hw::wire::{Generator, Sink, Traffic};

const ACCESSES: u64 = 1_000_000;
const MEMORY: u64 = 1 << 20;
/// Rings and buffers are handed over below this address; all above is somebody else's.
const HANDED_OVER: u64 = MEMORY / 2;
const MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];

struct Pages(RefCell<Vec<u32>>);

impl SharedRegisters for Pages {
    fn load(&self, offset: u64) -> u32 {
        self.0.borrow()[((offset - SHARED.start) / 4) as usize]
    }
    fn store(&self, offset: u64, value: u32) {
        self.0.borrow_mut()[((offset - SHARED.start) / 4) as usize] = value;
    }
}

struct Ram {
    bytes: Vec<u8>,
    outside: Cell<u64>,
}

impl Ram {
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
        self.range(address, data.len()).map(|r| data.copy_from_slice(&self.bytes[r])).is_some()
    }
    fn write(&mut self, address: u64, data: &[u8]) -> bool {
        let Some(r) = self.range(address, data.len()) else { return false };
        self.bytes[r].copy_from_slice(data);
        true
    }
}

/// xorshift64*: a failure repeats.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

fn platform() -> Platform {
    toml::from_str(include_str!("../../../platforms/ampere-altra.toml")).expect("a valid platform")
}

fn absurd(random: &mut Random) -> u64 {
    match random.below(6) {
        0 => 0,
        1 => u64::MAX - random.below(4096),
        2 => MEMORY - random.below(64),
        3 => random.next(),
        _ => random.below(HANDED_OVER - 65_536) & !0xf,
    }
}

#[test]
fn a_million_random_accesses() {
    let p = platform();
    let mut memory = MemorySystem::new(&p, 1);
    let line = (p.link.rate, p.link.gap_bytes);
    let generator = Generator::new(Traffic::Udp, 64, "1Gbps".parse().unwrap(), 42, line, MAC).unwrap();
    let pages = Pages(RefCell::new(vec![0; ((SHARED.end - SHARED.start) / 4) as usize]));
    let mut port = Port::new(&p, Registers::new(MAC, pages), generator, Sink::new(42), true);
    port.start_traffic(0, 1000, 1_000_000_000);
    let mut ram = Ram { bytes: (0..MEMORY).map(|i| (i * 7) as u8).collect(), outside: Cell::new(0) };
    let foreign = ram.bytes[HANDED_OVER as usize..].to_vec();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut now: Ps = 0;
    // Receive buffers are written whatever they are; to see stray writes, they may lie outside memory or in our half.
    for _ in 0..ACCESSES {
        let offset = match random.below(3) {
            0 => random.below(BAR_SIZE),
            1 => {
                [0, 0xc0, 0xd0, 0x100, 0x400, 0x2800, 0x2808, 0x2818, 0x3800, 0x3808, 0x3818][random.below(11) as usize]
            }
            _ => SHARED.start + random.below(SHARED.end - SHARED.start),
        } & !3;
        let value = random.next() as u32;
        if random.one_in(4) {
            // Any size, any alignment, also beyond the BAR.
            let offset = if random.one_in(100) { random.next() } else { offset + random.below(8) };
            let mut data = [0u8; 16];
            let length = random.below(17) as usize;
            if random.one_in(2) {
                port.registers.read_bytes(offset, &mut data[..length]);
            } else if offset % 4 != 0 || length % 4 != 0 {
                port.write_bytes(offset, &data[..length]);
            }
        } else if random.one_in(2) {
            let _ = port.registers.read(offset);
        } else {
            let value = match offset {
                // Bases inside what is handed over, so that write-backs stay there too.
                reg::RDBAL | reg::TDBAL => random.below(HANDED_OVER - 65_536) as u32,
                reg::RDBAH | reg::TDBAH if !random.one_in(50) => 0,
                reg::RDBAH | reg::TDBAH => 0xffff_ffff,
                reg::RDLEN | reg::TDLEN => (random.below(9) * 512) as u32,
                0x100 | 0x400 if !random.one_in(8) => value | 2 | 1 << 3 | 1 << 4 | 1 << 15,
                0 if !random.one_in(200) => value & !(1 << 26),
                _ => value,
            };
            port.write_register(offset, value);
        }
        for (offset, value) in std::mem::take(&mut port.trapped_tails) {
            port.doorbell(now, offset, value);
        }
        if random.one_in(16) {
            let at = (random.below(HANDED_OVER - 65_536) & !0xf) as usize;
            let (address, word) = (absurd(&mut random), random.next());
            let word = if random.one_in(4) { word & !0xffff | 0xffff } else { word };
            ram.bytes[at..at + 8].copy_from_slice(&address.to_le_bytes());
            ram.bytes[at + 8..at + 16].copy_from_slice(&word.to_le_bytes());
        }
        if random.one_in(8) {
            now += random.below(3_000_000);
            port.advance(now, &mut memory, &ram);
            port.writes.apply(now, &mut ram);
        }
    }
    // Receive buffers that the fuzzer placed at MEMORY - n wrote there: that was handed over. The rest is untouched.
    let last_page = foreign.len() - 4096;
    assert!(
        ram.bytes[HANDED_OVER as usize..][..last_page] == foreign[..last_page],
        "written outside what was handed over"
    );
    let stats = port.stats();
    assert!(stats.receive.frames > 1000, "traffic has flowed: {stats:?}");
    assert!(stats.receive.delivered > 0 && stats.transmit.descriptors_fetched > 0, "the rings were used: {stats:?}");
    assert!(stats.receive.buffer_faults + stats.transmit.buffer_faults + port.writes.refused > 0, "faults are counted");
    assert!(ram.outside.get() > 0 && port.registers.odd_accesses > 0);
}
