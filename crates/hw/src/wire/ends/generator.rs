//! Packets made to measure: sizes and flows are drawn.

use super::super::cable::{FLOWS_SEED, SIZES_SEED};
use super::super::flows::{Flows, Picker};
use super::super::frames::Kind;
use super::super::load::Load;
use super::super::sizes::{Lengths, Sizes};
use super::{Draft, End, Wish};
use wiretime_base::{Invalid, Ps};

/// See the module.
pub struct Generator {
    sizes: Sizes,
    flows: Flows,
    seed: u64,
    lengths: Lengths,
    picker: Picker,
}

impl Generator {
    /// As the load says.
    ///
    /// # Errors
    /// Where there are too many flows.
    pub fn new(load: &Load) -> Result<Self, Invalid> {
        Ok(Self {
            lengths: Lengths::new(&load.sizes, load.seed ^ SIZES_SEED),
            picker: Picker::new(&load.flows, load.seed ^ FLOWS_SEED)?,
            sizes: load.sizes.clone(),
            flows: load.flows,
            seed: load.seed,
        })
    }
}

impl End for Generator {
    fn start(&mut self, _: Ps) {
        self.lengths = Lengths::new(&self.sizes, self.seed ^ SIZES_SEED);
        if let Ok(picker) = Picker::new(&self.flows, self.seed ^ FLOWS_SEED) {
            self.picker = picker;
        }
    }
    fn draw(&mut self, draft: &mut Draft) -> Option<Wish> {
        let packet = &mut draft.packet;
        (packet.kind, packet.length, packet.flow) = (Kind::Built, self.lengths.next(), self.picker.next());
        Some(Wish::Paced(packet.length))
    }
}
