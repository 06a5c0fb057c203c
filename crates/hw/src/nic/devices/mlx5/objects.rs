//! Objects that a driver makes by commands: numbers, lists of pages, memory keys, queues of all kinds.

use super::compress::Session;
use super::events::ENTRY;
use super::fields::{double, get, half, number, word};
use crate::nic::notice::Level;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use wiretime_base::Ps;

/// Objects of a kind, by number. The lowest free number is given first.
#[derive(Debug)]
pub struct Numbered<T> {
    first: u32,
    list: Vec<Option<T>>,
}

/// Most objects of a kind: beyond it a command fails for want of resources.
const MOST: usize = 1 << 16;

impl<T> Numbered<T> {
    /// None yet; the first gets this number.
    pub fn from(first: u32) -> Self {
        Self { first, list: Vec::new() }
    }

    /// Adds one; none, where there are too many.
    pub fn add(&mut self, object: T) -> Option<u32> {
        let at = self.list.iter().position(Option::is_none).unwrap_or(self.list.len());
        if at >= MOST {
            return None;
        }
        if at == self.list.len() {
            self.list.push(None);
        }
        self.list[at] = Some(object);
        Some(self.first + at as u32)
    }

    #[inline]
    fn at(&self, number: u32) -> usize {
        number.wrapping_sub(self.first) as usize
    }

    /// One of them.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        self.list.get(self.at(number))?.as_ref()
    }

    /// The same.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let at = self.at(number);
        self.list.get_mut(at)?.as_mut()
    }

    /// Takes it away.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let at = self.at(number);
        self.list.get_mut(at)?.take()
    }

    /// All, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.list.iter().zip(self.first..).filter_map(|(o, n)| Some((n, o.as_ref()?)))
    }
}

/// Memory of an object: pages of one size.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    log: u32,
    offset: u64,
    list: Vec<u64>,
}

impl Pages {
    /// Pages of so many bytes (their logarithm), of whose first so many are skipped; their list as a command has it.
    #[must_use]
    pub fn new(log: u32, offset: u64, list: &[u8]) -> Self {
        let list = list.chunks_exact(8).map(|p| double(p, 0) & !0xfff).collect();
        Self { log: log.clamp(12, 40), offset, list }
    }

    /// Those of a ring, as its context has them: the logarithm of how many times 4 KiB they are, and where it begins in the first
    /// one, in 64ths of it.
    #[must_use]
    pub fn of_ring(log: u32, offset: u64, list: &[u8]) -> Self {
        Self::new(12 + log, offset << (6 + log), list)
    }

    /// The same memory, from further on.
    #[must_use]
    pub fn from(&self, offset: u64) -> Self {
        Self { offset: self.offset.wrapping_add(offset), ..self.clone() }
    }

    /// Where a byte of it is.
    #[inline]
    #[must_use]
    pub fn at(&self, offset: u64) -> Option<u64> {
        let offset = self.offset.checked_add(offset)?;
        let page = self.list.get(usize::try_from(offset >> self.log).ok()?)?;
        // A page that ends beyond all memory is none.
        page.checked_add(1 << self.log)?;
        Some(page + (offset & ((1 << self.log) - 1)))
    }

    /// The pieces that so many bytes of it lie in, and where each begins in them.
    #[must_use]
    pub fn pieces(&self, bytes: u64) -> Vec<(u64, Range<u64>)> {
        let mut found: Vec<(u64, Range<u64>)> = Vec::new();
        let mut at = 0;
        while let Some(start) = self.at(at).filter(|_| at < bytes) {
            let length = self.rest(at).min(bytes - at);
            match found.last_mut() {
                Some((_, piece)) if piece.end == start => piece.end = start + length,
                _ => found.push((at, start..start + length)),
            }
            at += length;
        }
        found
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Bytes from an offset on to the end of its page.
    #[inline]
    #[must_use]
    pub fn rest(&self, offset: u64) -> u64 {
        (1 << self.log) - (self.offset.wrapping_add(offset) & ((1 << self.log) - 1))
    }
}

/// Sizes of pages, and of pieces of other keys, as logarithms.
pub const PAGE_LEAST: u32 = 12;
pub const PIECE_LEAST: u32 = 6;
pub const PAGE_MOST: u32 = 40;

/// What a memory key translates.
#[derive(Clone, Debug)]
pub enum Translation {
    /// Addresses are physical.
    Physical,
    /// A list of pages of one size.
    Pages { log: u32, list: Vec<u64> },
    /// Pieces of other keys, of one size.
    Keys { log: u32, list: Vec<(u32, u64)> },
    /// The same, each of a length of its own.
    Lengths(Parts),
}

/// Pieces of other keys, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    parts: Vec<Segment>,
    /// Where each ends.
    ends: Vec<u64>,
}

impl Parts {
    #[must_use]
    pub fn new(parts: Vec<Segment>) -> Self {
        let mut all = Self { parts, ends: Vec::new() };
        all.add_up();
        all
    }

    /// From one on they are others, as many as there are.
    pub fn change(&mut self, from: usize, others: impl Iterator<Item = Segment>) {
        self.parts.iter_mut().skip(from).zip(others).for_each(|(part, other)| *part = other);
        self.add_up();
    }

    fn add_up(&mut self) {
        let mut end = 0;
        self.ends.clear();
        self.ends.extend(self.parts.iter().map(|part| {
            end += u64::from(part.length);
            end
        }));
    }
}

/// A memory key.
#[derive(Clone, Debug)]
pub struct Mkey {
    /// Its low byte, which every use repeats.
    pub low: u8,
    pub start: u64,
    /// Bytes; all, where it has no end.
    pub length: u64,
    pub free: bool,
    pub translation: Translation,
}

/// Most entries of a translation, and of all lists of pages and keys together: beyond it a command fails.
const ENTRIES_MOST: usize = 1 << 20;
const ENTRIES_ALL: usize = 1 << 24;

impl Mkey {
    /// Where a segment begins in it, if it is all in it.
    fn place(&self, s: Segment) -> Option<u64> {
        let at = s.address.checked_sub(self.start)?;
        at.checked_add(s.length.into()).filter(|&end| end <= self.length).map(|_| at)
    }

    /// Entries of its translation.
    #[must_use]
    pub fn entries(&self) -> usize {
        match &self.translation {
            Translation::Physical => 0,
            Translation::Pages { list, .. } => list.len(),
            Translation::Keys { list, .. } => list.len(),
            Translation::Lengths(list) => list.parts.len(),
        }
    }

    /// As a command's context and list have it.
    #[must_use]
    pub fn of(c: &[u8], list: &[u8]) -> Self {
        let page = get(c, 474, 6) as u32;
        let log = page.clamp(PAGE_LEAST, PAGE_MOST);
        let mode = get(c, 3, 3) << 2 | get(c, 22, 2);
        let entries = (word(c, 0x34) as usize).saturating_mul(2).min(ENTRIES_MOST);
        let translation = match mode {
            1 => {
                let mut pages: Vec<u64> = list.chunks_exact(8).map(|p| double(p, 0) & !0xfff).collect();
                pages.resize(entries.max(pages.len()), 0);
                Translation::Pages { log, list: pages }
            }
            2 => {
                let mut all: Vec<_> = list.chunks_exact(16).map(Segment::of).collect();
                all.resize((entries / 2).max(all.len()), Segment::default());
                Translation::Lengths(Parts::new(all))
            }
            3 => {
                let keys = |k: &[u8]| (word(k, 4), double(k, 8));
                let mut all: Vec<_> = list.chunks_exact(16).map(keys).collect();
                all.resize((entries / 2).max(all.len()), (0, 0));
                Translation::Keys { log: page.clamp(PIECE_LEAST, PAGE_MOST), list: all }
            }
            _ => Translation::Physical,
        };
        let endless = get(c, 96, 1) != 0;
        let length = if endless { u64::MAX } else { double(c, 0x18) };
        Self {
            low: c.get(7).copied().unwrap_or(0),
            start: double(c, 0x10),
            length,
            free: get(c, 1, 1) != 0,
            translation,
        }
    }
}

/// Where a doorbell record and a ring are.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    pub pages: Pages,
    /// Logarithms of entries, and of an entry's bytes.
    pub log: u32,
    pub stride: u32,
    pub record: u64,
}

impl Ring {
    /// Entries.
    #[must_use]
    pub fn entries(&self) -> u32 {
        1 << self.log
    }

    /// Where an entry is, by any count of entries.
    #[must_use]
    pub fn entry(&self, index: u32) -> Option<u64> {
        self.pages.at(u64::from(index & (self.entries() - 1)) << self.stride)
    }
}

/// A state of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Reset,
    Ready,
    Error,
}

impl State {
    /// Of its number.
    #[must_use]
    pub fn of(number: u8) -> Self {
        match number {
            1 => Self::Ready,
            3 => Self::Error,
            _ => Self::Reset,
        }
    }

    /// The one that a command's context asks for; none where it cannot be: out of error a queue comes by a reset alone.
    #[must_use]
    pub fn then(self, context: &[u8]) -> Option<Self> {
        let next = Self::of(context.get(1).map_or(0, |b| b >> 4));
        (self != Self::Error || next != Self::Ready).then_some(next)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Reset => 0,
            Self::Ready => 1,
            Self::Error => 3,
        }
    }
}

/// A queue of events.
#[derive(Debug, Default)]
pub struct Eq {
    pub ring: Ring,
    pub vector: u16,
    pub mask: u64,
    pub produced: u32,
    pub armed: bool,
    /// When all that is written to it is in memory.
    pub visible: Ps,
}

/// A queue of completions.
#[derive(Debug, Default)]
pub struct Cq {
    pub ring: Ring,
    pub eq: u32,
    pub produced: u32,
    /// Software wants to hear of what comes behind this.
    pub armed: Option<u32>,
    /// Moderation: an event at so many completions, or so long after the last event; or, where it restarts, after the last
    /// completion (NVIDIA's headers, of `cq_period_mode`: "timer restarts upon event generation", "upon completion generation").
    pub count: u16,
    pub period: Ps,
    pub restarts: bool,
    pub unreported: u16,
    pub last_event: Ps,
    pub last_completion: Ps,
    pub timer: u32,
    /// When the event is due that has been put off.
    pub due: Option<Ps>,
    /// Completions that share an entry, where software takes such.
    pub session: Option<Box<Session>>,
}

impl Cq {
    /// Where the entry of number `n` is, counted over all turns: its slot, and its address.
    #[must_use]
    pub fn slot(&self, n: u32) -> (u32, Option<u64>) {
        let index = n & (self.ring.entries() - 1);
        // Of a slot of 128 bytes the second half holds the entry.
        let last = (1 << self.ring.stride) - ENTRY as u64;
        (index, self.ring.entry(index).map(|at| at.wrapping_add(last)))
    }

    /// The owner bit of that entry, which flips each turn.
    #[must_use]
    pub fn turn(&self, n: u32) -> u8 {
        (n >> self.ring.log & 1) as u8
    }

    /// When an event may tell of what is there, if no more comes.
    #[must_use]
    pub fn event_due(&self) -> Ps {
        self.period + if self.restarts { self.last_completion } else { self.last_event }
    }

    /// So many entries more are written at `t`.
    pub fn produce(&mut self, t: Ps, count: u32) {
        self.last_completion = self.last_completion.max(t);
        self.produced = self.produced.wrapping_add(count) & 0xff_ffff;
        self.unreported = self.unreported.saturating_add(count as u16);
    }
}

/// A piece of memory that a work request names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    pub length: u32,
    pub key: u32,
    pub address: u64,
}

impl Segment {
    /// As it stands in a work request.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self { length: word(bytes, 0), key: word(bytes, 4), address: double(bytes, 8) }
    }
}

/// Pieces of a receive request, at most: as many as requests are long that the device announces.
pub const SEGMENTS: usize = 32;

/// A receive request that is here.
#[derive(Clone, Debug, Default)]
pub struct Posted {
    /// Its entry.
    pub index: u16,
    /// Its pieces: nearly always one.
    pub first: Segment,
    pub more: Vec<Segment>,
}

/// How a receive queue takes packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A request a packet, in order.
    #[default]
    Cyclic,
    /// The same, each naming the next.
    Linked,
    /// Many packets a request, each from a stride on.
    Striding { linked: bool, strides: u32, stride: u32, shift: u32 },
}

/// A queue of receive requests.
#[derive(Debug, Default)]
pub struct Rq {
    pub state: State,
    pub kind: Kind,
    pub ring: Ring,
    pub cq: u32,
    pub counter: u32,
    /// A user context made it, not the kernel; its completions tell the program's name of it.
    pub user: bool,
    pub user_index: u32,
    /// Its number in the books, once it has got a packet.
    pub lane: Option<u16>,
    /// Counts of requests: posted as far as is known, read or being read, used up.
    pub posted: u16,
    pub fetched: u16,
    pub taken: u16,
    /// Of linked ones: which entry is next to be read.
    pub next: u16,
    pub held: VecDeque<Posted>,
    pub fetching: u16,
    /// When all that is being read is here.
    pub here_by: Ps,
    /// The doorbell record is being read; the last time it told of nothing new.
    pub looking: bool,
    pub looked: bool,
    pub looked_at: Ps,
    /// Strides used of the request at the front.
    pub used: u32,
    /// VLAN tags are taken off, and told of by completions.
    pub strips: bool,
    /// The FCS is written, too.
    pub keeps_fcs: bool,
    pub epoch: u32,
}

impl Rq {
    /// A program polls it: it is no kernel's, nor one of a single request where packets go that nobody wants.
    #[must_use]
    pub fn of_program(&self) -> bool {
        self.user && self.ring.log > 0
    }
}

/// A queue of send requests.
#[derive(Debug, Default)]
pub struct Sq {
    pub state: State,
    pub ring: Ring,
    pub cq: u32,
    /// As of a receive queue; it has sent a packet.
    pub user: bool,
    pub user_index: u32,
    /// It has a transport, and can send packets.
    pub transport: bool,
    pub lane: Option<u16>,
    /// Counts of basic blocks of 64 bytes: posted, read or being read, here, worked on, finished.
    pub posted: u16,
    pub fetched: u16,
    pub here: u16,
    pub parsed: u16,
    pub done: u16,
    /// When all that is being read is here.
    pub here_by: Ps,
    /// Packets of requests that are here.
    pub work: VecDeque<super::send::Work>,
    /// The request that put it in error has more packets.
    pub failing: bool,
    /// When the last doorbell came, and from when on another packet can be taken.
    pub rung: Ps,
    pub ready: Ps,
    pub epoch: u32,
}

impl Sq {
    /// How full the ring is, in blocks: what has been posted and is not finished.
    #[must_use]
    pub fn level(&self) -> Level {
        Level { posted: self.posted.wrapping_sub(self.done).into(), entries: self.ring.entries() }
    }
}

/// The largest ring of work that capabilities announce.
const RING_LOG_MAX: u32 = 15;

/// A ring and its record as a command's context of a work queue has them.
#[must_use]
pub fn work_ring(wq: &[u8], list: &[u8], umems: &Numbered<Pages>, log: u32) -> Option<Ring> {
    let pages = if get(wq, 289, 1) != 0 {
        umems.get(word(wq, 0x2c))?.from(double(wq, 0x30))
    } else {
        Pages::of_ring(get(wq, 275, 5) as u32, get(wq, 43, 5), list)
    };
    let record = double(wq, 0x10);
    let record = if get(wq, 288, 1) != 0 { umems.get(word(wq, 0x28))?.at(record)? } else { record };
    let entries = get(wq, 283, 5) as u32;
    (entries <= RING_LOG_MAX).then_some(Ring { pages, log: entries, stride: log, record })
}

/// Where packets of a kind go: to one queue, or to one of a table by their hash.
pub struct Tir {
    pub queue: u32,
    /// Indirect: the table.
    pub table: Option<u32>,
    pub hash: crate::nic::blocks::toeplitz::Toeplitz,
    pub hashes: bool,
    /// All bytes of the input by exclusive or, inverted, instead of Toeplitz's.
    pub xor: bool,
    /// Both directions of a flow hash alike: of source and destination are hashed their or and their exclusive or. Linux asks
    /// for it (`ethtool -x`: symmetric-or-xor), DPDK does not unless a rule does.
    pub symmetric: bool,
    pub selector: u32,
}

impl Tir {
    /// What one takes of the entries that all lists share: tables for its hash, 36 KiB.
    pub const ENTRIES: usize = 36 * 256 * 4 / 8;

    /// Takes what a mask says from another context (bit 0: large receive; 1: the table; 2: the hash; 4: self loop).
    pub fn modify(&mut self, mask: u64, c: &[u8]) {
        if mask & 1 << 1 != 0 {
            // Whether there is a table stays as it is: drivers say nothing of that here.
            match &mut self.table {
                Some(table) => *table = number(c, 0x20),
                None => self.queue = number(c, 0x1c),
            }
        }
        if mask & 1 << 2 != 0 {
            let (queue, table) = (self.queue, self.table);
            *self = Self { queue, table, ..Self::of(c) };
        }
    }

    /// As a command's context has it.
    #[must_use]
    pub fn of(c: &[u8]) -> Self {
        let mut key = [0; 40];
        if let Some(there) = c.get(0x28..0x50) {
            key.copy_from_slice(there);
        }
        Self {
            queue: number(c, 0x1c),
            table: (get(c, 32, 4) == 1).then(|| number(c, 0x20)),
            hash: crate::nic::blocks::toeplitz::Toeplitz::new(&key),
            hashes: matches!(get(c, 288, 4), 1 | 2),
            xor: get(c, 288, 4) == 1,
            symmetric: get(c, 256, 1) == 1,
            selector: word(c, 0x50),
        }
    }

    /// The hash of an input.
    #[must_use]
    pub fn hash_of(&self, input: &[u8]) -> u32 {
        if self.xor {
            return u32::from(!input.iter().fold(0, |x, byte| x ^ byte));
        }
        self.hash.hash(input)
    }
}

/// Everything.
pub struct Objects {
    pub umems: Numbered<Pages>,
    pub keys: Numbered<Mkey>,
    pub eqs: Numbered<Eq>,
    pub cqs: Numbered<Cq>,
    pub rqs: Numbered<Rq>,
    pub sqs: Numbered<Sq>,
    pub tirs: Numbered<Tir>,
    pub tables: Numbered<Vec<u32>>,
    /// What has a number and nothing else: by what makes it.
    pub plain: BTreeMap<u16, Numbered<()>>,
    /// Where completions of commands go.
    pub command_eq: Option<u32>,
    /// Entries of all lists.
    entries: usize,
}

impl Default for Objects {
    fn default() -> Self {
        Self {
            umems: Numbered::from(1),
            keys: Numbered::from(0x100),
            eqs: Numbered::from(1),
            cqs: Numbered::from(64),
            rqs: Numbered::from(0x100),
            sqs: Numbered::from(0x4000),
            tirs: Numbered::from(0x10),
            tables: Numbered::from(1),
            plain: BTreeMap::new(),
            command_eq: None,
            entries: 0,
        }
    }
}

impl Objects {
    /// Calls `each` with pieces of physical memory that make up a segment; false where its key does not cover it.
    pub fn translate(&self, s: Segment, each: &mut impl FnMut(u64, u32)) -> bool {
        self.translated(s, 0, each)
    }

    fn translated(&self, s: Segment, depth: u32, each: &mut impl FnMut(u64, u32)) -> bool {
        let Some(key) = self.keys.get(s.key >> 8).filter(|k| u32::from(k.low) == s.key & 0xff && !k.free) else {
            return false;
        };
        let place = key.place(s).filter(|_| depth <= 2);
        let (log, most) = match &key.translation {
            Translation::Physical => {
                each(s.address, s.length);
                return true;
            }
            Translation::Pages { log, list } => (*log, list.len()),
            Translation::Keys { log, list } => (*log, list.len()),
            Translation::Lengths(list) => {
                return place.is_some_and(|at| self.translated_by_lengths((at, s.length), list, depth, each));
            }
        };
        let Some(mut at) = place else { return false };
        // Pages are counted from that which the start is in.
        at += key.start & ((1 << log) - 1);
        let mut rest = s.length;
        while rest > 0 {
            let (entry, within) = ((at >> log) as usize, at & ((1 << log) - 1));
            let piece = u64::from(rest).min((1 << log) - within) as u32;
            if entry >= most {
                return false;
            }
            let good = match &key.translation {
                Translation::Pages { list, .. } if list[entry] != 0 && list[entry].checked_add(1 << log).is_some() => {
                    each(list[entry] + within, piece);
                    true
                }
                Translation::Keys { list, .. } if list[entry].0 != 0 => {
                    let (key, address) = list[entry];
                    let s = Segment { length: piece, key, address: address.wrapping_add(within) };
                    self.translated(s, depth + 1, each)
                }
                _ => false,
            };
            if !good {
                return false;
            }
            at += u64::from(piece);
            rest -= piece;
        }
        true
    }

    fn translated_by_lengths(
        &self,
        (mut at, mut rest): (u64, u32),
        list: &Parts,
        depth: u32,
        each: &mut impl FnMut(u64, u32),
    ) -> bool {
        while rest > 0 {
            // The first that ends behind it: those of no length are nowhere.
            let n = list.ends.partition_point(|&end| end <= at);
            let Some((part, &end)) = list.parts.get(n).zip(list.ends.get(n)) else { return false };
            let piece = u64::from(rest).min(end - at) as u32;
            let within = u64::from(part.length) - (end - at);
            let s = Segment { length: piece, key: part.key, address: part.address.wrapping_add(within) };
            if part.key == 0 || !self.translated(s, depth + 1, each) {
                return false;
            }
            at += u64::from(piece);
            rest -= piece;
        }
        true
    }

    /// Whether there is room for a list of so many entries, which it then has.
    pub fn affords(&mut self, entries: usize) -> bool {
        let good = self.entries + entries <= ENTRIES_ALL;
        self.entries += if good { entries } else { 0 };
        good
    }

    /// A list of so many entries is gone.
    pub fn gives_back(&mut self, entries: usize) {
        self.entries = self.entries.saturating_sub(entries);
    }

    /// A number for what has nothing else.
    pub fn plain(&mut self, kind: u16, first: u32) -> Option<u32> {
        self.plain.entry(kind).or_insert_with(|| Numbered::from(first)).add(())
    }
}

/// Bits of a hash's selector.
pub const SOURCE: u32 = 1;
pub const DESTINATION: u32 = 2;
pub const SOURCE_PORT: u32 = 4;
pub const DESTINATION_PORT: u32 = 8;

/// A half word of a doorbell record in memory, as the device reads it.
#[must_use]
pub fn count_of(record: &[u8; 4]) -> u16 {
    half(record, 2)
}

#[cfg(test)]
mod tests {
    use super::super::fields::place;
    use super::*;

    #[test]
    fn numbers_are_given_again() {
        let mut n = Numbered::from(16);
        assert_eq!((n.add('a'), n.add('b'), n.add('c')), (Some(16), Some(17), Some(18)));
        assert_eq!((n.remove(17), n.remove(17), n.get(17)), (Some('b'), None, None));
        assert_eq!((n.add('d'), n.get(0), n.get(99)), (Some(17), None, None));
        assert_eq!(n.iter().map(|(i, _)| i).collect::<Vec<_>>(), [16, 17, 18]);
    }

    /// As drivers write it: of what is not to change the context says nothing.
    #[test]
    fn a_receiver_changes_as_the_mask_says() {
        let mut c = vec![0; 0x54];
        place(&mut c, 4, &[1 << 4]);
        place(&mut c, 0x20, &7u32.to_be_bytes());
        let mut tir = Tir::of(&c);
        assert_eq!((tir.table, tir.hashes, tir.selector), (Some(7), false, 0));
        let mut other = vec![0; 0x54];
        place(&mut other, 0x20, &9u32.to_be_bytes());
        tir.modify(2, &other);
        assert_eq!(tir.table, Some(9));
        // An exclusive or, symmetric, of addresses.
        place(&mut other, 0x20, &[1 << 7, 0, 0, 0, 1 << 4]);
        place(&mut other, 0x50, &(SOURCE | DESTINATION).to_be_bytes());
        tir.modify(8 | 16, &other);
        assert!(!tir.hashes, "others' bits");
        tir.modify(4, &other);
        assert!(tir.hashes && tir.xor && tir.symmetric);
        assert_eq!((tir.table, tir.selector), (Some(9), SOURCE | DESTINATION));
        let mut direct = Tir::of(&[0; 0x54]);
        place(&mut other, 0x1c, &5u32.to_be_bytes());
        direct.modify(2, &other);
        assert_eq!((direct.table, direct.queue), (None, 5));
    }

    fn list(pages: &[u64]) -> Vec<u8> {
        pages.iter().flat_map(|p| p.to_be_bytes()).collect()
    }

    #[test]
    fn pages_need_not_follow_each_other() {
        let p = Pages::new(12, 0x100, &list(&[0x5000, 0x9000]));
        assert_eq!((p.at(0), p.at(0xeff), p.at(0xf00), p.at(0x1f00)), (Some(0x5100), Some(0x5fff), Some(0x9000), None));
        assert_eq!(p.pieces(0xf00), [(0, 0x5100..0x6000)]);
        assert_eq!(p.pieces(0xf01), [(0, 0x5100..0x6000), (0xf00, 0x9000..0x9001)]);
        let p = Pages::new(12, 0, &list(&[0x5000, 0x6000]));
        assert_eq!(p.pieces(0x2000), [(0, 0x5000..0x7000)], "these do");
        assert_eq!((p.from(0x1000).at(4), p.rest(0x10)), (Some(0x6004), 0xff0));
    }

    /// The offset of a ring in its first page is in 64ths of a page.
    #[test]
    fn rings_begin_where_their_page_says() {
        for (log, offset, begins) in [(0u8, 3u8, 0x5000 + 3 * 64), (9, 18, (2 << 20) + 18 * 32768)] {
            let mut wq = vec![0; 0xc0];
            // Bits 275 to 279, and 43 to 47.
            (wq[34], wq[5]) = (log, offset);
            let first = if log == 0 { 0x5000u64 } else { 2 << 20 };
            let ring = work_ring(&wq, &first.to_be_bytes(), &Numbered::from(1), 6).expect("a ring");
            assert_eq!(ring.pages.at(0), Some(begins));
        }
    }

    #[test]
    fn every_access_lies_in_a_living_key() {
        let mut o = Objects::default();
        let key = |start, length, translation| Mkey { low: 7, start, length, free: false, translation };
        let pages = Translation::Pages { log: 12, list: vec![0x10000, 0x30000] };
        let number = o.keys.add(key(0x8000, 0x1800, pages)).unwrap();
        let name = number << 8 | 7;
        let mut found = Vec::new();
        let mut ask = |key, address, length| {
            found.clear();
            let good = o.translate(Segment { length, key, address }, &mut |at, n| found.push((at, n)));
            (good, found.clone())
        };
        assert_eq!(ask(name, 0x8ff0, 0x20), (true, vec![(0x10ff0, 0x10), (0x30000, 0x10)]));
        assert!(!ask(name, 0x97f0, 0x20).0 && !ask(name, 0x7fff, 1).0, "beyond its ends");
        assert!(!ask(name + 1, 0x8000, 1).0 && !ask(5 << 8, 0x8000, 1).0, "another, or none");
        o.keys.get_mut(number).unwrap().free = true;
        assert!(!o.translate(Segment { length: 1, key: name, address: 0x8000 }, &mut |_, _| ()));
    }

    /// Pieces of other keys, each of its own length: as AF_XDP's frames of 2 KiB, each with a page behind it for what is too long.
    #[test]
    fn pieces_of_other_keys_have_their_lengths() {
        let mut o = Objects::default();
        let physical = Mkey { low: 1, start: 0, length: u64::MAX, free: false, translation: Translation::Physical };
        let all = o.keys.add(physical).unwrap() << 8 | 1;
        let piece = |length, address| Segment { length, key: all, address };
        let list =
            vec![piece(2048, 0x10000), piece(2048, 0x90000), piece(0, 1), piece(2048, 0x11000), piece(2048, 0x90000)];
        let translation = Translation::Lengths(Parts::new(list));
        let number = o.keys.add(Mkey { low: 0, start: 0x40, length: 8192, free: false, translation }).unwrap();
        let ask = |address, length| {
            let mut found = Vec::new();
            let good = o.translate(Segment { length, key: number << 8, address }, &mut |at, n| found.push((at, n)));
            (good, found)
        };
        assert_eq!(ask(0x40 + 4096, 64), (true, vec![(0x11000, 64)]), "the second frame");
        assert_eq!(ask(0x40 + 4000, 200), (true, vec![(0x90000 + 1952, 96), (0x11000, 104)]));
        assert!(!ask(0x40 + 8000, 300).0 && !ask(0, 4).0);
    }
}
