//! A core that runs a cost model: its time, its accesses through the caches, its stores to devices.
//!
//! Work goes on behind a load that has not come for a time of the model ([`Window`]); a load that decides what happens next is
//! waited for. Stores go into the store buffer, whose entries are all that is waited for.
//!
//! Left out: fetch, translation, chains of loads that depend on each other.

use crate::cost::CostModel;
use crate::memory::HostMemory;
use crate::window::Window;
use std::cell::RefCell;
use std::collections::VecDeque;
use wiretime_base::{Clock, Cycles, Ps};
use wiretime_hw::machine::{Machine, Nics};
use wiretime_hw::nic::{Place, Polled, Store};
use wiretime_hw::params::Platform;

/// The machine as this engine has it.
pub type Host = Machine<RefCell<Nics<HostMemory>>>;

/// The time of a core and what it waits for.
pub struct Cpu {
    /// Its number.
    pub index: usize,
    clock: Clock,
    window: Window,
    /// Stores that have not left.
    stores: VecDeque<Cycles>,
    buffered: usize,
    device_write: Ps,
    /// Stores so far, to memory and to devices.
    written: u64,
}

impl Cpu {
    /// At time zero.
    #[must_use]
    pub fn new(index: usize, model: &CostModel, p: &Platform) -> Self {
        let buffered = p.core.store_queue_entries as usize;
        Self {
            index,
            clock: Clock::of(p.core.frequency),
            window: Window::new(model.touches.window),
            stores: VecDeque::with_capacity(buffered),
            buffered,
            device_write: p.io.mmio_write_latency.ps(),
            written: 0,
        }
    }

    fn cycle(&self) -> Cycles {
        self.window.cycle()
    }

    /// Its time.
    #[must_use]
    pub fn time(&self) -> Ps {
        self.clock.at(self.cycle())
    }

    /// So many cycles of work.
    pub fn spend(&mut self, cycles: f64) {
        self.window.spend(cycles);
    }

    /// Its time in fractions of a cycle.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.window.now()
    }

    /// How often so many fractions of a cycle pass before `t`.
    #[must_use]
    pub fn rounds_before(&self, t: Ps, round: u64) -> u64 {
        self.window.rounds_before(self.clock.cycle_at_or_after(t), round)
    }

    /// They pass so often.
    pub fn repeat(&mut self, round: u64, count: u64) {
        self.window.repeat(round, count);
    }

    /// A load by the instruction at `pc`; `waits`: something depends on it. Returns when it comes.
    pub fn load(&mut self, host: &mut Host, pc: u64, address: u64, waits: bool) -> Cycles {
        self.window.make_room();
        let (done, _) = host.memory.load(self.index, address, pc, self.cycle());
        if waits {
            self.window.wait_until(done);
        } else {
            self.window.begun(done);
        }
        done
    }

    /// Nothing more is done before a load comes.
    pub fn wait_for(&mut self, load: Cycles) {
        self.window.wait_until(load);
    }

    /// A software prefetch.
    pub fn prefetch(&mut self, host: &mut Host, address: u64) {
        host.memory.prefetch(self.index, address, self.cycle());
    }

    /// A store.
    pub fn store(&mut self, host: &mut Host, address: u64) {
        self.written += 1;
        if self.stores.len() >= self.buffered {
            if let Some(first) = self.stores.pop_front() {
                self.window.wait_until(first);
            }
        }
        let (done, _) = host.memory.store(self.index, address, 0, self.cycle());
        self.stores.push_back(done);
    }

    /// How often it has stored anything.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// What has been loaded decides what happens next: all of it is waited for.
    pub fn settle(&mut self) {
        self.window.settle();
    }

    /// When all that has begun has come or left.
    fn all_older(&self) -> Cycles {
        let under_way = self.window.last().into_iter().chain(self.stores.iter().copied());
        under_way.fold(self.cycle(), Cycles::max)
    }

    /// A store to a device: it leaves when all that is older has, loads that have not come among it. Work goes on behind it.
    pub fn doorbell(&mut self, host: &mut Host, port: usize, offset: u64, value: impl Into<u64>) {
        self.written += 1;
        let t = self.clock.at(self.all_older()) + self.device_write;
        let store = Store { place: Place { bar: 0, offset }, value: value.into() };
        host.stores((self.index, port), store, t);
    }

    /// It looks at entry `entry` of a ring that tells of packets, at `t`.
    pub fn polls(&self, host: &mut Host, port: usize, ring: &Polled, entry: u32, t: Ps) {
        let offset = u64::from(entry) * u64::from(ring.entry);
        host.polls_ring((self.index, port), ring, offset, t);
    }

    /// It has looked at the same entry so many times more.
    pub fn polled_again(&self, host: &Host, port: usize, ring: &Polled, entry: u32, count: u64) {
        let mut nics = host.nics.borrow_mut();
        let entry = ring.entry_at(u64::from(entry) * u64::from(ring.entry));
        nics.books.polled_again(port, entry, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What goes to a device leaves after loads that have not come, and after stores, however much work is done behind them.
    #[test]
    fn a_doorbell_waits_for_what_is_older() {
        let p: Platform = toml::from_str(include_str!("../../../platforms/ampere-altra.toml")).expect("ours");
        let model: CostModel = toml::from_str(include_str!("../../../models/testpmd-82599.toml")).expect("ours");
        let mut cpu = Cpu::new(1, &model, &p);
        cpu.spend(20.0);
        assert_eq!(cpu.all_older(), Cycles(20));
        cpu.window.begun(Cycles(300));
        cpu.spend(10.0);
        assert_eq!((cpu.cycle(), cpu.all_older()), (Cycles(30), Cycles(300)));
        cpu.stores.push_back(Cycles(310));
        assert_eq!(cpu.all_older(), Cycles(310));
        cpu.spend(400.0);
        assert!(cpu.all_older() == cpu.cycle() && cpu.cycle() > Cycles(310));
    }
}
