//! What passes on the wire, for a capture file: every frame to the NIC and back, and the ones that the NIC refused.
//!
//! Nothing is computed from it. Whoever writes the file takes the records away every now and then.

use wiretime_base::Ps;

/// What happened to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It leaves the generator for the NIC.
    In,
    /// It leaves the NIC.
    Out,
    /// The NIC refuses it: the class of drop.
    Dropped(&'static str),
}

/// A frame seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its first bit passes, or it is refused.
    pub at: Ps,
    /// What happened.
    pub passage: Passage,
    /// The packet's number; all ones where it has none.
    pub id: u64,
    /// Queue of the NIC.
    pub queue: u16,
    /// Where its bytes end in [`Tap::bytes`].
    pub end: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Tap {
    /// The time in which frames are recorded.
    pub window: std::ops::Range<Ps>,
    /// What passed.
    pub seen: Vec<Seen>,
    /// The frames' bytes, without FCS.
    pub bytes: Vec<u8>,
}

impl Tap {
    /// Records.
    #[cold]
    pub fn record(&mut self, at: Ps, passage: Passage, (id, queue): (u64, u16), frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.seen.push(Seen { at, passage, id, queue, end: self.bytes.len() });
    }

    /// Forgets what has been taken away.
    pub fn clear(&mut self) {
        self.seen.clear();
        self.bytes.clear();
    }
}
