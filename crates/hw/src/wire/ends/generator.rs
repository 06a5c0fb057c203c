//! Packets made to measure: sizes and flows are drawn, and they leave by an arrival process, or when a client has thought
//! enough.

use super::super::arrivals::{Arrivals, Departures};
use super::super::cable::{FLOWS_SEED, SIZES_SEED};
use super::super::clients::{Clients, ClosedLoop};
use super::super::flows::{Flows, Picker};
use super::super::frames::Kind;
use super::super::load::Load;
use super::super::sizes::{Lengths, Sizes};
use super::{Draft, End};
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
    /// As a load says, on a line of `line`.
    pub fn new(load: &Load, line: BitRate) -> Self {
        let rate = (load.rate, load.mean_length());
        Self { arrivals: load.arrivals, clients: load.clients, rate, line, seed: load.seed }
    }

    /// Whether the rate decides.
    pub fn is_open(&self) -> bool {
        self.clients.is_none()
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

    /// Whose turn it is, and when.
    #[inline]
    pub fn turn(&mut self, draft: &mut Draft) -> Option<Ps> {
        let Self::Closed(clients) = self else { return None };
        let (t, client) = clients.next();
        draft.packet.flow = client;
        Some(t)
    }

    /// Packet `id` has left at `t`.
    #[inline]
    pub fn sent(&mut self, id: u64, t: Ps) {
        if let Self::Closed(clients) = self {
            clients.sent(id, t);
        }
    }

    /// See [`End::answered`].
    #[inline]
    pub fn answered(&mut self, id: u64, t: Ps) -> bool {
        let Self::Closed(clients) = self else { return false };
        clients.answered(id, t)
    }

    /// See [`End::endless`].
    pub fn endless(&self) -> bool {
        matches!(self, Self::Closed(_))
    }

    /// See [`End::given_up`].
    pub fn given_up(&self) -> u64 {
        if let Self::Closed(clients) = self {
            clients.given_up
        } else {
            0
        }
    }
}

/// See the module.
pub struct Generator {
    sizes: Sizes,
    flows: Flows,
    seed: u64,
    lengths: Lengths,
    picker: Picker,
    pacing: Pacing,
    pace: Pace,
}

impl Generator {
    /// As the load says, on a line of `line`.
    ///
    /// # Errors
    /// Where there are too many flows.
    pub fn new(load: &Load, line: BitRate) -> Result<Self, String> {
        Ok(Self {
            lengths: Lengths::new(&load.sizes, load.seed ^ SIZES_SEED),
            picker: Picker::new(&load.flows, load.seed ^ FLOWS_SEED)?,
            sizes: load.sizes.clone(),
            flows: load.flows,
            seed: load.seed,
            pacing: Pacing::new(load, line),
            pace: Pace::Waits,
        })
    }
}

impl End for Generator {
    fn start(&mut self, t: Ps) {
        self.lengths = Lengths::new(&self.sizes, self.seed ^ SIZES_SEED);
        if let Ok(picker) = Picker::new(&self.flows, self.seed ^ FLOWS_SEED) {
            self.picker = picker;
        }
        self.pace = self.pacing.start(t);
    }
    fn draw(&mut self, draft: &mut Draft) -> Option<Ps> {
        let packet = &mut draft.packet;
        (packet.kind, packet.length, packet.flow) = (Kind::Built, self.lengths.next(), self.picker.next());
        self.pace.next(packet.length)
    }
    fn turn(&mut self, draft: &mut Draft) -> Option<Ps> {
        self.pace.turn(draft)
    }
    fn sent(&mut self, draft: &Draft, t: Ps) {
        self.pace.sent(draft.packet.id, t);
    }
    fn answered(&mut self, id: u64, t: Ps) -> bool {
        self.pace.answered(id, t)
    }
    fn endless(&self) -> bool {
        self.pace.endless()
    }
    fn paced(&self) -> bool {
        self.pacing.is_open()
    }
    fn given_up(&self) -> u64 {
        self.pace.given_up()
    }
}
