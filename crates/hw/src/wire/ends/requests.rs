//! Clients of a key-value store: they set all keys, then ask.

use super::super::cable::FLOWS_SEED;
use super::super::flows::{Flows, Picker};
use super::super::key_value::{StoreClients, StoreLoad, StoreStats};
use super::super::load::{Load, NOMINAL};
use super::{Draft, End, Wish};
use wiretime_base::{Invalid, Ps};

/// See the module.
pub struct Requests {
    clients: StoreClients,
    destination: [u8; 6],
    flows: Flows,
    seed: u64,
    picker: Picker,
}

impl Requests {
    /// As the load says, to `destination`.
    ///
    /// # Errors
    /// Where it cannot be.
    pub fn new(spec: &StoreLoad, load: &Load, destination: [u8; 6]) -> Result<Self, Invalid> {
        Ok(Self {
            clients: StoreClients::new(spec, load.seed, load.flows.vary)?,
            destination,
            flows: load.flows,
            seed: load.seed,
            picker: Picker::new(&load.flows, load.seed ^ FLOWS_SEED)?,
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
    fn start(&mut self, _: Ps) {
        if let Ok(picker) = Picker::new(&self.flows, self.seed ^ FLOWS_SEED) {
            self.picker = picker;
        }
        self.clients.restart();
    }
    fn draw(&mut self, draft: &mut Draft) -> Option<Wish> {
        let flow = self.picker.next();
        self.make(draft, flow);
        Some(Wish::Paced(NOMINAL))
    }
    fn given_to(&mut self, draft: &mut Draft) {
        self.clients.give_to(draft.packet.flow, &mut draft.bytes);
    }
    fn knock(&mut self, draft: &mut Draft) {
        let flow = draft.packet.flow;
        self.make(draft, flow);
    }
    fn sent(&mut self, draft: &Draft, t: Ps) {
        self.clients.sent(&draft.bytes, t);
    }
    fn heard(&mut self, frame: &[u8], t: Ps) -> bool {
        self.clients.heard(frame, t);
        false
    }
    fn store_stats(&self) -> Option<StoreStats> {
        Some(self.clients.stats)
    }
}
