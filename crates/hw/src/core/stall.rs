//! Where cycles go: each wait of dispatch has one cause (a CPI stack). It counts from the slot in which dispatch stops, so
//! that what is left, `base`, is instructions over the dispatch width.
//!
//! A full reorder buffer is charged to what its head waits for; a full queue to the longest access under way, else to
//! itself. What overlaps with the cause is not charged.

use super::position::Position;
use wiretime_base::{stats, Cycles};

/// Why dispatch waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StallCause {
    /// Dependencies and latencies inside the core, L1D hits among them.
    Core,
    /// Instruction fetch missed in the L1I.
    L1i,
    /// Translation of an instruction's address.
    Itlb,
    /// A mispredicted branch.
    Mispredict,
    /// A taken branch's target came late, or fetch could not keep up.
    Fetch,
    /// An exception or interrupt.
    Exception,
    /// An issue queue was full.
    Queue,
    /// No physical register was free.
    Registers,
    /// Data from the L2.
    L2,
    /// Data from the LLC.
    Llc,
    /// Data or permission from another core's cache.
    Snoop,
    /// Data from DRAM.
    Dram,
    /// Translation of a data address.
    Dtlb,
    /// The store queue was full.
    Store,
    /// A device: a read under way, or a doorbell not yet accepted.
    Device,
    /// A barrier or a system register.
    Barrier,
}

/// Number of causes.
pub const CAUSES: usize = StallCause::Barrier as usize + 1;

stats! {
    /// Cycles by cause: a CPI stack. They add up to the core's cycles.
    pub struct StallStats {
        base: "cycles", "dispatched, as many instructions a cycle as the core can";
        core: "cycles", "waited for results inside the core, L1D hits among them";
        l1i_miss: "cycles", "waited for instructions from beyond the L1I";
        itlb_miss: "cycles", "waited for the translation of an instruction's address";
        branch_mispredict: "cycles", "waited for the right path";
        fetch: "cycles", "waited for a taken branch's target or for fetch";
        exception: "cycles", "waited for an exception's or interrupt's entry or return";
        issue_queue_full: "cycles", "an issue queue was full";
        registers_full: "cycles", "no physical register was free";
        l2_hit: "cycles", "waited for data from the L2";
        llc_hit: "cycles", "waited for data from the LLC";
        snoop: "cycles", "waited for data or permission from another core's cache";
        dram: "cycles", "waited for data from DRAM";
        dtlb_miss: "cycles", "waited for the translation of a data address";
        store_queue_full: "cycles", "the store queue was full";
        device: "cycles", "waited for a device: a register read, or a doorbell that was not yet accepted";
        barrier: "cycles", "waited at a barrier or for a system register";
    }
}

/// Waits by cause.
#[derive(Clone, Default)]
pub struct Stalls([Position; CAUSES]);

impl Stalls {
    #[inline]
    pub fn add(&mut self, cause: StallCause, wait: Position) {
        self.0[cause as usize] += wait;
    }

    /// What was added since.
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] - earlier.0[i]))
    }

    /// So much again, so often.
    pub fn repeat(&mut self, once: &Self, count: u64) {
        self.0.iter_mut().zip(once.0).for_each(|(wait, once)| *wait += once.times(count));
    }

    /// As statistics, for a core that has spent `cycles`.
    pub fn stats(&self, cycles: Cycles) -> StallStats {
        let at = |c: StallCause| self.0[c as usize].cycle().0;
        StallStats {
            base: cycles.saturating_sub(self.0.iter().map(|wait| wait.cycle()).sum()).0,
            core: at(StallCause::Core),
            l1i_miss: at(StallCause::L1i),
            itlb_miss: at(StallCause::Itlb),
            branch_mispredict: at(StallCause::Mispredict),
            fetch: at(StallCause::Fetch),
            exception: at(StallCause::Exception),
            issue_queue_full: at(StallCause::Queue),
            registers_full: at(StallCause::Registers),
            l2_hit: at(StallCause::L2),
            llc_hit: at(StallCause::Llc),
            snoop: at(StallCause::Snoop),
            dram: at(StallCause::Dram),
            dtlb_miss: at(StallCause::Dtlb),
            store_queue_full: at(StallCause::Store),
            device: at(StallCause::Device),
            barrier: at(StallCause::Barrier),
        }
    }
}
