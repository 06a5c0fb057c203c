//! When packets of a load leave: by an arrival process, or when a client has thought enough.

use super::arrivals::{Arrivals, Departures};
use super::clients::{Clients, ClosedLoop};
use super::load::Load;
use wiretime_base::{BitRate, Ps};

/// Who decides when packets leave.
#[derive(Debug)]
pub enum Pace {
    /// Nobody yet.
    Waits,
    /// The rate.
    Open(Departures),
    /// Clients, at every answer.
    Closed(Clients),
}

/// What a pace is made of, at every start of the load.
#[derive(Clone, Debug)]
pub struct Pacing {
    arrivals: Arrivals,
    clients: Option<ClosedLoop>,
    rate: (BitRate, f64),
    line: BitRate,
    seed: u64,
}

impl Pacing {
    /// As a load says, on a line that carries frames at `line`, gaps left out.
    pub fn new(load: &Load, line: BitRate) -> Self {
        let rate = (load.rate, load.mean_length());
        Self { arrivals: load.arrivals, clients: load.clients, rate, line, seed: load.seed }
    }

    /// From `t` on.
    pub fn start(&self, t: Ps) -> Pace {
        match &self.clients {
            Some(spec) => Pace::Closed(Clients::new(spec, t, self.seed)),
            None => Pace::Open(Departures::new(self.arrivals, self.rate, self.line, t, self.seed)),
        }
    }
}

impl Pace {
    /// When a packet that counts as `length` bytes wants to leave, where that is known before its turn.
    #[inline]
    pub fn next(&mut self, length: u32) -> Option<Ps> {
        match self {
            Self::Open(departures) => Some(departures.next(length)),
            Self::Waits | Self::Closed(_) => None,
        }
    }

    /// When which client sends next, where clients decide.
    #[inline]
    pub fn turn(&mut self) -> Option<(Ps, u32)> {
        let Self::Closed(clients) = self else { return None };
        Some(clients.next())
    }

    /// Packet `id` has left at `t`.
    #[inline]
    pub fn sent(&mut self, id: u64, t: Ps) {
        if let Self::Closed(clients) = self {
            clients.sent(id, t);
        }
    }

    /// The answer to packet `id` is here at `t`; whether somebody waited for it.
    #[inline]
    pub fn answered(&mut self, id: u64, t: Ps) -> bool {
        let Self::Closed(clients) = self else { return false };
        clients.answered(id, t)
    }

    /// Whether packets may come though none waits.
    pub fn endless(&self) -> bool {
        matches!(self, Self::Closed(_))
    }

    /// Requests that clients gave up.
    pub fn given_up(&self) -> u64 {
        if let Self::Closed(clients) = self {
            clients.given_up
        } else {
            0
        }
    }
}
