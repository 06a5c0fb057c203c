//! What a line holds, for attributing misses: descriptors, buffer headers, payload, code, the rest.
//!
//! The NIC tells what it reads and writes; the header of a buffer (DPDK's mbuf) stands before its data. Lines keep what
//! they were told last.

use super::LINE;
use rustc_hash::FxHashMap;
use wiretime_base::stats;

/// What a line holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Object {
    /// Nothing that the NIC knows of.
    #[default]
    Other,
    /// Descriptor rings.
    Descriptor,
    /// The 256 bytes before a receive buffer: DPDK's mbuf and its headroom.
    MbufHeader,
    /// Packet data.
    Payload,
    /// Instructions.
    Code,
}

const OBJECTS: usize = Object::Code as usize + 1;
const PAGE: u64 = 4096;
/// DPDK's `rte_mbuf` (128 B) and `RTE_PKTMBUF_HEADROOM` (128 B).
const HEADER: u64 = 256;

stats! {
    /// Misses of cores by what the line holds.
    pub struct ObjectStats {
        l2_misses_descriptor: "lines", "L2 misses on descriptor rings, prefetches among them";
        l2_misses_mbuf_header: "lines", "L2 misses on buffer headers (mbufs), prefetches among them";
        l2_misses_payload: "lines", "L2 misses on packet data, prefetches among them";
        l2_misses_code: "lines", "L2 misses on instructions, prefetches among them";
        l2_misses_other: "lines", "L2 misses on anything else, prefetches among them";
        llc_misses_descriptor: "lines", "LLC misses on descriptor rings, prefetches among them";
        llc_misses_mbuf_header: "lines", "LLC misses on buffer headers (mbufs), prefetches among them";
        llc_misses_payload: "lines", "LLC misses on packet data, prefetches among them";
        llc_misses_code: "lines", "LLC misses on instructions, prefetches among them";
        llc_misses_other: "lines", "LLC misses on anything else, prefetches among them";
    }
}

/// What lines hold, and the misses by it.
#[derive(Default)]
pub struct Objects {
    pages: FxHashMap<u64, [u8; (PAGE / LINE) as usize]>,
    l2: [u64; OBJECTS],
    llc: [u64; OBJECTS],
}

impl Objects {
    /// `length` bytes at `address` hold `object`.
    pub fn mark(&mut self, address: u64, length: u64, object: Object) {
        let mut line = address / LINE;
        let last = address.saturating_add(length.max(1) - 1) / LINE;
        while line <= last {
            let page = self.pages.entry(line / (PAGE / LINE)).or_insert([0; (PAGE / LINE) as usize]);
            let end = last.min(line | (PAGE / LINE - 1));
            page[(line % (PAGE / LINE)) as usize..=(end % (PAGE / LINE)) as usize].fill(object as u8);
            line = end + 1;
        }
    }

    /// The record of a receive buffer at `address`, which stands before it.
    pub fn mark_header(&mut self, address: u64) {
        self.mark(address.saturating_sub(HEADER), HEADER, Object::MbufHeader);
    }

    fn at(&self, line: u64, fetch: bool) -> usize {
        if fetch {
            return Object::Code as usize;
        }
        self.pages.get(&(line / (PAGE / LINE))).map_or(0, |p| p[(line % (PAGE / LINE)) as usize].into())
    }

    /// A core missed `line` in its L2, or in the LLC as well.
    pub fn missed(&mut self, line: u64, fetch: bool, llc: bool) {
        let object = self.at(line, fetch);
        if llc {
            self.llc[object] += 1;
        } else {
            self.l2[object] += 1;
        }
    }

    /// As statistics.
    #[must_use]
    pub fn stats(&self) -> ObjectStats {
        let (l2, llc) = (|o: Object| self.l2[o as usize], |o: Object| self.llc[o as usize]);
        ObjectStats {
            l2_misses_descriptor: l2(Object::Descriptor),
            l2_misses_mbuf_header: l2(Object::MbufHeader),
            l2_misses_payload: l2(Object::Payload),
            l2_misses_code: l2(Object::Code),
            l2_misses_other: l2(Object::Other),
            llc_misses_descriptor: llc(Object::Descriptor),
            llc_misses_mbuf_header: llc(Object::MbufHeader),
            llc_misses_payload: llc(Object::Payload),
            llc_misses_code: llc(Object::Code),
            llc_misses_other: llc(Object::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_and_their_headers() {
        let mut o = Objects::default();
        o.mark_header(4096 + 128);
        o.mark(4096 + 128, 200, Object::Payload);
        let lines: Vec<usize> = [4096 - 192, 4096 - 128, 4096 + 64, 4096 + 128, 4096 + 327, 4096 + 384]
            .iter()
            .map(|a| o.at(a / LINE, false))
            .collect();
        let (other, header, payload) = (Object::Other as usize, Object::MbufHeader as usize, Object::Payload as usize);
        assert_eq!(lines, [other, header, header, payload, payload, other]);
        o.missed(4096 / LINE, false, false);
        o.missed(4096 / LINE, true, true);
        assert_eq!((o.stats().l2_misses_mbuf_header, o.stats().llc_misses_code), (1, 1));
    }
}
