//! The loop of a core: it looks at its queues in turn, does its work on what has come, and sends it on.

use crate::cost::{CostModel, OnFull, Payload};
use crate::cpu::{Cpu, Host};
use crate::driver::{touch, Buffer, Driver, PollDriver, Work};
use crate::memory::HostMemory;
use crate::pool::Pool;
use wiretime_base::Ps;

/// Bytes of a line.
const LINE: u32 = 64;

/// What a core is about to do with the queue whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// To look whether something has come.
    Look,
    /// To take another packet, where so many are taken.
    Receive(u32),
    /// To work on the packet that begins with this buffer.
    Work(usize),
    /// To send the packet that begins with this buffer, where so many are sent.
    Send(usize, u32),
}

/// A core with its queues: received from each, sent by the same.
pub struct PollCore {
    /// Its time.
    pub cpu: Cpu,
    pairs: Vec<(Driver, Pool)>,
    next: usize,
    phase: Phase,
    burst: Vec<Buffer>,
    idle: Idle,
}

/// Turns that find nothing.
#[derive(Default)]
struct Idle {
    /// So many in a row; when a round of all queues began, and how long the last rounds took.
    turns: usize,
    began: u64,
    round: u64,
    before: u64,
}

/// Buffers of the packet that begins at `at`.
fn packet(burst: &[Buffer], at: usize) -> &[Buffer] {
    let more = burst[at..].iter().take_while(|b| b.more).count();
    &burst[at..(at + more + 1).min(burst.len())]
}

impl PollCore {
    /// With these queues.
    #[must_use]
    pub fn new(cpu: Cpu, pairs: Vec<(Driver, Pool)>) -> Self {
        Self { cpu, pairs, next: 0, phase: Phase::Look, burst: Vec::with_capacity(512), idle: Idle::default() }
    }

    /// Rings are filled.
    pub fn start(&mut self, host: &mut Host, memory: &HostMemory, model: &CostModel) {
        let Self { cpu, pairs, .. } = self;
        for (pair, pool) in pairs {
            pair.start(&mut Work { cpu, host, memory, pool, model });
        }
    }

    /// The next thing that it does: a look, a packet's part of the loop.
    pub fn step(&mut self, host: &mut Host, memory: &HostMemory, model: &CostModel) {
        let Self { cpu, pairs, next, phase, burst, idle } = self;
        let (began, queues) = (cpu.now(), pairs.len());
        let (pair, pool) = &mut pairs[*next];
        let w = &mut Work { cpu, host, memory, pool, model };
        let mut over = false;
        match *phase {
            Phase::Look => {
                burst.clear();
                pair.begin_receive(w);
                *phase = Phase::Receive(0);
            }
            Phase::Receive(taken) => {
                let most = model.policy.burst.min(model.policy.receive_most);
                if taken < most && pair.receive(w, burst) {
                    if taken == 0 {
                        w.cpu.spend(model.cycles.turn);
                    }
                    *phase = Phase::Receive(taken + 1);
                } else {
                    pair.end_receive(w, taken);
                    if taken == 0 {
                        w.cpu.spend(model.cycles.empty_poll);
                        over = true;
                    } else {
                        *phase = Phase::Work(0);
                    }
                }
            }
            Phase::Work(at) if at < burst.len() => {
                let its = packet(burst, at);
                its.iter().enumerate().for_each(|(k, b)| work(w, b, k == 0));
                *phase = Phase::Work(at + its.len());
            }
            Phase::Work(_) => {
                w.cpu.settle();
                pair.begin_transmit(w);
                *phase = Phase::Send(0, 0);
            }
            Phase::Send(at, sent) if at < burst.len() => {
                let its = packet(burst, at);
                if pair.send(w, its) {
                    *phase = Phase::Send(at + its.len(), sent + 1);
                } else {
                    // What is in the ring is told, before the program sees that the rest is not.
                    pair.end_transmit(w, sent);
                    match model.policy.on_full {
                        OnFull::Drop => {
                            burst[at..].iter().for_each(|b| w.pool.give(b.number));
                            over = true;
                        }
                        OnFull::Wait => {
                            w.cpu.spend(model.cycles.empty_poll);
                            pair.begin_transmit(w);
                            *phase = Phase::Send(at, 0);
                        }
                    }
                }
            }
            Phase::Send(_, sent) => {
                w.cpu.settle();
                pair.end_transmit(w, sent);
                over = true;
            }
        }
        if !over {
            return;
        }
        *phase = Phase::Look;
        *next = (*next + 1) % queues;
        if cpu.now() == began && burst.is_empty() {
            cpu.spend(1.0); // time passes in every turn
        }
        if burst.is_empty() {
            idle.turns += 1;
            if *next == 0 {
                (idle.before, idle.round) = (idle.round, cpu.now() - idle.began);
                idle.began = cpu.now();
            }
        } else {
            *idle = Idle { began: cpu.now(), ..Idle::default() };
        }
    }

    /// Nothing that it looks at changes before `t`: rounds like the last two, which took as long and found nothing, are taken
    /// at once, those that end before.
    pub fn skip_to(&mut self, t: Ps, host: &Host) {
        let Self { cpu, pairs, next, idle, .. } = self;
        if *next != 0
            || self.phase != Phase::Look
            || idle.turns < 2 * pairs.len()
            || idle.round == 0
            || idle.round != idle.before
        {
            return;
        }
        let count = cpu.rounds_before(t, idle.round);
        if count > 0 {
            cpu.repeat(idle.round, count);
            idle.began = cpu.now();
            pairs.iter().for_each(|(pair, _)| pair.polled_again(cpu, host, count));
        }
    }
}

/// What the program does with a buffer of a packet.
fn work(w: &mut Work<'_>, b: &Buffer, first: bool) {
    let touches = &w.model.touches;
    let lines = match touches.payload {
        Payload::None => 0,
        Payload::Header => u32::from(first),
        Payload::All => b.length.div_ceil(LINE),
    };
    let data = w.pool.data(b.number);
    if first {
        w.cpu.spend(w.model.cycles.work);
        if touches.writes_header {
            w.cpu.store(w.host, data);
        }
    }
    for line in 0..lines {
        w.cpu.load(w.host, touch::PAYLOAD, data + u64::from(line * LINE), false);
        w.cpu.spend(w.model.cycles.line);
    }
}
