//! Frames of the simulated wire as pcapng: time stamps in nanoseconds, direction by flags, drops marked.
//!
//! Each port is two interfaces: its wire, and the frames that its NIC refused, which appear a second time at the time of their
//! refusal, with the class of drop as a comment. Packets that the program dropped are not marked: they were the host's.

use pcap_parser::{
    EnhancedPacketBlock, InterfaceDescriptionBlock, Linktype, OptionCode, PcapNGOption, SectionHeaderBlock, ToVec,
};
use std::borrow::Cow;
use std::io::{self, Write};
use wiretime_hw::wire::{Passage, Seen};

/// Ten to the power of minus nine. With picoseconds Wireshark 4.0 overflows: what passes 18.4 ms or more after a full second is
/// shown too early.
const NANOSECONDS: u8 = 9;
const PS_PER_NS: u64 = 1000;
const FLAGS: OptionCode = OptionCode(2);
const PACKET_ID: OptionCode = OptionCode(5);
const QUEUE: OptionCode = OptionCode(6);
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;
/// Longest frame, as a bound for readers.
const SNAPLEN: u32 = 1 << 18;

fn option(code: OptionCode, value: &[u8]) -> PcapNGOption<'_> {
    PcapNGOption { code, len: value.len() as u16, value: Cow::Borrowed(value) }
}

/// Options' values are padded to whole words.
fn padded(code: OptionCode, text: &str) -> PcapNGOption<'static> {
    let mut value = text.as_bytes().to_vec();
    let len = value.len() as u16;
    value.resize(value.len().next_multiple_of(4), 0);
    PcapNGOption { code, len, value: Cow::Owned(value) }
}

fn write(out: &mut impl Write, mut block: impl ToVec) -> io::Result<()> {
    let bytes = block.to_vec().map_err(|e| io::Error::other(format!("{e:?}")))?;
    out.write_all(&bytes)
}

/// A capture file being written.
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Begins a file for ports of so many bits a second each.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn new(mut out: W, ports: &[u64]) -> io::Result<Self> {
        let (none, section_len) = (0, -1);
        write(
            &mut out,
            SectionHeaderBlock {
                block_type: none,
                block_len1: none,
                bom: none,
                major_version: 1,
                minor_version: 0,
                section_len,
                options: vec![padded(OptionCode::ShbUserAppl, "Wiretime")],
                block_len2: none,
            },
        )?;
        for (port, bits) in ports.iter().enumerate() {
            for (name, about) in [
                (format!("port{port}"), "the wire of the port: in is to the NIC"),
                (format!("port{port}-dropped"), "frames that the NIC refused, when it did"),
            ] {
                let resolution = [NANOSECONDS, 0, 0, 0];
                write(
                    &mut out,
                    InterfaceDescriptionBlock {
                        block_type: none,
                        block_len1: none,
                        linktype: Linktype::ETHERNET,
                        reserved: 0,
                        snaplen: SNAPLEN,
                        options: vec![
                            padded(OptionCode::IfName, &name),
                            padded(OptionCode::IfDescription, about),
                            option(OptionCode::IfSpeed, &bits.to_le_bytes()),
                            PcapNGOption { code: OptionCode::IfTsresol, len: 1, value: Cow::Borrowed(&resolution) },
                        ],
                        block_len2: none,
                        if_tsresol: NANOSECONDS,
                        if_tsoffset: 0,
                    },
                )?;
            }
        }
        Ok(Self { out })
    }

    /// Writes a frame that a port's tap has seen.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn write(&mut self, port: usize, s: &Seen, frame: &[u8]) -> io::Result<()> {
        let (dropped, flags) = match s.passage {
            Passage::In => (None, INBOUND),
            Passage::Out => (None, OUTBOUND),
            Passage::Dropped(class) => (Some(class), INBOUND),
        };
        let at = s.at.0 / PS_PER_NS;
        let (flags, id, queue) = (flags.to_le_bytes(), s.id.to_le_bytes(), u32::from(s.queue).to_le_bytes());
        let mut options = Vec::with_capacity(4);
        if let Some(class) = dropped {
            options.push(padded(OptionCode::Comment, &format!("{class}, queue {}", s.queue)));
        }
        options.push(option(FLAGS, &flags));
        if s.id != u64::MAX {
            options.push(option(PACKET_ID, &id));
        }
        options.push(option(QUEUE, &queue));
        let mut data = frame.to_vec();
        data.resize(frame.len().next_multiple_of(4), 0);
        write(
            &mut self.out,
            EnhancedPacketBlock {
                block_type: 0,
                block_len1: 0,
                if_id: 2 * port as u32 + u32::from(dropped.is_some()),
                ts_high: (at >> 32) as u32,
                ts_low: at as u32,
                caplen: frame.len() as u32,
                origlen: frame.len() as u32,
                data: &data,
                options,
                block_len2: 0,
            },
        )
    }

    /// Leaves nothing in a buffer.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
