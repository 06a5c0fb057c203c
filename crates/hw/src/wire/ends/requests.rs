//! Clients of a key-value store: they set all keys, then ask, by an arrival process or when they have thought enough.

use super::super::cable::FLOWS_SEED;
use super::super::flows::{Flows, Picker};
use super::super::key_value::{StoreClients, StoreLoad, StoreStats};
use super::super::load::{Load, NOMINAL};
use super::generator::{Pace, Pacing};
use super::{Draft, End};
use wiretime_base::{BitRate, Ps};

/// See the module.
pub struct Requests {
    clients: StoreClients,
    destination: [u8; 6],
    flows: Flows,
    seed: u64,
    picker: Picker,
    pacing: Pacing,
    pace: Pace,
}

impl Requests {
    /// As the load says, on a line of `line`, to `destination`.
    ///
    /// # Errors
    /// Where it cannot be.
    pub fn new(spec: &StoreLoad, load: &Load, line: BitRate, destination: [u8; 6]) -> Result<Self, String> {
        Ok(Self {
            clients: StoreClients::new(spec, load.seed)?,
            destination,
            flows: load.flows,
            seed: load.seed,
            picker: Picker::new(&load.flows, load.seed ^ FLOWS_SEED)?,
            pacing: Pacing::new(load, line),
            pace: Pace::Waits,
        })
    }

    /// What is in the store stays there, where the same clients go on.
    pub fn inherit(&mut self, old: Self) {
        if old.clients.spec() == self.clients.spec() {
            self.clients = old.clients;
        }
    }

    fn make(&mut self, draft: &mut Draft, flow: u32) {
        self.clients.make(draft.packet.id, flow, self.destination, &mut draft.bytes);
        draft.as_it_is(flow);
    }
}

impl End for Requests {
    fn start(&mut self, t: Ps) {
        if let Ok(picker) = Picker::new(&self.flows, self.seed ^ FLOWS_SEED) {
            self.picker = picker;
        }
        self.pace = self.pacing.start(t);
        self.clients.restart();
    }
    fn draw(&mut self, draft: &mut Draft) -> Option<Ps> {
        let flow = self.picker.next();
        self.make(draft, flow);
        self.pace.next(NOMINAL)
    }
    fn turn(&mut self, draft: &mut Draft) -> Option<Ps> {
        let t = self.pace.turn(draft)?;
        self.clients.give_to(draft.packet.flow, &mut draft.bytes);
        Some(t)
    }
    fn knock(&mut self, draft: &mut Draft) {
        let flow = draft.packet.flow;
        self.make(draft, flow);
    }
    fn sent(&mut self, draft: &Draft, t: Ps) {
        self.clients.sent(&draft.bytes, t);
        self.pace.sent(draft.packet.id, t);
    }
    fn heard(&mut self, frame: &[u8], t: Ps) -> bool {
        self.clients.heard(frame, t);
        false
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
    fn store_stats(&self) -> Option<StoreStats> {
        Some(self.clients.stats)
    }
}
