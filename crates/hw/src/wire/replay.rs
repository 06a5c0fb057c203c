//! Packets of a trace: their bytes, and when they leave.
//!
//! A source brings packets in blocks, so that a trace needs no more memory than a block whatever its length. Bytes stay as
//! they are but for the destination's MAC address; a frame below the shortest is padded, as a MAC does.

use super::sizes::LENGTHS;
use super::FCS;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::Ps;

/// Some packets of a trace, in its order.
#[derive(Debug, Default)]
pub struct Block {
    bytes: Vec<u8>,
    /// When each was captured, in ps from any origin, and where it ends.
    packets: Vec<(Ps, usize)>,
}

impl Block {
    /// Another packet of `length` bytes without FCS, in two parts; what is missing is zero.
    pub fn push(&mut self, at: Ps, head: &[u8], rest: &[u8], length: usize) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(rest);
        self.bytes.resize(start + length.clamp((LENGTHS.start() - FCS) as usize, (LENGTHS.end() - FCS) as usize), 0);
        self.packets.push((at, self.bytes.len()));
    }

    /// Packets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
    /// Packet `i`: when it was captured, and its bytes.
    #[must_use]
    pub fn get(&self, i: usize) -> Option<(Ps, &[u8])> {
        let &(at, end) = self.packets.get(i)?;
        let start = if i == 0 { 0 } else { self.packets[i - 1].1 };
        Some((at, &self.bytes[start..end]))
    }
    fn clear(&mut self) {
        self.bytes.clear();
        self.packets.clear();
    }
}

/// Where a trace comes from. Asked once a block, not once a packet.
pub trait Source: Send {
    /// Fills an empty block; leaves it empty at the end of the trace.
    fn fill(&mut self, block: &mut Block);
    /// Starts again with the first packet.
    fn rewind(&mut self);
}

/// How a trace is played.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Play {
    /// When packets leave.
    pub clock: TraceClock,
    /// How often, at most; 0: until the traffic stops.
    pub loops: u32,
    /// Mean length of its frames in bytes, FCS included, for processes that ask.
    pub mean_length: f64,
}

/// When packets of a trace leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum TraceClock {
    /// As captured, so many millionths as fast.
    Captured {
        /// 1000000: as captured.
        millionths: u64,
    },
    /// By the load's rate and arrival process.
    Rate,
}

/// Flows that get a number of their own; the last one is shared by all others.
const FLOWS: u32 = 1 << 16;
const ONE: u64 = 1_000_000;

/// A trace being played.
pub struct Replay {
    source: Box<dyn Source>,
    block: Block,
    next: usize,
    play: Play,
    pass: u32,
    /// In this pass: the first packet's time and the latest, packets so far. The pass's begin against the traffic's.
    first: Ps,
    latest: Ps,
    count: u64,
    offset: Ps,
    flows: FxHashMap<u64, u32>,
}

impl Replay {
    /// From the start of a source.
    #[must_use]
    pub fn new(source: Box<dyn Source>) -> Self {
        let clock = TraceClock::Captured { millionths: ONE };
        Self {
            source,
            block: Block::default(),
            next: 0,
            play: Play { clock, loops: 1, mean_length: 64.0 },
            pass: 0,
            first: Ps::ZERO,
            latest: Ps::ZERO,
            count: 0,
            offset: Ps::ZERO,
            flows: FxHashMap::default(),
        }
    }

    /// Plays from the start.
    pub fn start(&mut self, play: Play) {
        self.source.rewind();
        self.block.clear();
        let (next, pass, count, offset) = (0, 0, 0, Ps::ZERO);
        (self.play, self.next, self.pass, self.count, self.offset) = (play, next, pass, count, offset);
    }

    fn scaled(&self, time: Ps) -> Ps {
        let millionths = match self.play.clock {
            TraceClock::Captured { millionths } => millionths.max(1),
            TraceClock::Rate => ONE,
        };
        Ps((u128::from(time.0) * u128::from(ONE) / u128::from(millionths)).min(u128::from(u64::MAX >> 1)) as u64)
    }

    /// The next packet: its bytes into `into`; returns its time from the start of the traffic, and its flow.
    pub fn next(&mut self, into: &mut Vec<u8>, destination: [u8; 6]) -> Option<(Ps, u32)> {
        if self.next >= self.block.len() {
            self.refill()?;
        }
        let (at, bytes) = self.block.get(self.next)?;
        into.clear();
        into.extend_from_slice(bytes);
        if let Some(mac) = into.get_mut(..6) {
            mac.copy_from_slice(&destination);
        }
        self.next += 1;
        if self.count == 0 {
            (self.first, self.latest) = (at, at);
        }
        self.count += 1;
        // A packet that was captured earlier than the one before it follows it at once.
        self.latest = self.latest.max(at);
        let time = self.offset.saturating_add(self.scaled(self.latest - self.first));
        let (conversation, known) = (conversation(into), self.flows.len() as u32);
        let flow = match self.flows.get(&conversation) {
            Some(&flow) => flow,
            None if known < FLOWS - 1 => *self.flows.entry(conversation).or_insert(known),
            None => FLOWS - 1,
        };
        Some((time, flow))
    }

    fn refill(&mut self) -> Option<()> {
        self.block.clear();
        self.next = 0;
        self.source.fill(&mut self.block);
        if !self.block.is_empty() {
            return Some(());
        }
        self.pass = self.pass.saturating_add(1);
        if self.count == 0 || self.play.loops != 0 && self.pass >= self.play.loops {
            return None;
        }
        // The next pass begins a mean distance behind the last packet.
        let span = self.latest - self.first;
        let length = span + span / (self.count - 1).max(1);
        self.offset = self.offset.saturating_add(self.scaled(length));
        self.count = 0;
        self.source.rewind();
        self.source.fill(&mut self.block);
        (!self.block.is_empty()).then_some(())
    }
}

/// A number for a packet's addresses, protocol and ports, the same in both directions; 0 where it is no plain
/// IP.
#[must_use]
pub fn conversation(f: &[u8]) -> u64 {
    use std::hash::Hasher;
    let hash = |a: &[u8], b: &[u8]| {
        let mut h = rustc_hash::FxHasher::default();
        h.write(a);
        h.write(b);
        h.finish()
    };
    let ends = |a: usize, n: usize, ports: usize, with_ports: bool| {
        let (from, to) = (f.get(a..a + n)?, f.get(a + n..a + 2 * n)?);
        let port = |at: usize| if with_ports { f.get(at..at + 2).unwrap_or(&[]) } else { &[] };
        let sides = (hash(from, port(ports)), hash(to, port(ports + 2)));
        Some(sides.0.wrapping_add(sides.1))
    };
    let found = match f.get(12..14) {
        Some([8, 0]) => {
            let l4 = 14 + usize::from(f.get(14).copied().unwrap_or(0) & 15) * 4;
            let protocol = f.get(23).copied().unwrap_or(0);
            let first = f.get(20).is_some_and(|b| b & 0x1f == 0) && f.get(21) == Some(&0);
            ends(26, 4, l4, first && matches!(protocol, 6 | 17)).map(|h| h ^ u64::from(protocol))
        }
        Some([0x86, 0xdd]) => {
            let protocol = f.get(20).copied().unwrap_or(0);
            ends(22, 16, 54, matches!(protocol, 6 | 17)).map(|h| h ^ u64::from(protocol))
        }
        _ => None,
    };
    found.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets at 0, 3 and 2 us (out of order), of 60 bytes.
    struct Three(usize);

    impl Source for Three {
        fn fill(&mut self, block: &mut Block) {
            // Two blocks.
            for i in [self.0, self.0 + 1] {
                if let Some(us) = [0, 3, 2].get(i) {
                    block.push(Ps(5_000_000 + us * 1_000_000), &[i as u8; 20], &[], 20);
                }
            }
            self.0 += 2;
        }
        fn rewind(&mut self) {
            self.0 = 0;
        }
    }

    fn played(millionths: u64, loops: u32, n: usize) -> Vec<(u64, u8)> {
        let mut r = Replay::new(Box::new(Three(0)));
        r.start(Play { clock: TraceClock::Captured { millionths }, loops, mean_length: 64.0 });
        let mut bytes = Vec::new();
        let mut one = || {
            let (t, _) = r.next(&mut bytes, [9; 6])?;
            assert_eq!((bytes.len(), &bytes[..6]), (60, &[9; 6][..]));
            Some((t.ns(), bytes[6]))
        };
        (0..n).map_while(|_| one()).collect()
    }

    #[test]
    fn timestamps_scale_and_passes_follow() {
        assert_eq!(played(1_000_000, 1, 9), [(0, 0), (3000, 1), (3000, 2)]);
        assert_eq!(played(2_000_000, 1, 9), [(0, 0), (1500, 1), (1500, 2)]);
        assert_eq!(played(1_000_000, 2, 9)[3..], [(4500, 0), (7500, 1), (7500, 2)]);
        assert_eq!(played(1_000_000, 0, 300).len(), 300);
    }

    #[test]
    fn conversations_have_two_directions() {
        let mut f = [0u8; 60];
        (f[12], f[14], f[23]) = (8, 0x45, 17);
        f[26..38].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4]);
        let there = conversation(&f);
        f[26..38].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1, 3, 4, 1, 2]);
        assert_eq!(conversation(&f), there);
        f[34] = 9;
        assert_ne!(conversation(&f), there);
        assert!((0..60).map(|n| conversation(&f[..n])).any(|h| h != there), "whatever is cut");
    }
}
