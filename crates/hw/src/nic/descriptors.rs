//! Descriptors as the pipeline understands them, whatever their format in memory.

/// Checksum and segmentation parameters that a context descriptor sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// IP checksum start, offset, end.
    pub ip: [u16; 3],
    /// TCP/UDP checksum start, offset, end.
    pub l4: [u16; 3],
    /// Payload bytes of the whole segmented packet; 0: all that follows the header.
    pub payload: u32,
    /// Segment size.
    pub mss: u16,
    /// Header bytes to repeat.
    pub header: u16,
    /// TCP rather than UDP.
    pub tcp: bool,
    /// Its transport has no checksum that we insert.
    pub other_l4: bool,
    /// IPv4 rather than IPv6.
    pub ipv4: bool,
    /// Which of the queue's two contexts it sets.
    pub slot: u8,
}

/// What a data descriptor says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Where the bytes are.
    pub buffer: u64,
    /// How many.
    pub length: u32,
    /// End of packet.
    pub eop: bool,
    /// Segment by the context.
    pub tse: bool,
    /// Insert the IP checksum by the context.
    pub ixsm: bool,
    /// Insert the TCP/UDP checksum by the context.
    pub txsm: bool,
    /// Legacy checksum insertion: offset and start.
    pub legacy_checksum: Option<(u8, u8)>,
    /// Which of the queue's two contexts applies.
    pub slot: u8,
}

/// A transmit descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tx {
    /// Sets a context.
    Context(Context),
    /// Carries bytes.
    Data(Data),
}

/// A transmit descriptor as fetched: what it says, and whether it wants its status written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxDescriptor {
    /// What it says.
    pub kind: Tx,
    /// Report status (RS).
    pub report: bool,
    /// The interrupt may wait for the transmit timers (IDE).
    pub delay: bool,
    /// Second half, for the write-back.
    pub upper: u64,
}

impl TxDescriptor {
    /// The second half with DD set: what the NIC writes back. Both formats have it in the same place.
    #[must_use]
    pub fn done(&self) -> [u8; 8] {
        (self.upper | 1 << 32).to_le_bytes()
    }
}

/// The little-endian word at `at`.
pub(crate) fn word(d: &[u8], at: usize) -> u32 {
    d.get(at..at + 4).map_or(0, |w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
}

/// The little-endian half word at `at`.
pub(crate) fn half(d: &[u8], at: usize) -> u16 {
    d.get(at..at + 2).map_or(0, |w| u16::from_le_bytes([w[0], w[1]]))
}

/// The first eight bytes: a buffer's address in every format.
pub(crate) fn buffer(d: &[u8]) -> u64 {
    u64::from(word(d, 0)) | u64::from(word(d, 4)) << 32
}
