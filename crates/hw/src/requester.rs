//! Who asks for memory, and what for. Every request carries it from its source to DRAM: for counters, for policies (which
//! writes are put into the LLC), and to tell what waits for whom.

/// What a core wants a line for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreAccess {
    /// Instruction fetch.
    Fetch,
    /// A load.
    Load,
    /// A store.
    Store,
    /// A software or hardware prefetch.
    Prefetch,
    /// A page walk.
    Walk,
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// From the wire.
    Receive,
    /// To the wire.
    Transmit,
}

/// A queue that has none of the numbers that queues are told apart by: or no queue at all.
pub const UNNAMED: u16 = u16::MAX;

/// What a device moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// Descriptors and other work for the device.
    Descriptors,
    /// Packet data.
    Payload,
    /// Descriptors written back to where they were read.
    WriteBack,
    /// Entries of a ring of completions or events.
    Completions,
}

/// Which of a device's queues, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// The direction of the queue.
    pub side: Side,
    /// The queue.
    pub queue: u16,
    /// What is moved.
    pub moves: Moves,
}

impl Purpose {
    /// For a queue.
    #[must_use]
    pub fn new(side: Side, queue: u16, moves: Moves) -> Self {
        Self { side, queue, moves }
    }
}

/// A device that reads or writes memory itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaRequester {
    /// Which, by number.
    pub device: u16,
    /// Its queue, and what for.
    pub purpose: Purpose,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// A core.
    Core {
        /// Which, by number.
        core: u16,
        /// What for.
        access: CoreAccess,
    },
    /// A device.
    Device(DmaRequester),
}
