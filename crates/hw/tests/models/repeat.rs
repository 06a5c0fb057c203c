//! Turns taken at once against turns executed: times, counters and all that follows are the same.

use proptest::prelude::*;
use std::cell::RefCell;
use wiretime_base::stats::StatGroup;
use wiretime_base::Ps;
use wiretime_hw::core::{BlockRef, Branch, Class, Flat, MemEvent, MemKind, MicroOp, Order, Quick, REG_FLAGS};
use wiretime_hw::machine::{Machine, Nics};
use wiretime_hw::nic::loopback::Ram;
use wiretime_hw::nic::{BookSettings, Books, DropClasses};
use wiretime_hw::params::Platform;
use wiretime_hw::wire::{Recognition, Sink};

const CODE: u64 = 0x4000_0000;
const DATA: u64 = 0x8000_0000;
/// Longest turn, in turns of the loop: predictors and the fraction of a cycle that dispatch stands at may take some to repeat.
const LONGEST: usize = 64;

/// One block of a loop: instructions, and what they access.
#[derive(Clone, Debug)]
struct Step {
    paddr: u64,
    ops: Vec<MicroOp>,
    quick: Vec<Quick>,
    events: Vec<MemEvent>,
}

fn step(number: u64, classes: &[(u8, u8, u8)]) -> Step {
    let (mut ops, mut events) = (Vec::new(), Vec::new());
    for (i, &(class, a, b)) in classes.iter().enumerate() {
        let class = [Class::Alu, Class::Load, Class::Store, Class::Mul, Class::Div, Class::Barrier, Class::FpAdd]
            [usize::from(class) % 7];
        let mut op = MicroOp::new(class);
        op.reads(a % 8).writes(if class == Class::Alu && b % 5 == 0 { REG_FLAGS } else { b % 8 });
        op.moves = class == Class::Alu && a % 3 == 0 && b % 5 != 0;
        if class == Class::Barrier {
            op.order = if a % 2 == 0 { Order::ALL } else { Order::LOADS };
        }
        if let Class::Load | Class::Store = class {
            let kind = if class == Class::Load { MemKind::Load } else { MemKind::Store };
            let paddr = DATA + u64::from(a % 16) * 64 + u64::from(b % 8) * 8;
            events.push(MemEvent { paddr, vaddr: paddr, value: 0, index: i as u16, kind, size: 8 });
        }
        ops.push(op);
    }
    let mut branch = MicroOp::new(Class::Branch);
    branch.branch = Branch::Conditional;
    branch.reads(REG_FLAGS);
    ops.push(branch);
    Step { paddr: CODE + number * 256, quick: Quick::block(&ops), ops, events }
}

type Alone = Machine<RefCell<Nics<Ram>>>;

fn machine(p: &Platform) -> Alone {
    let sink = Sink::new(Recognition::Probe, 0);
    let books = Books::new(0, 0, BookSettings { forwards: true, copies: false, sink, classes: DropClasses::Wiretime });
    Machine::new(p, 1, RefCell::new(Nics { slots: Vec::new(), cards: Vec::new(), books }))
}

fn turn(m: &mut Alone, steps: &[Step]) {
    for (i, s) in steps.iter().enumerate() {
        let block = BlockRef { paddr: s.paddr, vaddr: s.paddr, quick: &s.quick, ops: &s.ops };
        let next = steps[(i + 1) % steps.len()].paddr;
        m.execute(0, (block, 0..s.ops.len() as u32), &s.events, Some(next), &mut Flat, Ps::ZERO);
    }
}

/// Every time and counter.
type Seen = (Ps, [Vec<u64>; 3]);

fn seen(m: &Alone) -> Seen {
    let core = &m.cores[0];
    (core.now(), [core.stats().values(), core.stall_stats().values(), m.memory.private_stats(0).values()])
}

/// Something else, with accesses that miss.
fn after(m: &mut Alone, steps: &[Step]) -> Vec<Seen> {
    let mut found = Vec::new();
    for n in 0..40u64 {
        for s in steps {
            let mut s = s.clone();
            s.paddr += 0x10_0000 + n % 3 * 0x1000;
            s.events.iter_mut().for_each(|e| (e.paddr, e.vaddr) = (e.paddr + n * 4096, e.vaddr + n * 4096));
            turn(m, &[s]);
        }
        turn(m, steps);
        found.push(seen(m));
    }
    found
}

fn check(text: &str, steps: &[Step], count: u64) -> bool {
    let p: Platform = toml::from_str(text).expect("a platform");
    let (mut taken, mut executed) = (machine(&p), machine(&p));
    for _ in 0..400 {
        turn(&mut taken, steps);
        turn(&mut executed, steps);
    }
    let then = taken.stand(0);
    let disturbances = taken.disturbances(0);
    let Some(period) = (1..=LONGEST).find(|_| {
        turn(&mut taken, steps);
        taken.stand(0).is_like(&then)
    }) else {
        return false;
    };
    assert_eq!(taken.disturbances(0), disturbances, "a loop that is there disturbs itself by nothing");
    let one = taken.stand(0).turn_since(&then);
    taken.repeat(0, &one, count, &[]);
    for _ in 0..period as u64 * (count + 1) {
        turn(&mut executed, steps);
    }
    assert_eq!(seen(&taken), seen(&executed));
    assert_eq!(after(&mut taken, steps), after(&mut executed, steps), "and whatever comes then");
    true
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(prop::collection::vec(any::<(u8, u8, u8)>(), 1..14), 1..6)
        .prop_map(|blocks| blocks.iter().enumerate().map(|(i, b)| step(i as u64, b)).collect())
}

const OUT_OF_ORDER: &str = include_str!("../../../../platforms/neoverse-n1.toml");

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn turns_at_once_are_turns(steps in steps(), count in 1u64..3000) {
        check(OUT_OF_ORDER, &steps, count);
        check(include_str!("../../../../platforms/in-order.toml"), &steps, count);
        check(include_str!("../../../../platforms/gem5-n1-paper.toml"), &steps, count);
        check(include_str!("../../../../platforms/neoverse-v2.toml"), &steps, count);
    }
}

/// So that the test above is not one that skips: a plain poll repeats, on both kinds of cores.
#[test]
fn a_poll_repeats() {
    let poll = [step(0, &[(1, 0, 0), (0, 0, 1), (0, 1, 2), (2, 3, 4)]), step(1, &[(1, 2, 3), (0, 3, 3)])];
    assert!(check(OUT_OF_ORDER, &poll, 1000));
    assert!(check(include_str!("../../../../platforms/in-order.toml"), &poll, 1000));
    assert!(check(include_str!("../../../../platforms/neoverse-v2.toml"), &poll, 1000));
}

#[test]
fn turns_end_before_a_time() {
    let p: Platform = toml::from_str(OUT_OF_ORDER).expect("a platform");
    let mut m = machine(&p);
    let poll = [step(0, &[(1, 0, 0), (0, 0, 1), (0, 1, 2)])];
    (0..500).for_each(|_| turn(&mut m, &poll));
    let then = m.stand(0);
    let mut turns = 1;
    turn(&mut m, &poll);
    while !m.stand(0).is_like(&then) {
        turn(&mut m, &poll);
        turns += 1;
    }
    assert!(turns <= LONGEST);
    let one = m.stand(0).turn_since(&then);
    let end = m.cores[0].now() + Ps::from_ns(230);
    let count = m.turns_before(0, end, &one);
    m.repeat(0, &one, count, &[]);
    assert!(count > 0 && m.cores[0].now() < end);
    m.repeat(0, &one, 2, &[]);
    assert!(m.cores[0].now() >= end, "not many more would have been");
    assert_eq!(m.turns_before(0, end, &one), 0);
}
