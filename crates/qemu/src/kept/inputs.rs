//! What devices have been told while the guest boots: enough to bring new ones to the same state.
//!
//! Devices are simulated from what they are told and when, and from guest memory. Some only read it before the first
//! packet: then the same inputs, with the memory that the guest had at the end, make the same devices again, on whatever
//! machine. What others have read comes with the inputs (`tape`), and makes the same devices of the same machine. Either
//! takes milliseconds, since nothing runs between the inputs.

use super::tape::{DeviceMemory, Reads};
use crate::memory::SharedPages;
use crate::vfio::Nics;
use serde::{Deserialize, Serialize};
use wiretime_base::Ps;
use wiretime_hw::machine::{Hold, Machine, Slot};
use wiretime_hw::nic::{Place, SharedRegisters};

/// One of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Input {
    /// A trapped read of NIC, BAR, offset and length: it may clear what it reads.
    Read(usize, u8, u64, usize),
    /// A trapped write of NIC, BAR, offset and bytes.
    Write(usize, u8, u64, Vec<u8>),
    /// A function-level reset of a NIC.
    Reset(usize),
    /// A word of the pages of a NIC that the guest writes as memory, by its offset.
    Page(usize, u64, u32),
    /// Devices have been simulated up to here.
    Advance(Ps),
    /// What devices have written by then has become visible.
    Apply(Ps),
    /// Messages of a NIC that were there at a time have been taken.
    Messages(usize, Ps),
}

/// A list of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Inputs {
    list: Vec<Input>,
    /// What each NIC has read of memory, where that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reads: Option<Vec<Reads>>,
    /// A device has acted in what was simulated last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    acted: bool,
    /// What the pages hold, as last seen.
    #[serde(skip)]
    pages: Vec<Vec<u32>>,
}

fn words(pages: &SharedPages) -> impl Iterator<Item = u64> + '_ {
    pages.place.range.clone().step_by(4)
}

impl Inputs {
    /// Adds one.
    pub fn add(&mut self, input: Input) {
        self.list.push(input);
    }

    /// Devices are simulated up to `to`; whether one acts.
    pub fn advance(&mut self, to: Ps, acts: bool) {
        // What is simulated after a look at pages that found nothing new is simulated at once with what follows.
        match self.list.as_mut_slice() {
            [.., Input::Advance(_), Input::Advance(last)] if !acts && !self.acted => *last = to,
            _ => self.list.push(Input::Advance(to)),
        }
        self.acted = acts;
    }

    /// Whether they are enough for every machine: nothing depends on what was read.
    pub fn quiet(&self) -> bool {
        self.reads.is_none()
    }

    /// Whether devices have only stood there: power-on has reset them, and no driver has spoken to them.
    pub fn untouched(&self) -> bool {
        let stands = |input: &Input| matches!(input, Input::Reset(_) | Input::Advance(_) | Input::Apply(_));
        self.quiet() && self.list.iter().all(stands)
    }

    /// With what each NIC has read of memory.
    pub fn with(self, reads: Vec<Reads>) -> Self {
        Self { reads: Some(reads), ..self }
    }

    /// What the guest has written to the pages of NIC `nic` since they were last looked at.
    pub fn look_at(&mut self, nic: usize, pages: &SharedPages) {
        if pages.place.each_store {
            return; // they trap
        }
        if self.pages.len() <= nic {
            self.pages.resize_with(nic + 1, Vec::new);
        }
        let seen = &mut self.pages[nic];
        seen.resize(words(pages).count(), 0);
        for (old, offset) in seen.iter_mut().zip(words(pages)) {
            let new = pages.load(offset);
            if new != *old {
                *old = new;
                self.list.push(Input::Page(nic, offset, new));
            }
        }
    }

    /// Tells the devices of a new machine all of it; false where they have read anything else than those before them.
    pub fn replay(&self, machine: &mut Machine<Nics>) -> bool {
        for (slot, reads) in machine.nics.nics().slots.iter_mut().zip(self.reads.iter().flatten()) {
            slot.guest.play(reads.clone());
        }
        for input in &self.list {
            let slot = |nic: usize, act: &mut dyn FnMut(&mut Slot<DeviceMemory>)| {
                machine.nics.nics().slots.get_mut(nic).map(act);
            };
            match input {
                Input::Read(nic, bar, offset, length) => {
                    let mut data = vec![0; *length];
                    slot(*nic, &mut |s| s.nic.read(Place { bar: *bar, offset: *offset }, &mut data));
                }
                Input::Write(nic, bar, offset, data) => {
                    slot(*nic, &mut |s| s.write(Place { bar: *bar, offset: *offset }, data));
                }
                Input::Reset(nic) => slot(*nic, &mut |s| s.nic.reset()),
                Input::Page(nic, offset, value) => machine.nics.pages(*nic).store(*offset, *value),
                Input::Advance(t) => {
                    machine.advance(*t, true);
                    machine.reached(*t);
                }
                Input::Apply(t) => machine.apply_writes(*t),
                Input::Messages(nic, t) => slot(*nic, &mut |s| while s.nic.take_message(*t).is_some() {}),
            }
        }
        let mut nics = machine.nics.nics();
        let mut right = true;
        for slot in &mut nics.slots {
            right &= slot.guest.played();
            // A far end that is outside has not been there.
            drop(slot.nic.cable_mut().to_far());
        }
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiretime_hw::nic::DevicePages;

    #[test]
    fn what_is_simulated_without_anything_new_is_one() {
        let mut inputs = Inputs::default();
        for (t, acts) in [(10, false), (20, false), (30, false), (40, false), (50, true), (60, false), (70, false)] {
            inputs.advance(Ps(t), acts);
        }
        inputs.add(Input::Reset(0));
        inputs.advance(Ps(80), false);
        let text = serde_json::to_string(&inputs).expect("plain words");
        // The first comes when it came: doorbells that are found in pages count from then. So does one in which devices act,
        // since cores may see it before the next.
        let expected = [
            r#"{"list":[{"Advance":10},{"Advance":40},{"Advance":50},{"Advance":70}"#,
            r#",{"Reset":0},{"Advance":80}]}"#,
        ];
        assert_eq!(text, expected.concat());
    }

    #[test]
    fn whoever_is_told_anything_but_power_on_is_touched() {
        let mut inputs = Inputs::default();
        inputs.add(Input::Reset(0));
        inputs.advance(Ps(10), true);
        assert!(inputs.untouched());
        let acted = serde_json::from_str::<Inputs>(&serde_json::to_string(&inputs).expect("plain words"));
        assert!(acted.expect("what it was").acted, "it goes on as if it had not been kept");
        for input in [Input::Read(0, 0, 8, 4), Input::Write(0, 0, 8, vec![1]), Input::Page(0, 0, 1)] {
            let mut told = inputs.clone();
            told.add(input);
            assert!(!told.untouched());
        }
        assert!(!inputs.with(Vec::new()).untouched(), "devices have read memory, and written");
    }

    #[test]
    fn words_of_pages_are_noted_when_they_change_and_once() {
        let pages = SharedPages::new(DevicePages::of_words(0, 0x2000..0x4000)).expect("memory");
        let mut inputs = Inputs::default();
        inputs.look_at(1, &pages);
        pages.store(0x3818, 7);
        inputs.look_at(1, &pages);
        inputs.look_at(1, &pages);
        assert_eq!(serde_json::to_string(&inputs).expect("plain words"), r#"{"list":[{"Page":[1,14360,7]}]}"#);
    }
}
