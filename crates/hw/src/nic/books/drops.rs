//! Why a packet was refused: the drop classes.
//!
//! Three bits at the refusal decide: RX FIFO full, RX ring full (no descriptors left), TX ring full (of the queue that the
//! packets of this queue are sent on). An episode that one cause started keeps that cause until the FIFO has drained:
//! while packets pile up behind a slow core, the FIFO is sometimes full although a few descriptors have just come. Under
//! lasting overload the FIFO never drains; then another cause takes over once it alone has held for a whole ring of
//! refusals, so that how a run began does not name all its drops. Each queue that stands in the way has episodes of its own,
//! and packets that are dropped alone, for want of a descriptor of their queue, are apart from those that find the FIFO full:
//! a queue whose core is slow does not name what the link loses.
//!
//! [`Gem5`] is the state machine of the study that `platforms/gem5-n1-*` reproduce, for comparison: it samples the bits
//! at each refusal, and what counts depends on the bits at the refusal before.

use crate::nic::notice::Refusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A class of drops at the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropClass {
    /// The DMA engine, or the memory behind it, is too slow.
    Dma,
    /// The core is too slow.
    Core,
    /// The transmit ring is full, which stalls the core.
    Tx,
}

/// Who decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DropClasses {
    /// Episodes, as above.
    #[default]
    Wiretime,
    /// The published state machine.
    Gem5,
}

/// What is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The RX FIFO has no room for the packet.
    pub fifo: bool,
    /// The queue has no receive descriptors.
    pub rx_ring: bool,
    /// The transmit ring that its packets go to takes no more.
    pub tx_ring: bool,
}

/// States of three bits.
pub const STATES: usize = 8;

impl State {
    fn index(self) -> usize {
        usize::from(self.fifo) | usize::from(self.rx_ring) << 1 | usize::from(self.tx_ring) << 2
    }

    /// The names of what is full, by index: `fifo+rx`.
    #[must_use]
    pub fn name(index: usize) -> String {
        let set = ["fifo", "rx", "tx"].into_iter().enumerate().filter(|(bit, _)| index >> bit & 1 != 0);
        let names: Vec<&str> = set.map(|(_, name)| name).collect();
        if names.is_empty() {
            "none".into()
        } else {
            names.join("+")
        }
    }
}

/// The published state machine (`gem5_dpdk_setup.md`, "Their drop classes").
#[derive(Debug, Default)]
struct Gem5 {
    last: State,
}

impl Gem5 {
    fn refuse(&mut self, now: State) -> DropClass {
        let last = std::mem::replace(&mut self.last, now);
        if last.rx_ring {
            return if last.tx_ring && now.rx_ring && now.tx_ring { DropClass::Tx } else { DropClass::Core };
        }
        match (now.rx_ring, now.tx_ring) {
            (true, true) => DropClass::Tx,
            (true, false) => DropClass::Core,
            (false, _) => DropClass::Dma,
        }
    }
}

/// What names the drops that one queue causes.
#[derive(Clone, Copy, Debug, Default)]
struct Episode {
    /// The cause that began it; another one, and for how many refusals in a row it has held.
    cause: Option<DropClass>,
    contender: Option<(DropClass, u32)>,
}

/// Decides classes and counts transitions.
#[derive(Debug)]
pub struct Drops {
    classes: DropClasses,
    gem5: Gem5,
    /// Of each queue: of packets that find the FIFO full, and of those dropped alone.
    episodes: Vec<[Episode; 2]>,
    last: State,
    /// Refusals by the state before and the state at them.
    pub transitions: [[u64; STATES]; STATES],
}

impl Drops {
    /// With this judge, for so many queues.
    #[must_use]
    pub fn new(classes: DropClasses, queues: usize) -> Self {
        Self {
            classes,
            gem5: Gem5::default(),
            episodes: vec![<[Episode; 2]>::default(); queues.max(1)],
            last: State::default(),
            transitions: [[0; STATES]; STATES],
        }
    }

    /// A packet is refused. `now` is what has held lately, `sampled` what holds at this instant; another cause takes over after
    /// as many refusals as the ring has descriptors.
    pub fn refuse(&mut self, now: State, sampled: State, why: &Refusal) -> DropClass {
        self.transitions[self.last.index()][now.index()] += 1;
        self.last = now;
        let gem5 = self.gem5.refuse(sampled);
        let holds = match (now.rx_ring, now.tx_ring) {
            (_, true) => DropClass::Tx,
            (true, false) => DropClass::Core,
            (false, false) => DropClass::Dma,
        };
        // Queues that the port does not have share the last.
        let queue = usize::from(why.culprit).min(self.episodes.len() - 1);
        let ours = self.episodes[queue][usize::from(why.stored)].of(holds, why.ring);
        match self.classes {
            DropClasses::Wiretime => ours,
            DropClasses::Gem5 => gem5,
        }
    }

    /// The FIFO has drained below its low-water mark: the episodes are over.
    pub fn drained(&mut self) {
        self.episodes.fill(Default::default());
        self.last = State::default();
    }
}

impl Episode {
    fn of(&mut self, holds: DropClass, ring: u32) -> DropClass {
        let cause = *self.cause.get_or_insert(holds);
        if holds == cause {
            self.contender = None;
            return cause;
        }
        let count = match self.contender {
            Some((class, count)) if class == holds => count + 1,
            _ => 1,
        };
        self.contender = Some((holds, count));
        if count >= ring.max(1) {
            *self = Episode { cause: Some(holds), contender: None };
            return holds;
        }
        cause
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DropClass::{Core, Dma, Tx};

    const F: State = State { fifo: true, rx_ring: false, tx_ring: false };
    const FR: State = State { fifo: true, rx_ring: true, tx_ring: false };
    const FT: State = State { fifo: true, rx_ring: false, tx_ring: true };
    const FRT: State = State { fifo: true, rx_ring: true, tx_ring: true };

    fn after(ring: u32) -> Refusal {
        Refusal { ring, ..Refusal::default() }
    }

    fn classes(judge: DropClasses, sequence: &[State]) -> Vec<DropClass> {
        let mut d = Drops::new(judge, 1);
        sequence.iter().map(|&s| d.refuse(s, s, &after(1024))).collect()
    }

    #[test]
    fn an_episode_keeps_its_cause() {
        let ours = DropClasses::Wiretime;
        assert_eq!(classes(ours, &[F, F, FR]), [Dma, Dma, Dma]);
        assert_eq!(classes(ours, &[FR, F, F]), [Core, Core, Core], "a few descriptors have come: still the core");
        assert_eq!(classes(ours, &[FRT, FR]), [Tx, Tx]);
        assert_eq!(classes(ours, &[FT]), [Tx], "the ring behind a stalled core is about to fill");
        let mut d = Drops::new(ours, 1);
        assert_eq!(d.refuse(F, F, &after(1024)), Dma);
        d.drained();
        assert_eq!(d.refuse(FR, FR, &after(1024)), Core, "a new episode");
        assert_eq!((d.transitions[0][1], d.transitions[0][3]), (1, 1), "both began from an empty FIFO");
    }

    /// A cold core begins, the transmit link is what lasts.
    #[test]
    fn what_lasts_takes_over() {
        let mut d = Drops::new(DropClasses::Wiretime, 1);
        assert_eq!(d.refuse(FR, FR, &after(4)), Core);
        assert_eq!([FRT, FRT, FRT, FR, FRT].map(|s| d.refuse(s, s, &after(4))), [Core; 5], "not in a row");
        assert_eq!([FRT, FRT, FRT, FR].map(|s| d.refuse(s, s, &after(4))), [Core, Core, Tx, Tx]);
    }

    /// One queue's core is slow, and its packets are dropped alone; the link is too slow for all others.
    #[test]
    fn a_slow_core_does_not_name_what_the_link_loses() {
        const R: State = State { fifo: false, rx_ring: true, tx_ring: false };
        let mut d = Drops::new(DropClasses::Wiretime, 8);
        for i in 0..100 {
            let alone = Refusal { stored: true, ..after(1024) };
            let link = Refusal { culprit: i % 8, ..after(1024) };
            assert_eq!((d.refuse(R, R, &alone), d.refuse(F, F, &link)), (Core, Dma));
        }
    }

    #[test]
    fn the_published_machine() {
        let gem5 = DropClasses::Gem5;
        assert_eq!(classes(gem5, &[F, FT, FR]), [Dma, Dma, Core]);
        // After RX ring full every drop is the core's; TxDrop only if both rings are full before and now.
        assert_eq!(classes(gem5, &[FR, F, F]), [Core, Core, Dma]);
        assert_eq!(classes(gem5, &[FR, FRT, FRT, F]), [Core, Core, Tx, Core]);
        assert_eq!(classes(gem5, &[FRT, FR]), [Tx, Core]);
    }

    #[test]
    fn transitions_count_every_refusal() {
        let mut d = Drops::new(DropClasses::Wiretime, 1);
        for s in [F, F, FR, FRT, F] {
            d.refuse(s, s, &after(1024));
        }
        assert_eq!(d.transitions.iter().flatten().sum::<u64>(), 5);
        assert_eq!((d.transitions[1][1], d.transitions[1][3], d.transitions[3][7], d.transitions[7][1]), (1, 1, 1, 1));
        assert_eq!([State::name(0), State::name(7), State::name(3)], ["none", "fifo+rx+tx", "fifo+rx"]);
    }
}
