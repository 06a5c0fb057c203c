//! The loop of a core: it looks at its queues in turn, does its work on what has come, and sends it on: at once, or where its
//! program gathers packets, when there are enough of them or they have waited for long enough. A program may also receive
//! alone, or send packets of its own.

use crate::cost::{CostModel, Mode, OnFull, Payload, Policy};
use crate::cpu::{Cpu, Host};
use crate::driver::{touch, Buffer, Driver, PollDriver, Work};
use crate::memory::HostMemory;
use crate::pool::Pool;
use wiretime_base::stats::StatGroup;
use wiretime_base::Ps;
use wiretime_hw::memory::PrivateStats;

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

/// A queue pair of a core.
struct Lane {
    driver: Driver,
    pool: Pool,
    /// Packets that wait to be sent with others, their number, and when it was looked last for such as wait for too long.
    gathered: Vec<Buffer>,
    packets: u32,
    drained: Ps,
}

/// Turns that find nothing.
#[derive(Default)]
struct Idle {
    /// So many in a row; when a round of all queues began, and how long the last rounds took.
    turns: usize,
    began: u64,
    round: u64,
    before: u64,
    /// How many writes of devices were visible when the last whole round began, and when this one did.
    writes: [u64; 2],
    /// What the core had stored when its last turn ended.
    written: u64,
    /// What the core's caches had counted at its end, in it, and in the one before.
    counts: PrivateStats,
    counted: PrivateStats,
    counted_before: PrivateStats,
}

/// A core with its queues: received from each, sent by the same.
pub struct PollCore {
    /// Its time.
    pub cpu: Cpu,
    lanes: Vec<Lane>,
    next: usize,
    phase: Phase,
    /// When its turn began.
    began: u64,
    /// What has been received in this turn, and what is sent.
    burst: Vec<Buffer>,
    out: Vec<Buffer>,
    idle: Idle,
    /// Bytes of a packet that the program makes.
    bytes: u32,
}

/// Buffers of the packet that begins at `at`.
fn packet(burst: &[Buffer], at: usize) -> &[Buffer] {
    let more = burst[at..].iter().take_while(|b| b.more).count();
    &burst[at..(at + more + 1).min(burst.len())]
}

impl Lane {
    /// What of a burst of so many packets is sent now goes out; the rest waits for others.
    fn gather(&mut self, now: Ps, (burst, packets): (&mut Vec<Buffer>, u32), policy: &Policy, out: &mut Vec<Buffer>) {
        if policy.gather == 0 || self.packets == 0 && packets >= policy.straight {
            out.append(burst);
            return;
        }
        let period = policy.drain.ps();
        if self.packets == 0 && period > Ps::ZERO {
            // It has been looked at the end of each period since, and nothing found.
            self.drained += ((now - self.drained) / period) * period;
        }
        self.gathered.append(burst);
        self.packets += packets;
        while self.packets >= policy.gather {
            let end = (0..policy.gather).fold(0, |at, _| at + packet(&self.gathered, at).len());
            out.extend(self.gathered.drain(..end));
            self.packets -= policy.gather;
        }
    }

    /// When what waits has waited for long enough.
    fn drains(&self, policy: &Policy) -> Ps {
        if self.packets == 0 {
            return Ps::MAX;
        }
        self.drained.saturating_add(policy.drain.ps())
    }
}

impl PollCore {
    /// With these queues; a program that sends packets of its own makes them of so many bytes.
    #[must_use]
    pub fn new(cpu: Cpu, pairs: Vec<(Driver, Pool)>, bytes: u32) -> Self {
        let lane = |(driver, pool)| Lane { driver, pool, gathered: Vec::new(), packets: 0, drained: Ps::ZERO };
        Self {
            cpu,
            lanes: pairs.into_iter().map(lane).collect(),
            next: 0,
            phase: Phase::Look,
            began: 0,
            burst: Vec::with_capacity(512),
            out: Vec::with_capacity(512),
            idle: Idle::default(),
            bytes,
        }
    }

    /// Rings are filled.
    pub fn start(&mut self, host: &mut Host, memory: &HostMemory, model: &CostModel) {
        let Self { cpu, lanes, .. } = self;
        for Lane { driver, pool, .. } in lanes {
            driver.start(&mut Work { cpu, host, memory, pool, model });
        }
    }

    /// The next thing that it does: a look, a packet's part of the loop.
    pub fn step(&mut self, host: &mut Host, memory: &HostMemory, model: &CostModel) {
        let Self { cpu, lanes, next, phase, burst, out, bytes, began, .. } = self;
        if *phase == Phase::Look {
            *began = cpu.now();
        }
        let policy = &model.policy;
        let lane = &mut lanes[*next];
        if *phase == Phase::Look && lane.drains(policy) <= cpu.time() {
            lane.drained = cpu.time();
            lane.packets = 0;
            out.append(&mut lane.gathered);
            let w = &mut Work { cpu, host, memory, pool: &mut lane.pool, model };
            lane.driver.begin_transmit(w);
            *phase = Phase::Send(0, 0);
            return;
        }
        let w = &mut Work { cpu, host, memory, pool: &mut lane.pool, model };
        let driver = &mut lane.driver;
        match *phase {
            Phase::Look if policy.program == Mode::Send => {
                driver.begin_transmit(w);
                make(w, *bytes, out);
                *phase = Phase::Send(0, 0);
                if out.is_empty() {
                    w.cpu.spend(model.cycles.empty_poll);
                    self.turn_ends(true, host);
                } else {
                    w.cpu.spend(model.cycles.turn);
                }
            }
            Phase::Look => {
                driver.begin_receive(w);
                *phase = Phase::Receive(0);
            }
            Phase::Receive(taken) => {
                if taken < policy.burst.min(policy.receive_most) && driver.receive(w, burst) {
                    if taken == 0 {
                        w.cpu.spend(model.cycles.turn_by_part()[0]);
                    }
                    *phase = Phase::Receive(taken + 1);
                    return;
                }
                driver.end_receive(w, taken);
                *phase = Phase::Work(0);
                if taken == 0 {
                    w.cpu.spend(model.cycles.empty_poll);
                    self.turn_ends(true, host);
                }
            }
            Phase::Work(at) if at < burst.len() => {
                let its = packet(burst, at);
                if at == 0 {
                    w.cpu.spend(model.cycles.turn_by_part()[1]);
                    ahead(w, burst, (None, at));
                }
                its.iter().enumerate().for_each(|(k, b)| work(w, b, k == 0));
                let next = at + its.len();
                ahead(w, burst, (Some(at), next));
                *phase = Phase::Work(next);
            }
            Phase::Work(_) if policy.program == Mode::Receive => {
                burst.iter().for_each(|b| w.release(b.number));
                self.turn_ends(false, host);
            }
            Phase::Work(_) => {
                w.cpu.spend(model.cycles.turn_by_part()[2]);
                let packets = burst.iter().filter(|b| !b.more).count() as u32;
                lane.gather(cpu.time(), (burst, packets), policy, out);
                *phase = Phase::Send(0, 0);
                if !out.is_empty() {
                    let w = &mut Work { cpu, host, memory, pool: &mut lane.pool, model };
                    lane.driver.begin_transmit(w);
                }
            }
            Phase::Send(at, sent) if at < out.len() => {
                let its = packet(out, at);
                if driver.send(w, its) {
                    *phase = Phase::Send(at + its.len(), sent + 1);
                    return;
                }
                // What is in the ring is told, before the program sees that the rest is not.
                driver.end_transmit(w, sent);
                match policy.on_full {
                    OnFull::Drop => {
                        out[at..].iter().for_each(|b| w.release(b.number));
                        self.turn_ends(false, host);
                    }
                    OnFull::Wait => {
                        w.cpu.spend(model.cycles.empty_poll);
                        driver.begin_transmit(w);
                        *phase = Phase::Send(at, 0);
                    }
                }
            }
            Phase::Send(_, sent) => {
                driver.end_transmit(w, sent);
                self.turn_ends(false, host);
            }
        }
    }

    /// The turn of a queue is over; `empty`: nothing had come.
    fn turn_ends(&mut self, empty: bool, host: &Host) {
        let Self { cpu, lanes, next, phase, burst, out, idle, began, .. } = self;
        burst.clear();
        out.clear();
        *phase = Phase::Look;
        *next = (*next + 1) % lanes.len();
        if cpu.now() == *began {
            cpu.spend(1.0); // time passes in every turn
        }
        // One that posts buffers is not like the next.
        let wrote = std::mem::replace(&mut idle.written, cpu.written()) != cpu.written();
        if !empty || wrote {
            (idle.began, idle.round, idle.before, idle.turns) = (cpu.now(), 0, 0, 0);
            return;
        }
        idle.turns += 1;
        if *next == 0 {
            (idle.before, idle.round) = (idle.round, cpu.now() - idle.began);
            idle.began = cpu.now();
            idle.writes = [idle.writes[1], host.writes_applied()];
            let counted = host.memory.private_stats(cpu.index);
            idle.counted_before = std::mem::replace(&mut idle.counted, counted.since(&idle.counts));
            idle.counts.clone_from(counted);
        }
    }

    /// Whether the last two rounds took as long, did the same and found nothing, the last one with all that devices have written
    /// so far: what comes for a queue behind the look at it waits for the next round.
    fn repeats(&self, host: &Host) -> bool {
        let idle = &self.idle;
        idle.turns >= 2 * self.lanes.len()
            && idle.round != 0
            && idle.round == idle.before
            && idle.counted == idle.counted_before
            && idle.writes[0] == host.writes_applied()
    }

    /// Whether it does nothing that a device sees before something else is written: it looks, has found nothing, and no packets
    /// wait to be sent.
    #[must_use]
    pub fn finds_nothing(&self, host: &Host) -> bool {
        let looks = matches!(self.phase, Phase::Look | Phase::Receive(0));
        looks && self.repeats(host) && self.lanes.iter().all(|lane| lane.packets == 0)
    }

    /// Nothing that it looks at changes before `t`: rounds like the last two are taken at once, those that end before.
    pub fn skip_to(&mut self, t: Ps, host: &mut Host, policy: &Policy) {
        if self.next != 0 || self.phase != Phase::Look || !self.repeats(host) {
            return;
        }
        let Self { cpu, lanes, idle, .. } = self;
        let drains = lanes.iter().map(|lane| lane.drains(policy)).min().unwrap_or(Ps::MAX);
        let count = cpu.rounds_before(t.min(drains), idle.round);
        if count > 0 {
            cpu.repeat(idle.round, count);
            idle.began = cpu.now();
            host.memory.repeat(cpu.index, &idle.counted.times(count), [0; 2]);
            idle.counts.clone_from(host.memory.private_stats(cpu.index));
            // What only sends looks at no receive ring.
            if policy.program != Mode::Send {
                lanes.iter().for_each(|lane| lane.driver.polled_again(cpu, host, count));
            }
        }
    }
}

/// A burst of packets that the program makes, as far as there are buffers. One costs what one received does.
fn make(w: &mut Work<'_>, bytes: u32, out: &mut Vec<Buffer>) {
    for _ in 0..w.model.policy.burst {
        let from = out.len();
        let mut rest = bytes;
        while rest > 0 {
            let Some(number) = w.pool.take() else {
                // Not enough for the whole of it.
                out.drain(from..).for_each(|b| w.pool.give(b.number));
                return;
            };
            let length = rest.min(w.model.policy.buffer);
            rest -= length;
            out.push(Buffer { number, length, more: rest > 0 });
        }
        let further = (out.len() - from - 1) as f64;
        w.cpu.spend(w.model.cycles.receive + w.model.cycles.work + further * w.model.cycles.segment);
        w.write_record(out[from].number, w.model.touches.received_lines);
        w.cpu.store(w.host, w.pool.data(out[from].number));
    }
}

/// A program that prefetches looks at its packets in groups: as it comes to one, whose first is at `at`, it prefetches first
/// lines of the next. `before`: where the packet before that one begins.
fn ahead(w: &mut Work<'_>, burst: &[Buffer], (before, at): (Option<usize>, usize)) {
    let group = w.model.touches.prefetch_ahead as usize;
    if group == 0 || w.model.prefetches_received() || before.is_some_and(|b| b / group == at / group) {
        return;
    }
    let from = if before.is_some() { at / group + 1 } else { 0 } * group;
    for b in burst.iter().take((at / group + 2) * group).skip(from) {
        w.cpu.prefetch(w.host, w.pool.data(b.number));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Arena;
    use wiretime_hw::params::Interface;

    fn model(gather: u32, straight: u32) -> CostModel {
        let mut m: CostModel =
            toml::from_str(include_str!("../../../models/testpmd-qdma.toml")).expect("a model that is shipped");
        (m.policy.gather, m.policy.straight) = (gather, straight);
        m
    }

    fn lane(m: &CostModel) -> Lane {
        let arena = Arena { rings: 0, buffers: 8 << 20 };
        let driver = Driver::new(Interface::Qdma, 0, 0, arena, m).unwrap();
        Lane { driver, pool: Pool::new(0, 1, 2048), gathered: Vec::new(), packets: 0, drained: Ps::ZERO }
    }

    fn burst(packets: u32) -> Vec<Buffer> {
        (0..packets).flat_map(|number| [true, false].map(|more| Buffer { number, length: 64, more })).collect()
    }

    /// Packets of two buffers each: how many are sent after each burst.
    fn sent(m: &CostModel, bursts: &[u32]) -> Vec<usize> {
        let mut lane = lane(m);
        let one = |&n: &u32| {
            let mut out = Vec::new();
            lane.gather(Ps::ZERO, (&mut burst(n), n), &m.policy, &mut out);
            assert!(out.last().is_none_or(|b| !b.more), "whole packets");
            out.len() / 2
        };
        bursts.iter().map(one).collect()
    }

    #[test]
    fn packets_wait_for_others() {
        assert_eq!(sent(&model(0, 0), &[3, 32]), [3, 32], "a program that gathers none");
        assert_eq!(sent(&model(32, 16), &[16, 15, 16, 1, 20]), [16, 0, 0, 32, 20]);
        assert_eq!(sent(&model(8, 100), &[20, 3, 1]), [16, 0, 8], "as many as there are whole groups of");
    }

    #[test]
    fn what_waits_is_sent_in_time() {
        let mut m = model(32, 16);
        m.policy.drain = "100us".parse().expect("a time");
        let mut lane = lane(&m);
        assert_eq!(lane.drains(&m.policy), Ps::MAX);
        lane.gather(Ps::from_us(250), (&mut burst(1), 1), &m.policy, &mut Vec::new());
        assert_eq!(lane.drains(&m.policy), Ps::from_us(300), "at the end of a period");
    }
}
