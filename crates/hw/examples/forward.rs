//! A machine without QEMU: a scripted program on a simulated core forwards packets through an 8254x.
//! `cargo run --release -p wiretime-hw --example forward`

use wiretime_base::Ps;
use wiretime_hw::core::{BlockRef, Branch, Class, MemEvent, MemKind, MicroOp, Quick, Walk, Walker};
use wiretime_hw::nic::{loopback, loopback::Host, Which};
use wiretime_hw::wire::{Load, Sizes};

const START: Ps = Ps::from_us(20);
const END: Ps = Ps::from_us(220);

/// All of memory is one page.
struct Flat;
impl Walker for Flat {
    fn walk(&mut self, _: u64) -> Walk {
        Walk { reads: [0; 4], count: 0, page_bits: 40 }
    }
}

/// A block of code at `at`: its accesses (address, value), `work` additions, and the jump on.
fn run(host: &mut Host, at: u64, accesses: &[(MemKind, u64, u32)], work: usize) {
    let class = |a: &(MemKind, u64, u32)| if a.0 == MemKind::Load { Class::Load } else { Class::Store };
    let classes = accesses.iter().map(class).chain(vec![Class::Alu; work]).chain([Class::Branch]);
    let mut ops: Vec<MicroOp> = classes.map(MicroOp::new).collect();
    ops[accesses.len() + work].branch = Branch::Direct;
    let event = |(i, &(kind, paddr, value))| MemEvent { paddr, vaddr: paddr, value, index: i as u16, kind, size: 8 };
    let accesses: Vec<MemEvent> = (0usize..).zip(accesses).map(event).collect();
    let quick: Vec<Quick> = Quick::block(&ops);
    let block = BlockRef { paddr: at, vaddr: at, quick: &quick, ops: &ops };
    let (all, now) = (0..ops.len() as u32, host.machine.cores[0].now());
    host.machine.execute(0, (block, all), &accesses, Some(at), &mut Flat, now);
}

/// See the module.
pub fn main() {
    let p = toml::from_str(include_str!("../../../platforms/neoverse-n1.toml")).expect("a platform");
    let (sizes, rate) = (Sizes::Fixed { size: 64 }, "10Gbps".parse().expect("a rate"));
    let mut host = Host::new(&p, &Load { sizes, rate, seed: 1, ..Load::default() }, 256, true).expect("a load");
    host.offer(START, END);
    while host.machine.cores[0].now() < 2 * END {
        host.advance(host.machine.cores[0].now());
        let taken = host.take(32);
        let next = host.next_descriptor();
        run(&mut host, 1 << 30, &[(MemKind::Load, next, 0)], 8);
        for &(descriptor, buffer) in &taken {
            let header = [(MemKind::Load, buffer, 0), (MemKind::Store, buffer, 0)];
            run(&mut host, 1 << 30 | 4096, &[&[(MemKind::Load, descriptor, 0)], &header[..]].concat(), 60);
        }
        for store in host.tails().into_iter().filter(|_| !taken.is_empty()) {
            let register = loopback::BAR + store.place.offset;
            run(&mut host, 1 << 30 | 8192, &[(MemKind::DeviceStore, register, store.value as u32)], 4);
        }
    }
    let books = host.books();
    let (counts, mean) = (books.counts(Which::Cohort), books.sink.latencies.mean() / 1e3);
    println!("{} of {} packets forwarded, {mean:.0} ns mean latency", counts.forwarded, counts.offered);
    assert!(counts.offered > 2000 && counts.forwarded + counts.core_drop + counts.dma_drop == counts.offered);
}
