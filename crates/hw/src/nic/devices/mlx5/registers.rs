//! Port registers, by the command `ACCESS_REG`: link, MTU, state, counters of the port. What is not known keeps what is
//! written and reads it back.
//!
//! Left out: modules and cables, pause, buffers, temperatures.

use super::fields::{half, place, put};
use std::collections::BTreeMap;

const PCAM: u16 = 0x507f;
const PTYS: u16 = 0x5004;
const PMTU: u16 = 0x5003;
const PAOS: u16 = 0x5006;
const PPCNT: u16 = 0x5008;
const PMLP: u16 = 0x5002;

/// Longest frame, without FCS, beside the link header as the driver counts it.
const MTU_MOST: u16 = 9978;
const MTU: u16 = 1522;

/// Most registers that are kept, and bytes of one.
const KEPT: usize = 64;
const LONGEST: usize = 1024;

/// Frames, and their bytes with the FCS: to one, to many, to all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    frames: [u64; 3],
    bytes: [u64; 3],
    /// Frames of up to so many bytes each: see [`SIZES`].
    sizes: [u64; SIZES.len()],
}

/// The longest frame of each of RFC 2819's sizes, and of those that ports of longer frames add to them.
const SIZES: [u64; 10] = [64, 127, 255, 511, 1023, 1518, 2047, 4095, 8191, u64::MAX];

impl Traffic {
    /// One more frame of a class.
    pub fn count(&mut self, class: usize, bytes: u64) {
        self.frames[class] += 1;
        self.bytes[class] += bytes;
        self.sizes[SIZES.partition_point(|&most| most < bytes)] += 1;
    }

    /// Of a class, frames and bytes.
    #[must_use]
    pub fn of(&self, class: usize) -> [u64; 2] {
        [self.frames[class], self.bytes[class]]
    }

    fn all(&self) -> [u64; 2] {
        [self.frames.iter().sum(), self.bytes.iter().sum()]
    }
}

/// Classes of [`Traffic`].
pub const UNICAST: usize = 0;
pub const MULTICAST: usize = 1;
pub const BROADCAST: usize = 2;

/// The class of a frame.
#[must_use]
pub fn class_of(frame: &[u8]) -> usize {
    match frame.get(..6) {
        Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => BROADCAST,
        _ => frame.first().map_or(UNICAST, |first| usize::from(first & 1)),
    }
}

/// Frames and bytes of a port.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortCounters {
    pub received: Traffic,
    pub sent: Traffic,
    /// Received, and taken into the packet buffer for a queue.
    pub taken: Traffic,
    /// Refused for want of room in the packet buffer.
    pub discarded: u64,
    /// Longer than the port's MTU.
    pub oversize: u64,
}

/// See the module.
pub struct PortRegisters {
    /// Extended link modes (one bit), and the same in the older table.
    modes: (u32, u32),
    /// Longest frame, FCS included.
    pub mtu: u16,
    admin: u8,
    kept: BTreeMap<u16, Vec<u8>>,
    pub counters: PortCounters,
}

impl PortRegisters {
    /// Of a port whose link carries so many gigabits a second.
    #[must_use]
    pub fn new(gigabits: u64) -> Self {
        // 10, 25, 40, 50, 100 (two lanes), 200, 400; the same of the older table, as far as it goes.
        let modes = match gigabits {
            0..=10 => (1 << 4, 1 << 12),
            11..=25 => (1 << 6, 1 << 27),
            26..=40 => (1 << 5, 1 << 6),
            41..=50 => (1 << 7, 1 << 31),
            51..=100 => (1 << 10, 1 << 20),
            101..=200 => (1 << 12, 1 << 20),
            _ => (1 << 16, 1 << 20),
        };
        Self { modes, mtu: MTU, admin: 1, kept: BTreeMap::new(), counters: PortCounters::default() }
    }

    /// A register is written, or read; the answer's body has the length that was asked for.
    pub fn access(&mut self, id: u16, writes: bool, data: &[u8], body: &mut [u8]) {
        let count = data.len().min(body.len());
        body[..count].copy_from_slice(&data[..count]);
        match id {
            PTYS if !writes => {
                let (extended, old) = self.modes;
                for at in [0x08, 0x14, 0x20] {
                    place(body, at, &extended.to_be_bytes());
                }
                for at in [0x0c, 0x18, 0x24] {
                    place(body, at, &old.to_be_bytes());
                }
                put(body, (380, 4, 3));
            }
            PMTU => {
                if writes {
                    self.mtu = half(data, 8).min(MTU_MOST);
                }
                place(body, 4, &MTU_MOST.to_be_bytes());
                place(body, 8, &self.mtu.to_be_bytes());
                place(body, 12, &self.mtu.to_be_bytes());
            }
            PAOS => {
                if writes {
                    self.admin = data.get(2).map_or(1, |b| b & 0xf);
                }
                put(body, (20, 4, self.admin.into()));
                put(body, (28, 4, 1));
            }
            PCAM => put(body, (434, 1, 1)),
            PMLP => put(body, (24, 8, 4)),
            PPCNT => self.count(body),
            _ if writes => {
                if self.kept.len() < KEPT || self.kept.contains_key(&id) {
                    self.kept.insert(id, data[..data.len().min(LONGEST)].to_vec());
                }
            }
            _ => {
                if let Some(kept) = self.kept.get(&id) {
                    let count = kept.len().min(body.len());
                    body[..count].copy_from_slice(&kept[..count]);
                }
            }
        }
    }

    /// Port counters, of the group that the register asks for; 64 bits, in a body behind eight bytes.
    fn count(&self, body: &mut [u8]) {
        let c = &self.counters;
        let ([received, received_bytes], [sent, sent_bytes]) = (c.received.all(), c.sent.all());
        let (to_us, out) = (&c.received.frames, &c.sent.frames);
        let group = body.get(3).map_or(0, |b| b & 0x3f);
        let list: &[(usize, u64)] = match group {
            // IEEE 802.3
            0 => &[
                (0x00, sent),
                (0x08, received),
                (0x20, sent_bytes),
                (0x28, received_bytes),
                (0x30, out[MULTICAST]),
                (0x38, out[BROADCAST]),
                (0x40, to_us[MULTICAST]),
                (0x48, to_us[BROADCAST]),
                (0x60, c.oversize),
            ],
            // RFC 2863
            1 => &[
                (0x00, received_bytes),
                (0x08, to_us[UNICAST]),
                (0x10, c.discarded),
                (0x28, sent_bytes),
                (0x30, out[UNICAST]),
                (0x48, to_us[MULTICAST]),
                (0x50, to_us[BROADCAST]),
                (0x58, out[MULTICAST]),
                (0x60, out[BROADCAST]),
            ],
            // RFC 2819, of what is received
            2 => {
                let all = [received_bytes, received, to_us[BROADCAST], to_us[MULTICAST]];
                let places = (0x08..).step_by(8).zip(all).chain([(0x38, c.oversize)]);
                &places.chain((0x58..).step_by(8).zip(c.received.sizes)).collect::<Vec<_>>()
            }
            // of a priority
            0x10 => &[(0x00, received_bytes), (0x20, received), (0x28, sent_bytes), (0x48, sent), (0x78, c.discarded)],
            _ => &[],
        };
        // Of priorities only the first carries anything.
        let of_other_priority = group == 0x10 && body.get(7).is_some_and(|b| b & 7 != 0);
        for &(at, value) in list.iter().filter(|_| !of_other_priority) {
            place(body, 8 + at, &value.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::devices::mlx5::fields::{double, get, word};

    #[test]
    fn a_port_says_what_it_is() {
        let mut r = PortRegisters::new(100);
        let mut body = [0; 64];
        r.access(PTYS, false, &[0; 64], &mut body);
        assert_eq!((word(&body, 0x20), word(&body, 0x24)), (1 << 10, 1 << 20));
        let mut wanted = [0; 16];
        place(&mut wanted, 8, &9000u16.to_be_bytes());
        r.access(PMTU, true, &wanted, &mut body[..16]);
        let mut body = [0; 16];
        r.access(PMTU, false, &[0; 16], &mut body);
        assert_eq!((half(&body, 4), half(&body, 12)), (9978, 9000));
        r.access(PAOS, true, &[0, 0, 2, 0], &mut body);
        r.access(PAOS, false, &[0; 16], &mut body);
        assert_eq!((get(&body, 20, 4), get(&body, 28, 4)), (2, 1));
    }

    #[test]
    fn counters_and_what_is_only_kept() {
        let mut r = PortRegisters::new(200);
        (0..5).for_each(|_| r.counters.received.count(class_of(&[2; 60]), 64));
        r.counters.received.count(class_of(&[1; 60]), 100);
        r.counters.received.count(class_of(&[0xff; 60]), 164);
        (0..3).for_each(|_| r.counters.sent.count(class_of(&[0xff; 60]), 64));
        r.counters.discarded = 2;
        let mut body = [0; 256];
        let mut ask = [0; 8];
        ask[3] = 2;
        r.access(PPCNT, false, &ask, &mut body);
        let sizes: Vec<u64> = (0..10).map(|i| double(&body, 0x60 + 8 * i)).collect();
        assert_eq!(sizes, [5, 1, 1, 0, 0, 0, 0, 0, 0, 0], "of 64, 100 and 164 bytes");
        (body, ask[3]) = ([0; 256], 0);
        r.access(PPCNT, false, &ask, &mut body);
        assert_eq!((double(&body, 8), double(&body, 16)), (3, 7));
        assert_eq!((double(&body, 0x28), double(&body, 0x30)), (192, 584), "bytes out and in");
        assert_eq!(
            [0x38, 0x40, 0x48, 0x50].map(|at| double(&body, at)),
            [0, 3, 1, 1],
            "to many and to all, out and in"
        );
        ask[3] = 1;
        r.access(PPCNT, false, &ask, &mut body);
        assert_eq!(double(&body, 24), 2, "rx_discards_phy");
        assert_eq!([0x10, 0x38, 0x50, 0x58, 0x68].map(|at| double(&body, at)), [5, 0, 1, 1, 3]);
        r.access(0x9999, true, &[1, 2, 3], &mut body);
        let mut short = [0; 2];
        r.access(0x9999, false, &[], &mut short);
        assert_eq!(short, [1, 2]);
        r.access(PPCNT, false, &[], &mut []);
    }
}
