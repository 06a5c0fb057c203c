//! A small load on every model: two cores with all kinds of instructions and accesses, and a NIC that forwards. What
//! comes out is every statistic and every time: a changed machine shows in it.

use super::chaos::Random;
use std::iter::{once, repeat_n};
use wiretime_base::stats::StatGroup;
use wiretime_base::Ps;
use wiretime_hw::core::{
    BlockRef, Branch, Class, Core, MemEvent, MemKind, MicroOp, Order, Quick, Split, Walk, Walker, REG_FLAGS,
};
use wiretime_hw::memory::MemorySystem;
use wiretime_hw::nic::loopback::Host;
use wiretime_hw::params::Platform;
use wiretime_hw::wire::{Load, Sizes};

/// Small pages below 4 GiB, huge ones above.
struct Pages;

impl Walker for Pages {
    fn walk(&mut self, address: u64) -> Walk {
        let bits = if address < 1 << 32 { 12 } else { 21 };
        let count: u8 = if bits == 12 { 4 } else { 3 };
        let mut reads = [0; 4];
        for level in 0..u64::from(count) {
            let shift = u64::from(bits) + 9 * (u64::from(count) - 1 - level);
            reads[level as usize] = (3 << 30) + (level << 24) + (address >> shift) % (1 << 18) * 8;
        }
        Walk { reads, count, page_bits: bits }
    }
}

const CLASSES: [Class; 31] = [
    Class::Alu,
    Class::AluShift,
    Class::Mul,
    Class::MulWide,
    Class::Div,
    Class::DivWide,
    Class::Crc,
    Class::FpMove,
    Class::FpAdd,
    Class::FpMul,
    Class::FpFma,
    Class::FpDiv,
    Class::Simd,
    Class::SimdMul,
    Class::SimdPermute,
    Class::SimdTransfer,
    Class::Crypto,
    Class::Load,
    Class::LoadVector,
    Class::Store,
    Class::Atomic,
    Class::LoadExclusive,
    Class::StoreExclusive,
    Class::Prefetch,
    Class::ZeroLine,
    Class::Maintenance,
    Class::Barrier,
    Class::BarrierFull,
    Class::SystemRead,
    Class::SystemWrite,
    Class::Auth,
];

fn access(class: Class) -> Option<MemKind> {
    Some(match class {
        Class::Load | Class::LoadVector | Class::LoadExclusive => MemKind::Load,
        Class::Store | Class::StoreExclusive | Class::Atomic => MemKind::Store,
        Class::Prefetch => MemKind::Prefetch,
        Class::ZeroLine => MemKind::ZeroLine,
        _ => return None,
    })
}

/// Instructions of a class in a block.
const OPS: u8 = 12;

/// One block of a class: independent operations first, then a chain.
fn block(class: Class, random: &mut Random, branch: Branch) -> (Vec<MicroOp>, Vec<MemKind>) {
    let (vector, mut ops, mut kinds) = (matches!(class as u8, 7..=16) || class == Class::LoadVector, vec![], vec![]);
    for i in 0..OPS {
        let mut op = MicroOp::new(class);
        let base = if vector { 32 } else { 0 };
        let chained = i > 6;
        if access(class).is_none_or(|k| k == MemKind::Load) {
            op.reads(base + if chained { i - 1 } else { 20 + random.below(4) as u8 });
            op.writes(base + i);
        } else {
            op.reads(24).reads(if chained { i - 1 } else { 20 });
            op.data_from = 1;
        }
        if i % 4 == 0 && matches!(class, Class::Load | Class::Store) {
            op.split = Split { address: true, pieces: 2, base: chained };
        }
        if class == Class::LoadExclusive {
            op.order = Order::one_way(true, false);
        }
        if class == Class::Barrier {
            op.order = Order::STORES;
        }
        ops.push(op);
        kinds.extend(access(class));
    }
    let mut last = MicroOp::new(Class::Branch);
    last.branch = branch;
    last.reads(3);
    ops.push(last);
    (ops, kinds)
}

fn values<G: StatGroup>(into: &mut Vec<u64>, group: &G) {
    into.extend(group.values());
}

/// Cores and memory: statistics and times after a fixed program.
fn cores(p: &Platform) -> Vec<u64> {
    let mut signature = Vec::new();
    let mut memory = MemorySystem::new(p, 2);
    let mut cores = [Core::new(p, 0), Core::new(p, 1)];
    let mut random = Random::new(0x1234_5678_9abc_def1);
    let branches =
        [Branch::Conditional, Branch::Direct, Branch::Call, Branch::Return, Branch::Indirect, Branch::Exception];
    let (mut sweep, mut calls) = (0u64, Vec::new());
    for turn in 0..14_000u64 {
        let who = (turn / 64 % 2) as usize;
        let class = CLASSES[(turn / 3 % CLASSES.len() as u64) as usize];
        // Exceptions and full barriers drain everything: seldom.
        let rare = turn % 97 == 0;
        let class = if matches!(class, Class::BarrierFull | Class::SystemWrite) && !rare { Class::Load } else { class };
        let kind = match turn % 8 {
            _ if rare => Branch::Exception,
            n => branches[(n % 5) as usize],
        };
        let (ops, kinds) = block(class, &mut random, kind);
        let mut events = Vec::new();
        for (i, &kind) in kinds.iter().enumerate() {
            // Near, within the L2, within the LLC, sweeping, and shared by both cores.
            let paddr = match turn / 5 % 6 {
                0 => random.below(1 << 14),
                1 => (1 << 24) + random.below(1 << 19),
                2 => (1 << 28) + random.below(1 << 26),
                3 | 4 => {
                    sweep += 24 + 64 * (turn / 5 % 6 - 3);
                    (1 << 27) + sweep % (1 << 26)
                }
                _ => (1 << 25) + random.below(64) * 64,
            } & !7;
            // Now and then under another address, of another colour.
            let vaddr = if turn % 3 == 0 { paddr + (1 << 33) + 4096 } else { paddr };
            events.push(MemEvent { paddr, vaddr, value: 0, index: i as u16, kind, size: 8 });
            if kind == MemKind::Store && i % 3 == 0 {
                events.push(MemEvent { paddr, vaddr, value: 0, index: i as u16, kind: MemKind::Load, size: 8 });
            }
        }
        if matches!(class, Class::Store) && turn % 4 == 0 {
            for e in events.iter_mut().filter(|e| e.kind == MemKind::Store) {
                e.kind = MemKind::DeviceStore;
                e.paddr = 1 << 40;
            }
        }
        if class == Class::Load && turn % 41 == 0 {
            events[0].kind = MemKind::DeviceLoad;
        }
        // Code: a hot loop, a spread of branches 4 B to 256 B apart, and now and then somewhere far.
        let code = match turn % 16 {
            0..=7 => (turn % 40) * 52,
            8..=13 => (1 << 16) + turn * 148 % (1 << 18),
            _ => (1 << 22) + turn * 4096 % (1 << 23),
        } & !3;
        // Loops of 30 branches, then 20 calls in each other and their returns.
        let (code, kind) = match turn / 600 % 8 {
            2 | 3 if !rare => ((turn % 30) * 1024, Branch::Direct),
            4 if !rare => (code, if turn % 40 < 20 { Branch::Call } else { Branch::Return }),
            _ => (code, kind),
        };
        let next = match kind {
            Branch::Conditional => code + if random.below(8) < 3 { 52 } else { 512 },
            Branch::Call => {
                calls.push(code + 52);
                code + 4096
            }
            Branch::Return => calls.pop().unwrap_or(64),
            Branch::Indirect => code + 64 * (turn % 3),
            _ => code + 256,
        };
        let mut ops = ops;
        if let Some(last) = ops.last_mut() {
            last.branch = kind;
        }
        let quick: Vec<Quick> = Quick::block(&ops);
        let block = BlockRef { paddr: (2 << 30) + code, vaddr: code + (code >> 14 << 12), quick: &quick, ops: &ops };
        let core = &mut cores[who];
        core.run(block, 0, ops.len(), &events, Some((2 << 30) + next), &mut memory, &mut Pages);
        if turn % 1000 == 999 {
            let later = core.now() + Ps::from_us(3);
            core.idle_until(later);
        }
        signature.extend(core.device_stores.drain(..).map(|s| s.time.0));
        memory.reached(cores.iter().map(Core::now).min().unwrap_or(Ps::ZERO));
    }
    for (i, core) in cores.iter().enumerate() {
        signature.push(core.now().0);
        values(&mut signature, &core.stats());
        values(&mut signature, &core.stall_stats());
        values(&mut signature, &core.tlb_stats());
        values(&mut signature, memory.private_stats(i));
    }
    values(&mut signature, memory.stats());
    values(&mut signature, memory.dram_stats());
    signature
}

/// One block of a class in a loop: its accesses begin at each of `turns`' addresses and are so far from each other, under
/// addresses that are higher by `virtually`.
fn loops(p: &Platform, class: Class, virtually: u64, turns: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
    let mut signature = Vec::new();
    let mut memory = MemorySystem::new(p, 1);
    let mut core = Core::new(p, 0);
    let (ops, kinds) = block(class, &mut Random::new(1), Branch::Direct);
    let quick: Vec<Quick> = Quick::block(&ops);
    let block = BlockRef { paddr: 2 << 30, vaddr: 0, quick: &quick, ops: &ops };
    for (first, step) in turns {
        let event = |(i, &kind): (usize, &MemKind)| {
            let paddr = first + i as u64 * step;
            MemEvent { paddr, vaddr: paddr + virtually, value: 0, index: i as u16, kind, size: 8 }
        };
        let events: Vec<MemEvent> = kinds.iter().enumerate().map(event).collect();
        core.run(block, 0, ops.len(), &events, Some(2 << 30), &mut memory, &mut Pages);
    }
    signature.push(core.now().0);
    values(&mut signature, memory.private_stats(0));
    signature
}

/// Strides through memory, two lines a turn.
fn strides(p: &Platform) -> Vec<u64> {
    loops(p, Class::Load, 1 << 33, (0..500).map(|turn| ((1 << 29) + turn * 128, 1 << 20)))
}

/// A long buffer is written, sixteen bytes a store; between its parts, more and more stores into a line that is there.
fn stream(p: &Platform) -> Vec<u64> {
    let part = |n: u64| once(((1 << 28) + n * 16 * u64::from(OPS), 16)).chain(repeat_n((1 << 29, 0), n as usize / 120));
    loops(p, Class::Store, 0, (0..1200).flat_map(part))
}

/// A store whose address comes late, a load of its bytes, a read of a system register, a move, a comparison with a select, and one with a branch: a chain.
fn pairs(p: &Platform) -> Vec<u64> {
    let op = |class, reads: &[u8], writes: &[u8]| {
        let mut op = MicroOp::new(class);
        reads.iter().for_each(|&r| _ = op.reads(r));
        writes.iter().for_each(|&r| _ = op.writes(r));
        op
    };
    let mut ops = [
        op(Class::Mul, &[9], &[24]),
        op(Class::Store, &[24, 20], &[]),
        op(Class::Load, &[21], &[6]),
        op(Class::SystemRead, &[], &[10]),
        op(Class::Alu, &[6], &[7]),
        op(Class::Alu, &[7, 8], &[REG_FLAGS]),
        op(Class::Alu, &[REG_FLAGS, 7, 8], &[9]),
        op(Class::Alu, &[9], &[REG_FLAGS]),
        op(Class::Branch, &[REG_FLAGS], &[]),
    ];
    (ops[1].data_from, ops[4].moves, ops[8].branch) = (1, true, Branch::Conditional);
    let quick = Quick::block(&ops);
    let (mut memory, mut core) = (MemorySystem::new(p, 1), Core::new(p, 0));
    let event = |index, kind| MemEvent { paddr: 1 << 29, vaddr: 1 << 29, value: 0, index, kind, size: 8 };
    let events = [event(1, MemKind::Store), event(2, MemKind::Load)];
    for turn in 0..500u64 {
        let at = (2 << 30) + turn % 5 * 256;
        let next = (2 << 30) + (turn + 1) % 5 * 256;
        let block = BlockRef { paddr: at, vaddr: at, quick: &quick, ops: &ops };
        core.run(block, 0, ops.len(), &events, Some(next), &mut memory, &mut Pages);
    }
    let mut signature = vec![core.now().0];
    values(&mut signature, &core.stats());
    signature
}

const STEP: Ps = Ps::from_ns(400);

/// A NIC that forwards what comes, by a driver that looks every 400 ns: `burst` packets at most.
fn nic(p: &Platform, length: u32, rate: &str, burst: u32) -> Vec<u64> {
    let mut signature = Vec::new();
    let load =
        Load { sizes: Sizes::Fixed { size: length }, rate: rate.parse().expect("a rate"), seed: 1, ..Load::default() };
    let mut host = Host::new(p, &load, 256, true).expect("a host");
    host.offer(Ps::ZERO, Ps::from_ms(1));
    let mut now = Ps::ZERO;
    for step in 0..600 {
        now += STEP;
        host.advance(now);
        host.touch(wiretime_base::Cycles(step * 1200));
        host.poll(now, burst);
    }
    let nics = host.machine.nics.borrow();
    let stats = nics.stats(0, 1);
    values(&mut signature, &stats.receive);
    values(&mut signature, &stats.transmit);
    values(&mut signature, &stats.io);
    values(&mut signature, host.machine.memory.stats());
    values(&mut signature, host.machine.memory.dram_stats());
    let sink = &nics.books.sink.latencies;
    signature.extend([sink.count(), sink.max().0, sink.quantile(0.5).0, sink.mean() as u64]);
    signature
}

/// The loads, each alone, the cores' first.
pub const LOADS: [fn(&Platform) -> Vec<u64>; 8] = [
    cores,
    pairs,
    strides,
    stream,
    // Long frames that fill FIFOs, credits and tags; short ones that fill descriptor caches; a line that is too slow.
    |p| nic(p, 1518, "100Gbps", 64),
    |p| nic(p, 9000, "100Gbps", 4),
    |p| nic(p, 64, "60Gbps", 32),
    |p| nic(p, 64, "5Gbps", 32),
];
