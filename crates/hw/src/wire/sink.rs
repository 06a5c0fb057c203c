//! The sink: takes what the NIC sends, tells which packet it answers, measures latency.
//!
//! A packet is told by the probe in its payload; by the NIC's buffer that carried it (the ledger knows), where a trace's bytes
//! stay as they are; or by a transaction key: some bytes that request and answer share, within one conversation. A lost packet
//! never shifts the others: a key that several outstanding packets share tells none of them, and is counted; where one of
//! those is never answered, the key tells nothing more.

use super::frames::MAGIC;
use super::replay::conversation;
use super::Latencies;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wiretime_base::Ps;

/// How answers are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "by", deny_unknown_fields)]
pub enum Recognition {
    /// By the probe that every packet carries.
    Probe,
    /// By the buffer that carried the packet through the host.
    Buffer,
    /// By bytes that the answer has in the same place, and by the buffer.
    Key {
        /// From the start of the frame.
        offset: u32,
        /// At most 16.
        length: u32,
    },
}

/// A packet that a frame says it answers: its number and when it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Number of the packet.
    pub id: u64,
    /// When its first bit left.
    pub departed: Ps,
}

/// Outstanding packets with a key; where there are more, all are given up.
const OUTSTANDING_MAX: usize = 1 << 20;
type Key = (u64, u128);

/// Packets that have a key: the only one, or how many.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    One(u64),
    Several(u32),
}

/// The sink.
pub struct Sink {
    recognition: Recognition,
    probe: usize,
    outstanding: FxHashMap<Key, Waiting>,
    /// Packets whose key another outstanding one had.
    pub ambiguous: u64,
    /// Latencies of the cohort.
    pub latencies: Latencies,
}

impl Sink {
    /// Looks for the probe at this offset, or for whatever tells packets.
    #[must_use]
    pub fn new(recognition: Recognition, probe_offset: u32) -> Self {
        Self {
            recognition,
            probe: probe_offset as usize,
            outstanding: FxHashMap::default(),
            ambiguous: 0,
            latencies: Latencies::default(),
        }
    }

    /// Whether packets carry a probe.
    #[must_use]
    pub fn recognises_probes(&self) -> bool {
        self.recognition == Recognition::Probe
    }

    /// Whether packets have to be shown as they leave.
    #[must_use]
    pub fn wants_packets(&self) -> bool {
        matches!(self.recognition, Recognition::Key { .. })
    }

    fn key(&self, frame: &[u8]) -> Option<Key> {
        let Recognition::Key { offset, length } = self.recognition else { return None };
        let at = offset as usize;
        let bytes = frame.get(at..at.checked_add(length.min(16) as usize)?)?;
        let mut key = [0; 16];
        key[..bytes.len()].copy_from_slice(bytes);
        Some((conversation(frame), u128::from_le_bytes(key)))
    }

    /// Packet `id` leaves; `lost` tells whether an earlier one can no longer be answered.
    pub fn leaves(&mut self, id: u64, frame: &[u8], mut lost: impl FnMut(u64) -> bool) {
        let Some(key) = self.key(frame) else { return };
        if self.outstanding.len() >= OUTSTANDING_MAX {
            self.outstanding.clear();
        }
        let now = match self.outstanding.get(&key) {
            Some(&Waiting::Several(n)) => Waiting::Several(n.saturating_add(1)),
            Some(&Waiting::One(old)) if !lost(old) => Waiting::Several(2),
            _ => Waiting::One(id),
        };
        self.ambiguous += u64::from(matches!(now, Waiting::Several(_)));
        self.outstanding.insert(key, now);
    }

    /// Reads the probe of a frame whose last bit arrives at `t`; `None` where it carries none.
    #[must_use]
    pub fn probe(&self, frame: &[u8], t: Ps) -> Option<Probe> {
        if self.recognition != Recognition::Probe {
            return None;
        }
        let probe = frame.get(self.probe..self.probe + super::PROBE_BYTES as usize)?;
        if probe[..2] != MAGIC {
            return None;
        }
        let word = |at: usize| probe[at..at + 8].try_into().map(u64::from_le_bytes).unwrap_or(0);
        let found = Probe { id: word(2), departed: Ps(word(10)) };
        (found.departed <= t).then_some(found)
    }

    /// The packet that a frame's key names.
    pub fn by_key(&mut self, frame: &[u8]) -> Option<u64> {
        let key = self.key(frame)?;
        match self.outstanding.remove(&key)? {
            Waiting::One(id) => Some(id),
            Waiting::Several(n) => {
                if n > 1 {
                    self.outstanding.insert(key, Waiting::Several(n - 1));
                }
                None
            }
        }
    }

    /// What was measured is forgotten.
    pub fn forget(&mut self) {
        self.latencies = Latencies::default();
        self.ambiguous = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_recognised() {
        let sink = Sink::new(Recognition::Probe, 42);
        let mut frame = [0u8; 60];
        frame[42..44].copy_from_slice(&MAGIC);
        frame[44] = 7;
        frame[52..60].copy_from_slice(&1000u64.to_le_bytes());
        assert_eq!(sink.probe(&frame, Ps(5000)), Some(Probe { id: 7, departed: Ps(1000) }));
        assert_eq!(sink.probe(&frame, Ps(999)), None, "before it left");
        assert_eq!(sink.probe(&frame[..59], Ps(5000)), None, "cut");
        frame[42] = 0;
        assert_eq!(sink.probe(&frame, Ps(5000)), None);
    }

    #[test]
    fn a_lost_packet_shifts_nothing() {
        let mut sink = Sink::new(Recognition::Key { offset: 42, length: 2 }, 42);
        let frame = |key: u8| {
            let mut f = [0u8; 60];
            f[42] = key;
            f
        };
        for id in 0..5 {
            sink.leaves(id, &frame(id as u8), |_| false);
        }
        // 1 is lost; the others are told all the same, in any order.
        assert_eq!([3, 0, 4, 2].map(|k| sink.by_key(&frame(k))), [Some(3), Some(0), Some(4), Some(2)]);
        sink.leaves(5, &frame(1), |id| id == 1);
        assert_eq!(sink.by_key(&frame(1)), Some(5), "its key is free again");
        sink.leaves(6, &frame(9), |_| false);
        sink.leaves(7, &frame(9), |_| false);
        assert_eq!((sink.by_key(&frame(9)), sink.ambiguous), (None, 1));
        sink.leaves(8, &frame(9), |_| false);
        assert_eq!([sink.by_key(&frame(9)), sink.by_key(&frame(9))], [None; 2], "one of the two was not answered yet");
        sink.leaves(9, &frame(9), |_| false);
        assert_eq!(sink.by_key(&frame(9)), Some(9));
        assert_eq!(sink.by_key(&frame(77)), None, "nobody's");
    }
}
