//! Closed loop: clients that send a request, wait for its answer, think, and send the next one.
//!
//! Each client has one request under way. One whose answer does not come in time is given up, and the client goes on with the
//! next at once. Clients start spread over one think time.

use super::arrivals::exponential;
use rand_pcg::rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wiretime_base::{Duration, Ps};

/// Most clients of a generator.
pub const CLIENTS_MAX: u32 = 1 << 20;

/// Clients of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClosedLoop {
    /// How many.
    pub clients: u32,
    /// From an answer's last bit to the next request.
    pub think: Duration,
    /// Think times are exponentially distributed, with that mean.
    pub exponential: bool,
    /// From a request to giving it up.
    pub timeout: Duration,
}

/// No request.
const NONE: u64 = u64::MAX;

/// Clients at work.
#[derive(Debug)]
pub struct Clients {
    spec: ClosedLoop,
    /// What happens next: when, to which client, and which request is given up then (or none: the client is ready).
    agenda: BinaryHeap<Reverse<(Ps, u32, u64)>>,
    /// The request that each client waits for, and until when.
    waiting: Vec<(u64, Ps)>,
    owners: FxHashMap<u64, u32>,
    random: Pcg64,
    /// Requests given up.
    pub given_up: u64,
}

impl Clients {
    /// Clients that begin at `start`.
    pub fn new(spec: &ClosedLoop, start: Ps, seed: u64) -> Self {
        let n = spec.clients.clamp(1, CLIENTS_MAX);
        let mut random = Pcg64::seed_from_u64(seed);
        let spread = |r: u64| Ps(((u128::from(r) * u128::from(spec.think.ps().0)) >> 64) as u64);
        let agenda = (0..n).map(|c| Reverse((start.saturating_add(spread(random.next_u64())), c, NONE))).collect();
        let mut owners = FxHashMap::default();
        owners.reserve(2 * n as usize);
        Self { spec: *spec, agenda, waiting: vec![(NONE, Ps::ZERO); n as usize], owners, random, given_up: 0 }
    }

    /// Who sends next, and when, unless an answer comes before.
    pub fn next(&mut self) -> (Ps, u32) {
        while let Some(&Reverse((t, client, request))) = self.agenda.peek() {
            if request == NONE || self.waiting[client as usize].0 == request {
                return (t, client);
            }
            self.agenda.pop(); // answered meanwhile
        }
        (Ps::MAX, 0)
    }

    /// That client sends packet `id` at `t`.
    pub fn sent(&mut self, id: u64, t: Ps) {
        let Some(Reverse((_, client, request))) = self.agenda.pop() else { return };
        if request != NONE {
            self.given_up += 1;
            self.owners.remove(&request);
        }
        let deadline = t.saturating_add(self.spec.timeout.ps().max(Ps(1)));
        self.waiting[client as usize] = (id, deadline);
        self.owners.insert(id, client);
        self.agenda.push(Reverse((deadline, client, id)));
    }

    /// The answer to packet `id` is here at `t`; whether anybody waited for it.
    pub fn answered(&mut self, id: u64, t: Ps) -> bool {
        let Some(&client) = self.owners.get(&id) else { return false };
        if t >= self.waiting[client as usize].1 {
            return false; // the next request has left
        }
        self.owners.remove(&id);
        self.waiting[client as usize] = (NONE, Ps::ZERO);
        let think = self.spec.think.ps();
        let think = if self.spec.exponential { exponential(&mut self.random, think.as_f64()) } else { think };
        self.agenda.push(Reverse((t.saturating_add(think), client, NONE)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(clients: u32, think: &str, exponential: bool) -> ClosedLoop {
        ClosedLoop { clients, think: think.parse().unwrap(), exponential, timeout: "10us".parse().unwrap() }
    }

    /// Answers after a fixed time: each client has a cycle of service and think time.
    #[test]
    fn throughput_follows_littles_law() {
        for exponential in [false, true] {
            let mut c = Clients::new(&spec(8, "3us", exponential), Ps::ZERO, 1);
            let mut answers: BinaryHeap<Reverse<(Ps, u64)>> = BinaryHeap::new();
            let (mut id, end) = (0, 20_000_000_000);
            loop {
                let (t, _) = c.next();
                if let Some(&Reverse((at, answered))) = answers.peek().filter(|a| a.0 .0 <= t) {
                    answers.pop();
                    assert!(c.answered(answered, at));
                    continue;
                }
                if t >= Ps(end) {
                    break;
                }
                c.sent(id, t);
                answers.push(Reverse((t + Ps::from_us(1), id)));
                id += 1;
            }
            // 8 clients, 4 us a cycle, 20 ms.
            assert!((id as f64 / 40_000.0 - 1.0).abs() < 0.01, "{id} requests");
            assert_eq!(c.given_up, 0);
        }
    }

    #[test]
    fn a_lost_request_is_given_up() {
        let mut c = Clients::new(&spec(1, "0ns", false), Ps(500), 1);
        assert_eq!(c.next(), (Ps(500), 0));
        c.sent(7, Ps(500));
        assert_eq!(c.next(), (Ps(10_000_500), 0), "its time-out");
        c.sent(8, Ps(10_000_500));
        assert_eq!(c.given_up, 1);
        assert!(!c.answered(7, Ps(10_000_600)), "too late");
        assert!(c.answered(8, Ps(10_000_700)));
        assert_eq!(c.next(), (Ps(10_000_700), 0));
        c.sent(9, Ps(10_000_700));
        assert_eq!(c.next(), (Ps(20_000_700), 0), "the answered request's time-out is void");
    }
}
