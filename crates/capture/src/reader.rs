//! One packet after the other out of a capture file, as Ethernet frames.

use crate::link::Link;
use crate::problem::{Damage, Problem};
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{create_reader, Block as Ng, InterfaceDescriptionBlock, PcapBlockOwned, PcapError, PcapHeader};
use std::io::Read;
use wiretime_base::Ps;
use wiretime_hw::wire::{Block, FCS, FRAME_MAX};

/// Read at a time; a block of a file that is longer than the most is damage.
const BUFFER: usize = 1 << 20;
const BUFFER_MAX: usize = 1 << 24;
/// What a section of a pcapng begins with, and the bytes of a block without content: its kind, and its length twice.
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const BLOCK_LEAST: u32 = 12;
/// Longest frame that we send, without FCS.
const LONGEST: usize = (FRAME_MAX - FCS) as usize;

/// An interface of the file: what its packets are, and its clock.
struct Interface {
    link: Link,
    /// Units a second and seconds to add.
    units: u128,
    offset: i64,
}

/// See the module.
pub struct Reader {
    reader: Box<dyn PcapReaderIterator + Send>,
    capacity: usize,
    found: Found,
}

/// What the file has shown so far.
#[derive(Default)]
struct Found {
    /// Inside a section of a pcapng: whether its numbers are big-endian.
    big_endian: Option<bool>,
    interfaces: Vec<Interface>,
    packets: u64,
    /// The first packet's time, in ps.
    first: Option<i128>,
    latest: Ps,
    /// When the latest packet so far was captured, and how many have been captured before such a one.
    last: Option<i128>,
    out_of_order: u64,
    cut: u64,
}

const SECOND: i128 = Ps::from_s(1).0 as i128;

/// What a block of the file was.
enum Got {
    Packet,
    Other,
    End,
}

impl Reader {
    /// Opens a capture.
    ///
    /// # Errors
    /// Where it is none.
    pub fn open(input: impl Read + Send + 'static) -> Result<Self, Problem> {
        let problem = |what| Problem { packet: 0, offset: 0, what };
        let reader = create_reader(BUFFER, input).map_err(|e| match e {
            PcapError::Eof => problem(Damage::Empty),
            PcapError::ReadError => problem(Damage::Unreadable),
            PcapError::Incomplete(_) => problem(Damage::EndsInHeader),
            _ => problem(Damage::NoCapture),
        })?;
        Ok(Self { reader, capacity: BUFFER, found: Found::default() })
    }

    /// Packets of which only a part was captured: the rest is zero.
    #[must_use]
    pub fn cut(&self) -> u64 {
        self.found.cut
    }

    /// Packets that had been captured before one in front of them.
    #[must_use]
    pub fn out_of_order(&self) -> u64 {
        self.found.out_of_order
    }

    /// Bytes of the file so far.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.reader.consumed() as u64
    }

    /// The next packet into `block`; false at the end of the file.
    ///
    /// # Errors
    /// Where the file is damaged, or the packet is nothing that can be sent.
    pub fn next(&mut self, block: &mut Block) -> Result<bool, Problem> {
        loop {
            let offset = self.offset();
            match self.step(block) {
                Ok(Got::Packet) => return Ok(true),
                Ok(Got::Other) => {}
                Ok(Got::End) => return Ok(false),
                Err(what) => return Err(Problem { packet: self.found.packets.max(1), offset, what }),
            }
        }
    }

    fn step(&mut self, block: &mut Block) -> Result<Got, Damage> {
        if self.found.too_short(self.reader.data()) {
            self.found.packets += 1;
            return Err(Damage::Length);
        }
        let before = self.reader.data().len();
        let (consumed, got) = match self.reader.next() {
            Ok((consumed, found)) => (consumed, self.found.take(&found, block)),
            Err(PcapError::Eof) => return Ok(Got::End),
            Err(PcapError::Incomplete(_)) => {
                if self.reader.refill().is_err() {
                    return Err(Damage::Unreadable);
                }
                if self.reader.data().len() == before && before > 0 && self.reader.reader_exhausted() {
                    self.found.packets += 1;
                    return Err(Damage::EndsInside);
                }
                return Ok(Got::Other);
            }
            Err(PcapError::BufferTooSmall) => {
                self.capacity *= 2;
                if self.capacity <= BUFFER_MAX && self.reader.grow(self.capacity) {
                    return Ok(Got::Other);
                }
                self.found.packets += 1;
                return Err(Damage::Length);
            }
            Err(e) => {
                self.found.packets += 1;
                let end = matches!(e, PcapError::UnexpectedEof);
                return Err(if end { Damage::EndsInside } else { Damage::Damaged });
            }
        };
        self.reader.consume(consumed);
        got
    }
}

impl Interface {
    /// Picoseconds of whole seconds and so many units.
    fn time(&self, seconds: i64, units: u128) -> i128 {
        i128::from(seconds.saturating_add(self.offset)) * SECOND
            + (units * u128::from(Ps::from_s(1).0) / self.units) as i128
    }
}

impl Found {
    /// Whether a block says that it is shorter than what each begins and ends with, which the parser does not look at in some.
    fn too_short(&self, data: &[u8]) -> bool {
        let (Some(big_endian), Some(length)) = (self.big_endian, data.get(4..8).and_then(|b| b.try_into().ok())) else {
            return false;
        };
        let length = if big_endian { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) };
        // A section's own header says in what order its bytes are.
        data[..4] != SECTION && length < BLOCK_LEAST
    }

    fn take(&mut self, found: &PcapBlockOwned<'_>, block: &mut Block) -> Result<Got, Damage> {
        match found {
            PcapBlockOwned::LegacyHeader(h) => self.header(h)?,
            PcapBlockOwned::Legacy(p) => {
                let time = self.interfaces.first().map(|i| i.time(p.ts_sec.into(), p.ts_usec.into()));
                return self.packet(0, time, (p.data, p.origlen as usize), block);
            }
            PcapBlockOwned::NG(Ng::SectionHeader(section)) => {
                self.big_endian = Some(section.big_endian());
                self.interfaces.clear();
            }
            PcapBlockOwned::NG(Ng::InterfaceDescription(i)) => self.interface(i)?,
            PcapBlockOwned::NG(Ng::EnhancedPacket(p)) => {
                let stamp = u128::from(p.ts_high) << 32 | u128::from(p.ts_low);
                let time = self.interfaces.get(p.if_id as usize).map(|i| i.time(0, stamp));
                let data = p.data.get(..p.caplen as usize).unwrap_or(p.data);
                return self.packet(p.if_id as usize, time, (data, p.orig_len() as usize), block);
            }
            PcapBlockOwned::NG(Ng::SimplePacket(p)) => {
                let data = p.data.get(..(p.origlen as usize).min(p.data.len())).unwrap_or(p.data);
                return self.packet(0, None, (data, p.origlen as usize), block);
            }
            PcapBlockOwned::NG(_) => {} // names, statistics, secrets
        }
        Ok(Got::Other)
    }

    fn header(&mut self, h: &PcapHeader) -> Result<(), Damage> {
        let units = if h.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
        let network = h.network.0 as u32;
        // Whether the length of the FCS is known, and that length in 16-bit words.
        let fcs = if network >> 26 & 1 != 0 { (network >> 28) as usize * 2 } else { 0 };
        let link = Link::of(pcap_parser::Linktype((network & 0xffff) as i32), fcs)?;
        self.interfaces.push(Interface { link, units, offset: 0 });
        Ok(())
    }

    fn interface(&mut self, i: &InterfaceDescriptionBlock<'_>) -> Result<(), Damage> {
        const FCS_LENGTH: u16 = 13;
        let fcs = i.options.iter().find(|o| o.code.0 == FCS_LENGTH);
        let fcs = fcs.and_then(|o| o.as_bytes().ok()?.first().map(|&bits| usize::from(bits) / 8)).unwrap_or(0);
        let power = u32::from(i.if_tsresol & 0x7f);
        let units = if i.if_tsresol & 0x80 == 0 { 10u128.checked_pow(power) } else { 1u128.checked_shl(power) };
        let units = units.filter(|&u| u <= 1 << 96);
        let units = units.ok_or(Damage::Resolution(i.if_tsresol))?;
        let link = Link::of(i.linktype, fcs)?;
        self.interfaces.push(Interface { link, units, offset: i.if_tsoffset });
        Ok(())
    }

    fn packet(
        &mut self,
        interface: usize,
        time: Option<i128>,
        (data, length): (&[u8], usize),
        block: &mut Block,
    ) -> Result<Got, Damage> {
        self.packets += 1;
        let Some(interface) = self.interfaces.get(interface) else {
            return Err(Damage::Interface(interface));
        };
        let length = length.max(data.len());
        let Some((head, head_length, rest, whole)) = interface.link.frame(data, length) else {
            return Err(Damage::TooShort(data.len()));
        };
        if whole > LONGEST {
            return Err(Damage::TooLong { bytes: whole + FCS as usize, most: LONGEST + FCS as usize });
        }
        if let Some(time) = time {
            let first = *self.first.get_or_insert(time);
            let last = self.last.map_or(time, |last| last.max(time));
            self.out_of_order += u64::from(time < last);
            self.last = Some(last);
            self.latest = Ps((time - first).clamp(0, i128::from(Ps::MAX.0 / 4)) as u64);
        } // else: with the one before it
        self.cut += u64::from(head_length + rest.len() < whole);
        block.push(self.latest, &head[..head_length], rest, whole);
        Ok(Got::Packet)
    }
}
