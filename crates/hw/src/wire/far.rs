//! The far end of the wire where it is none of the generator's: another simulated host, or the world behind a TAP.
//!
//! Frames that come from there are the load, and leave when the far end says that they do; whoever drives the simulation
//! carries them to and fro. Frames have no probe: packets are told by the buffers that carry them.

use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket, UdpPacket};
use std::collections::VecDeque;
use wiretime_base::{stats, Ps};

stats! {
    /// What passed between a port and the far end of its wire.
    pub struct FarStats {
        frames_in: "frames", "frames from the far end";
        payload_in: "B", "bytes of TCP or UDP payload in them";
        frames_out: "frames", "frames to the far end";
        payload_out: "B", "bytes of TCP or UDP payload in them";
    }
}

/// A frame and when its first bit leaves.
pub type Timed = (Ps, Vec<u8>);

/// See the module.
#[derive(Debug, Default)]
pub struct Far {
    incoming: VecDeque<Timed>,
    outgoing: Vec<Timed>,
    /// What passed.
    pub stats: FarStats,
}

/// Bytes of TCP or UDP payload of a frame; 0 where it has none.
fn payload(frame: &[u8]) -> u64 {
    let of = |protocol: IpProtocol, transport: &[u8]| match protocol {
        IpProtocol::Tcp => TcpPacket::new_checked(transport).ok().map(|p| p.payload().len()),
        IpProtocol::Udp => UdpPacket::new_checked(transport).ok().map(|p| p.payload().len()),
        _ => None,
    };
    let Ok(frame) = EthernetFrame::new_checked(frame) else { return 0 };
    let found = match frame.ethertype() {
        EthernetProtocol::Ipv4 => {
            Ipv4Packet::new_checked(frame.payload()).ok().and_then(|p| of(p.next_header(), p.payload()))
        }
        EthernetProtocol::Ipv6 => {
            Ipv6Packet::new_checked(frame.payload()).ok().and_then(|p| of(p.next_header(), p.payload()))
        }
        _ => None,
    };
    found.unwrap_or(0) as u64
}

impl Far {
    /// A frame from there leaves at `t`. It counts once it has arrived: who tells of it does so when its host comes to it.
    pub fn brings(&mut self, t: Ps, frame: Vec<u8>) {
        self.incoming.push_back((t, frame));
    }

    /// A frame from there has arrived.
    pub fn arrived(&mut self, frame: &[u8]) {
        self.stats.frames_in += 1;
        self.stats.payload_in += payload(frame);
    }

    /// The next frame from there.
    pub fn next(&mut self) -> Option<Timed> {
        self.incoming.pop_front()
    }

    /// The port sends a frame whose first bit leaves at `t`.
    pub fn takes(&mut self, t: Ps, frame: &[u8]) {
        self.stats.frames_out += 1;
        self.stats.payload_out += payload(frame);
        self.outgoing.push((t, frame.to_vec()));
    }

    /// Frames on their way there.
    pub fn outgoing(&mut self) -> std::vec::Drain<'_, Timed> {
        self.outgoing.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn udp(length: u16) -> Vec<u8> {
        let mut f = vec![0; 60];
        (f[12], f[14], f[23]) = (8, 0x45, 17);
        f[16..18].copy_from_slice(&(28 + length).to_be_bytes());
        f[38..40].copy_from_slice(&(8 + length).to_be_bytes());
        (f[34], f[36]) = (1, 1);
        f
    }

    #[test]
    fn payload_is_counted_without_padding() {
        assert_eq!((payload(&udp(5)), payload(&udp(18)), payload(&udp(19))), (5, 18, 0), "the last does not fit");
        let mut tcp = udp(12);
        (tcp[23], tcp[46]) = (6, 0x50);
        assert_eq!(payload(&tcp), 0);
        tcp[16..18].copy_from_slice(&46u16.to_be_bytes());
        assert_eq!(payload(&tcp), 6);
        let mut far = Far::default();
        far.brings(Ps(7), udp(3));
        far.takes(Ps(9), &udp(4));
        assert_eq!((far.stats.frames_in, far.stats.payload_out), (0, 4), "it has not come yet");
        let (t, frame) = far.next().unwrap();
        far.arrived(&frame);
        assert_eq!((t, far.stats.frames_in, far.stats.payload_in), (Ps(7), 1, 3));
        assert_eq!(far.next(), None);
        assert_eq!(far.outgoing().map(|f| f.0).collect::<Vec<_>>(), [Ps(9)]);
    }

    proptest! {
        #[test]
        fn nothing_is_too_odd(kind in 0usize..3, bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let kind = [[8, 0], [0x86, 0xdd], [8, 6]][kind];
            payload(&[&[0; 12][..], &kind, &bytes].concat());
            payload(&bytes);
        }
    }
}
