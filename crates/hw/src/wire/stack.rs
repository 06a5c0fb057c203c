//! A host at the other end of the wire: smoltcp's TCP and UDP over IPv4, on the simulated clock.
//!
//! It takes no time of its own: what it has to say to a frame it says at once, as fast as the line goes. It acknowledges at
//! least every second segment. Left out: selective acknowledgements are not sent (smoltcp), segments above the standard frame.

use super::frames::{ETHERNET, PEER};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, HardwareAddress, IpAddress, IpCidr, IpEndpoint, IpProtocol,
    Ipv4Packet, TcpPacket, TcpRepr,
};
use std::cell::Cell;
use std::collections::VecDeque;
use wiretime_base::Ps;

/// This host, and the guest.
const HERE: [u8; 4] = [10, 0, 0, 1];
const GUEST: [u8; 4] = [10, 0, 0, 2];
const PREFIX: u8 = 8;
const MTU: usize = 1500;
/// The option of RFC 7323 with its padding.
const STAMP_BYTES: u16 = 12;
const US: Ps = Ps::from_us(1);
/// Below the time after which a sender probes for a lost tail.
const ACK_DELAY_MS: u64 = 1;
/// Datagrams that wait in a socket.
const DATAGRAMS: usize = 256;

/// Frames in and out, between the stack and the line.
#[derive(Default)]
struct Wire {
    incoming: VecDeque<Vec<u8>>,
    outgoing: Vec<Vec<u8>>,
    room: usize,
}

struct In(Vec<u8>);
struct Out<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for In {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Out<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut frame = vec![0; length];
        let result = f(&mut frame);
        frame.resize(length.max(60), 0);
        self.0.push(frame);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = In;
    type TxToken<'a> = Out<'a>;

    fn receive(&mut self, _: Instant) -> Option<(In, Out<'_>)> {
        let frame = self.incoming.pop_front()?;
        Some((In(frame), Out(&mut self.outgoing)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Out<'_>> {
        (self.outgoing.len() < self.room).then_some(Out(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut c = DeviceCapabilities::default();
        c.medium = Medium::Ethernet;
        c.max_transmission_unit = MTU + ETHERNET;
        c
    }
}

/// See the module.
pub struct Stack {
    interface: Interface,
    sockets: SocketSet<'static>,
    wire: Wire,
    now: Ps,
    next_port: u16,
}

thread_local! {
    /// The time that segments are stamped with (RFC 7323), in ms: smoltcp asks a function that knows nothing.
    static STAMP: Cell<u32> = const { Cell::new(0) };
}

fn timestamp() -> u32 {
    STAMP.with(Cell::get)
}

/// smoltcp fills segments without regard to their options: the maximum that the guest announces is lowered by them.
fn leave_room(frame: &mut [u8]) {
    let Ok(mut frame) = EthernetFrame::new_checked(frame) else { return };
    if frame.ethertype() != EthernetProtocol::Ipv4 {
        return;
    }
    let Ok(mut packet) = Ipv4Packet::new_checked(frame.payload_mut()) else { return };
    let (from, to) = (packet.src_addr().into(), packet.dst_addr().into());
    if packet.next_header() != IpProtocol::Tcp {
        return;
    }
    let Ok(mut segment) = TcpPacket::new_checked(packet.payload_mut()) else { return };
    // One that is damaged stays so.
    if !segment.syn() || !segment.verify_checksum(&from, &to) {
        return;
    }
    let Ok(repr) =
        TcpRepr::parse(&TcpPacket::new_unchecked(segment.as_ref()), &from, &to, &ChecksumCapabilities::default())
    else {
        return;
    };
    let Some(most) = repr.max_seg_size else { return };
    let options = segment.options_mut();
    if let Some(at) = options.windows(2).position(|o| o == [2, 4]) {
        if let Some(bytes) = options.get_mut(at + 2..at + 4) {
            bytes.copy_from_slice(&most.saturating_sub(STAMP_BYTES).to_be_bytes());
        }
    }
    segment.fill_checksum(&from, &to);
}

fn instant(t: Ps) -> Instant {
    Instant::from_micros((t / US) as i64)
}

impl Stack {
    /// A host that has said nothing yet.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut wire = Wire::default();
        let mut config = Config::new(HardwareAddress::Ethernet(EthernetAddress(PEER)));
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut wire, Instant::ZERO);
        interface.update_ip_addrs(|list| {
            let [a, b, c, d] = HERE;
            let _ = list.push(IpCidr::new(IpAddress::v4(a, b, c, d), PREFIX));
        });
        Self { interface, sockets: SocketSet::new(Vec::new()), wire, now: Ps::ZERO, next_port: 49_152 }
    }

    /// Whether a frame is for it: ARP and IPv4.
    #[must_use]
    pub fn takes(frame: &[u8]) -> bool {
        matches!(frame.get(12..14), Some([8, 0 | 6]))
    }

    fn guest(port: u16) -> IpEndpoint {
        let [a, b, c, d] = GUEST;
        IpEndpoint::new(IpAddress::v4(a, b, c, d), port)
    }

    fn local_port(&mut self) -> u16 {
        self.next_port = self.next_port.checked_add(1).unwrap_or(49_152);
        self.next_port
    }

    /// Opens a connection to the guest, with so many bytes of buffer each way.
    pub fn connect(&mut self, port: u16, buffer: usize) -> Option<SocketHandle> {
        let ring = || tcp::SocketBuffer::new(vec![0; buffer]);
        let mut socket = tcp::Socket::new(ring(), ring());
        socket.set_congestion_control(tcp::CongestionControl::Cubic);
        socket.set_tsval_generator(Some(timestamp));
        socket.set_ack_delay(Some(Duration::from_millis(ACK_DELAY_MS)));
        socket.set_nagle_enabled(false);
        let local = self.local_port();
        socket.connect(self.interface.context(), Self::guest(port), local).ok()?;
        Some(self.sockets.add(socket))
    }

    /// Opens a UDP socket.
    pub fn bind(&mut self) -> Option<SocketHandle> {
        let ring = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; DATAGRAMS], vec![0; DATAGRAMS * MTU]);
        let mut socket = udp::Socket::new(ring(), ring());
        let local = self.local_port();
        socket.bind(local).ok()?;
        Some(self.sockets.add(socket))
    }

    /// A connection.
    pub fn tcp(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Sends a datagram to the guest; false where the socket is full.
    pub fn send(&mut self, handle: SocketHandle, port: u16, data: &[u8]) -> bool {
        self.sockets.get_mut::<udp::Socket>(handle).send_slice(data, Self::guest(port)).is_ok()
    }

    /// Takes a datagram.
    pub fn receive(&mut self, handle: SocketHandle, mut each: impl FnMut(&[u8])) -> bool {
        self.sockets.get_mut::<udp::Socket>(handle).recv().map(|(data, _)| each(data)).is_ok()
    }

    /// A frame arrives.
    pub fn arrives(&mut self, mut frame: Vec<u8>) {
        leave_room(&mut frame);
        self.wire.incoming.push_back(frame);
    }

    /// Works at `t`, with room for so many frames. Whether anything happened.
    pub fn poll(&mut self, t: Ps, room: usize) -> bool {
        self.now = self.now.max(t);
        // Zero stands for no stamp.
        STAMP.with(|s| s.set((self.now / (1000 * US)) as u32 | 1 << 31));
        self.wire.room = room;
        let before = self.wire.outgoing.len();
        self.interface.poll(instant(self.now), &mut self.wire, &mut self.sockets);
        self.wire.outgoing.len() > before
    }

    /// Frames that want to leave.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.wire.outgoing)
    }

    /// When it has to work again by itself.
    #[must_use]
    pub fn wakes(&mut self) -> Ps {
        let at = self.interface.poll_at(instant(self.now), &self.sockets);
        at.map_or(Ps::MAX, |at| US.saturating_mul(at.total_micros().max(0) as u64).max(self.now + US))
    }
}
