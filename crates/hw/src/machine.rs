//! A whole machine: cores, memory, cards in their slots with ports and wires, and the books. It is built from a platform; what
//! drives it, and where instructions come from, is somebody else's.
//!
//! Whoever drives it lets cores execute blocks, lets devices advance to where cores stand, and applies what devices have
//! written by then: [`Machine::execute`], [`Machine::advance`], [`Machine::apply_writes`], [`Machine::reached`]. The machine
//! hands doorbells and polls on, in between.

mod repeat;
mod visible;

pub use repeat::{Stand, Turn};

use crate::core::{BlockRef, Core, MemEvent, MemKind, Walker};
use crate::memory::{GuestMemory, MemorySystem};
use crate::nic::{
    identity, shared_pages, Books, DevicePages, DmaEngine, Lateness, Nic, Place, Polled, PortStats, Store,
};
use crate::params::{Platform, PortOf};
use crate::pci::{Bar, ConfigSpace};
use crate::requester::{Purpose, Side};
use std::cell::{RefCell, RefMut};
use std::ops::{DerefMut, Range};
use wiretime_base::Ps;

/// A port of a card as a PCI function with its guest memory.
pub struct Slot<G> {
    /// Its configuration space.
    pub config: ConfigSpace,
    /// The device, its I/O path and its wire.
    pub nic: Box<dyn Nic<G> + Send>,
    /// The card that it is a port of.
    pub card: usize,
    shared: DevicePages,
    /// Memory as it sees it.
    pub guest: G,
    /// Doorbells that came as trapped accesses.
    pub trapped_doorbells: u64,
}

impl<G> Slot<G> {
    /// A port of a platform.
    #[must_use]
    pub fn new(p: &Platform, port: &PortOf<'_>, nic: Box<dyn Nic<G> + Send>, guest: G) -> Self {
        let interface = port.nic.interface;
        let config = ConfigSpace::new(&identity(interface, &p.slot[port.nic.slot as usize]));
        Self { config, nic, card: port.card, shared: shared_pages(interface), guest, trapped_doorbells: 0 }
    }

    /// The guest writes a BAR, trapped.
    pub fn write(&mut self, place: Place, data: &[u8]) {
        let before = self.nic.deferred().len();
        self.nic.write(place, data);
        self.trapped_doorbells += self.nic.deferred().len().saturating_sub(before) as u64;
    }

    /// Level of the interrupt pin at `t`; also shown in the status register.
    pub fn pin(&mut self, t: Ps) -> bool {
        let level = self.nic.pin(t);
        self.config.set_interrupt_status(level);
        level
    }
}

/// All NICs, and the books of their packets.
pub struct Nics<G> {
    /// Ports, by number.
    pub slots: Vec<Slot<G>>,
    /// Engines and ways to the host of the cards that they are of.
    pub cards: Vec<DmaEngine>,
    /// See [`Books`].
    pub books: Books,
}

impl<G> Nics<G> {
    /// Core `core` reads the entry at `offset` of a ring of a port that is polled, at `t`; whether another one did before.
    pub fn polls(
        &mut self,
        memory: &mut MemorySystem,
        (core, port): (usize, usize),
        ring: &Polled,
        offset: u64,
        t: Ps,
    ) -> bool {
        self.slots[port].nic.polls(core as u16, ring, offset, t, &mut self.books);
        memory.users.uses(core, port, (Side::Receive, ring.queue))
    }

    /// What core `core` has stored to a port's registers leaves its store buffer at `t`; whether it rings for a transmit queue for
    /// which another one did before.
    pub fn stores(&mut self, memory: &mut MemorySystem, (core, port): (usize, usize), store: Store, t: Ps) -> bool {
        let Slot { nic, card, .. } = &mut self.slots[port];
        let Some(queue) = nic.store(t, store, &mut self.cards[*card]) else { return false };
        self.books.bursts_end(core as u16, t);
        memory.users.uses(core, port, (Side::Transmit, queue))
    }

    /// Counters of a port; `queues` of them by queue.
    #[must_use]
    pub fn stats(&self, port: usize, queues: usize) -> PortStats {
        let slot = &self.slots[port];
        slot.nic.stats(queues, &self.cards[slot.card], &self.books)
    }
}

/// Where a machine keeps its NICs: with itself, or where somebody else reaches their registers too.
pub trait Hold {
    /// Guest memory as devices see it.
    type Memory: GuestMemory;
    /// What gives access for a while.
    type Guard<'a>: DerefMut<Target = Nics<Self::Memory>>
    where
        Self: 'a;
    /// The NICs.
    fn nics(&self) -> Self::Guard<'_>;
}

impl<G: GuestMemory> Hold for RefCell<Nics<G>> {
    type Memory = G;
    type Guard<'a>
        = RefMut<'a, Nics<G>>
    where
        G: 'a;
    fn nics(&self) -> Self::Guard<'_> {
        self.borrow_mut()
    }
}

/// Where a NIC's registers are in guest physical addresses.
#[derive(Clone, Debug, Default)]
struct Mapped {
    /// BARs by number, where they stand.
    bars: Vec<(u8, Range<u64>)>,
    /// Register pages that the guest accesses as memory, and whether each store to them counts.
    pages: Range<u64>,
    each_store: bool,
}

/// See the module.
pub struct Machine<H> {
    /// By number.
    pub cores: Vec<Core>,
    /// Caches and DRAM.
    pub memory: MemorySystem,
    /// The NICs.
    pub nics: H,
    /// How late cores saw DMA writes since the measurement has begun.
    pub lateness: Lateness,
    mapped: Vec<Mapped>,
    /// All device pages are in here, and all rings that are polled.
    pages: Range<u64>,
    span: Range<u64>,
    rings: Vec<(usize, Polled)>,
    /// Whether they have been found.
    placed: bool,
    /// When the next DMA write becomes visible, to anybody and to each core, or earlier.
    next_write: Ps,
    next_of: Vec<Ps>,
    /// DMA writes that became visible, and those in lines that a core watches.
    applied: u64,
    intrusions: u64,
    /// What has become visible just now: what for, address and length.
    seen: Vec<(Purpose, (u64, u64))>,
    /// How often what is over is forgotten: no result depends on it.
    pub forget_every: Ps,
    /// Up to where it has been.
    forgotten: Ps,
}

/// A compromise of the time that forgetting takes and longer lists take.
const FORGET_EVERY: Ps = Ps::from_us(1);

fn hull(ranges: impl Iterator<Item = Range<u64>>) -> Range<u64> {
    ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
}

/// The ring, and where in it, that a read of an address looks at; rings by address.
#[inline]
fn look(rings: &[(usize, Polled)], paddr: u64) -> Option<(usize, &Polled, u64)> {
    let at = rings.partition_point(|r| r.1.bytes.start <= paddr).checked_sub(1)?;
    let (slot, ring) = rings.get(at).filter(|r| r.1.bytes.contains(&paddr))?;
    let offset = paddr - ring.bytes.start;
    ring.is_look(offset).then_some((*slot, ring, offset))
}

impl<H: Hold> Machine<H> {
    /// A platform with so many cores.
    #[must_use]
    pub fn new(p: &Platform, cores: usize, nics: H) -> Self {
        let slots = nics.nics().slots.len();
        Self {
            cores: (0..cores).map(|i| Core::new(p, i)).collect(),
            memory: MemorySystem::new(p, cores),
            nics,
            lateness: Lateness::default(),
            mapped: vec![Mapped::default(); slots],
            pages: 0..0,
            span: 0..0,
            rings: Vec::new(),
            placed: false,
            next_write: Ps::MAX,
            next_of: vec![Ps::MAX; cores],
            applied: 0,
            intrusions: 0,
            seen: Vec::with_capacity(4096),
            forget_every: FORGET_EVERY,
            forgotten: Ps::ZERO,
        }
    }

    /// A measurement begins.
    pub fn begin_measurement(&mut self) {
        self.lateness = Lateness::default();
        let mut nics = self.nics.nics();
        nics.books.begin_measurement();
        nics.slots.iter_mut().for_each(|slot| slot.nic.begin_measurement());
    }

    /// Finds out where BARs, device pages (where the guest accesses them as memory) and rings are, as its driver has put them.
    pub fn find_places(&mut self, as_memory: bool) {
        let nics = self.nics.nics();
        for (place, slot) in self.mapped.iter_mut().zip(&nics.slots) {
            let standing =
                |bar: &Bar| slot.config.bar_address(bar.number).map(|at| (bar.number, at..at.saturating_add(bar.size)));
            let bars: Vec<_> = slot.config.bars().iter().filter_map(standing).collect();
            let shared = &slot.shared;
            if let Some(at) = bars.iter().find(|(number, _)| *number == shared.bar).map(|(_, bar)| bar.start) {
                let pages = if as_memory { at + shared.range.start..at + shared.range.end } else { 0..0 };
                *place = Mapped { bars, pages, each_store: shared.each_store };
            }
        }
        self.pages = hull(self.mapped.iter().map(|m| m.pages.clone()).filter(|r| !r.is_empty()));
        drop(nics);
        self.placed = true;
        self.find_rings();
    }

    /// Finds out where the rings are that are polled.
    fn find_rings(&mut self) {
        let nics = self.nics.nics();
        let polled = |(i, slot): (usize, &Slot<_>)| slot.nic.polled().into_iter().map(move |ring| (i, ring));
        self.rings = nics.slots.iter().enumerate().flat_map(polled).collect();
        self.rings.sort_by_key(|(_, ring)| ring.bytes.start);
        self.span = hull(self.rings.iter().map(|r| r.1.bytes.clone()));
    }

    /// Whether `paddr` is in the register pages that the guest accesses as memory.
    #[inline]
    pub fn is_device_page(&self, paddr: u64) -> bool {
        self.pages.contains(&paddr) && self.mapped.iter().any(|m| m.pages.contains(&paddr))
    }

    /// A core has just stored to a device page of a NIC: noted where each store counts.
    pub fn note_store(&self, nic: usize, store: Store) {
        if self.mapped[nic].each_store {
            self.nics.nics().slots[nic].nic.deferred().push(store);
        }
    }

    /// The NIC that an address is of, and where in its BARs.
    #[must_use]
    pub fn place(&self, paddr: u64) -> Option<(usize, Place)> {
        self.mapped.iter().enumerate().find_map(|(i, m)| {
            let (bar, range) = m.bars.iter().find(|(_, range)| range.contains(&paddr))?;
            Some((i, Place { bar: *bar, offset: paddr - range.start }))
        })
    }

    /// Core `index` executes instructions `range` of a block, with their accesses in order; `next` as in [`Core::run`].
    #[inline]
    pub fn execute(
        &mut self,
        index: usize,
        (block, range): (BlockRef<'_>, Range<u32>),
        accesses: &[MemEvent],
        next: Option<u64>,
        walker: &mut impl Walker,
        from: Ps,
    ) {
        let core = &mut self.cores[index];
        core.run(block, range.start as usize, range.end as usize, accesses, next, &mut self.memory, walker);
        self.watch_polls(index, from, accesses, range);
        if !self.cores[index].device_stores.is_empty() {
            self.ring_doorbells(index);
        }
    }

    /// What a core has executed from `t` on: tells the NICs what it read of their rings.
    #[inline]
    fn watch_polls(&mut self, index: usize, t: Ps, accesses: &[MemEvent], executed: Range<u32>) {
        for a in accesses {
            if self.span.contains(&a.paddr) && a.kind == MemKind::Load && executed.contains(&u32::from(a.index)) {
                self.polls(index, t, a.paddr);
            }
        }
    }

    fn polls(&mut self, index: usize, t: Ps, paddr: u64) {
        if let Some((slot, ring, offset)) = look(&self.rings, paddr) {
            let anew = self.nics.nics().polls(&mut self.memory, (index, slot), ring, offset, t);
            self.looks_at(index, anew);
        }
    }

    /// Core `index` reads the entry at `offset` of a ring of port `port`, at `t`.
    pub fn polls_ring(&mut self, (index, port): (usize, usize), ring: &Polled, offset: u64, t: Ps) {
        let anew = self.nics.nics().polls(&mut self.memory, (index, port), ring, offset, t);
        self.looks_at(index, anew);
    }

    /// What core `index` has stored to registers of port `port` leaves its store buffer at `t`.
    pub fn stores(&mut self, (index, port): (usize, usize), store: Store, t: Ps) {
        let anew = self.nics.nics().stores(&mut self.memory, (index, port), store, t);
        self.looks_at(index, anew);
    }

    /// Hands on what core `index` has stored to devices.
    fn ring_doorbells(&mut self, index: usize) {
        let (mut nics, mut anew) = (self.nics.nics(), false);
        let mut stores = std::mem::take(&mut self.cores[index].device_stores);
        for s in stores.drain(..) {
            let Some((i, place)) = self.place(s.paddr) else { continue };
            // A trapped write has noted its value already, and so has one of those that each count; of others it is the page's.
            let deferred = nics.slots[i].nic.deferred();
            let store = if let Some(k) = deferred.iter().position(|d| d.place == place) {
                deferred.remove(k)
            } else if self.mapped[i].pages.contains(&s.paddr) {
                Store { place, value: s.value.into() }
            } else {
                continue;
            };
            anew |= nics.stores(&mut self.memory, (index, i), store, s.time);
        }
        drop(nics);
        self.cores[index].device_stores = stores;
        self.looks_at(index, anew);
    }

    /// All cores and devices stand at `t` or later: what nobody can ask for any more is forgotten, now and then.
    #[inline]
    pub fn reached(&mut self, t: Ps) {
        if t >= self.forgotten.saturating_add(self.forget_every) {
            self.forget(t);
        }
    }

    #[cold]
    fn forget(&mut self, t: Ps) {
        self.forgotten = t;
        self.memory.reached(t);
        self.cores.iter_mut().for_each(|core| core.reached(t));
        let mut nics = self.nics.nics();
        nics.slots.iter_mut().for_each(|slot| slot.nic.reached(t));
        nics.cards.iter_mut().for_each(|card| card.reached(t));
    }

    /// Devices are simulated up to, not including, `end`. `unwatched`: no core's stores are seen; registers are looked at.
    pub fn advance(&mut self, end: Ps, unwatched: bool) {
        let mut nics = self.nics.nics();
        let Nics { slots, cards, books } = &mut *nics;
        for slot in &mut *slots {
            let engine = &mut cards[slot.card];
            if unwatched {
                slot.nic.look_at_pages(end, engine);
                for store in std::mem::take(slot.nic.deferred()) {
                    slot.nic.store(end, store, engine);
                }
            }
            slot.nic.advance(end, (&mut self.memory, &slot.guest), engine, books);
        }
        // What came back by another port may make its own send again, from now on.
        if books.has_mail() {
            for slot in &mut *slots {
                slot.nic.advance(end, (&mut self.memory, &slot.guest), &mut cards[slot.card], books);
            }
        }
        let next_write = slots.iter_mut().map(|slot| slot.nic.writes().next_time()).min().unwrap_or(Ps::MAX);
        self.next_write = next_write;
        self.next_of.fill(next_write);
        // Queues of a kernel's driver are known by their first packets.
        if books.rings_restarted() && self.placed {
            drop(nics);
            self.find_rings();
        }
    }

    /// When a device acts next.
    #[must_use]
    pub fn next_event(&self) -> Option<Ps> {
        self.nics.nics().slots.iter().filter_map(|s| s.nic.next_time()).min()
    }

    /// When a device acts next, or what it has written becomes visible.
    #[must_use]
    pub fn next_time(&self) -> Option<Ps> {
        self.next_event().into_iter().chain((self.next_write != Ps::MAX).then_some(self.next_write)).min()
    }
}
