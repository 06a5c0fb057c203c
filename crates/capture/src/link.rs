//! From what was captured to an Ethernet frame.
//!
//! Packets that were captured without an Ethernet header get one; its source address is the generator's.

use pcap_parser::Linktype;
use wiretime_hw::wire::{ETHERNET, PEER};

const IPV4: [u8; 2] = [8, 0];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// How packets of an interface become frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// They are; with so many bytes of FCS.
    Ethernet { fcs: usize },
    /// An IP packet behind so many bytes.
    Ip { skip: usize },
    /// Linux "cooked": the protocol is at one place, the packet starts at another.
    Cooked { protocol: usize, skip: usize },
}

/// A link type whose packets cannot be sent on Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "link type {0}{name} cannot be sent on Ethernet: allowed are Ethernet (1), raw IP (12, 14, 101, 228, 229), \
     loopback (0, 108), Linux cooked (113, 276)", name = self.name()
)]
pub struct UnknownLink(pub i32);

impl UnknownLink {
    fn name(self) -> &'static str {
        match self.0 {
            105 | 127 | 163 => " (IEEE 802.11)",
            189 | 220 | 249 => " (USB)",
            187 | 201 => " (Bluetooth)",
            195 | 230 | 215 => " (IEEE 802.15.4)",
            227 => " (CAN)",
            _ => "",
        }
    }
}

impl Link {
    /// What we make of a link type.
    ///
    /// # Errors
    /// Where nothing can be made of it.
    pub fn of(link: Linktype, fcs: usize) -> Result<Self, UnknownLink> {
        Ok(match link {
            Linktype::ETHERNET => Self::Ethernet { fcs },
            Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 | Linktype(12 | 14) => Self::Ip { skip: 0 },
            Linktype::NULL | Linktype(108) => Self::Ip { skip: 4 },
            Linktype::LINUX_SLL => Self::Cooked { protocol: 14, skip: 16 },
            Linktype(276) => Self::Cooked { protocol: 0, skip: 20 },
            Linktype(number) => return Err(UnknownLink(number)),
        })
    }

    /// The frame's header (empty where it has one already), the captured rest, and the frame's whole length without FCS;
    /// `length` is the packet's on the wire. `None` where it is too short to be what it should.
    pub fn frame<'a>(&self, data: &'a [u8], length: usize) -> Option<([u8; ETHERNET], usize, &'a [u8], usize)> {
        let header = |protocol: [u8; 2]| {
            let mut h = [0; ETHERNET];
            h[6..12].copy_from_slice(&PEER);
            h[12..].copy_from_slice(&protocol);
            h
        };
        match *self {
            Self::Ethernet { fcs } => {
                let whole = length.checked_sub(fcs).filter(|&n| n >= ETHERNET)?;
                let data = &data[..data.len().min(whole)];
                (data.len() >= ETHERNET).then_some(([0; ETHERNET], 0, data, whole))
            }
            Self::Ip { skip } => {
                let packet = data.get(skip..).filter(|p| !p.is_empty())?;
                let protocol = match packet[0] >> 4 {
                    4 => IPV4,
                    6 => IPV6,
                    _ => return None,
                };
                Some((header(protocol), ETHERNET, packet, length.checked_sub(skip)? + ETHERNET))
            }
            Self::Cooked { protocol, skip } => {
                let packet = data.get(skip..)?;
                let protocol = [data[protocol], data[protocol + 1]];
                Some((header(protocol), ETHERNET, packet, length.checked_sub(skip)? + ETHERNET))
            }
        }
    }
}
