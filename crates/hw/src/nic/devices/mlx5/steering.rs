//! Flow steering: tables of entries that match fields of outer headers, lead to further tables, or to where packets are
//! received. The root table is where each packet begins; an entry of the lowest index that matches wins.
//!
//! An entry counts what it matches where it names counters.
//!
//! Left out: inner headers, tunnels, registers and metadata (entries that match them are refused), changing packets,
//! counters that are made many at a time.

use super::fields::{get, half, number, put, word};
use super::objects::Numbered;
use crate::nic::blocks::checks::{self, L3, L4};
use std::collections::BTreeMap;

/// Words of the headers that are matched.
const WORDS: usize = 16;
/// Headers as entries match them.
pub type Headers = [u32; WORDS];

/// Bytes of a mask, of which those behind the outer headers match what is not modelled.
const MASK: usize = 512;
/// Longest chain of tables.
const CHAIN: usize = 64;
/// Most groups and entries of all tables, and destinations of an entry.
const ENTRIES: usize = 1 << 17;
const DESTINATIONS: usize = 64;

/// The next header of an IPv6 fragment.
const FRAGMENT: u8 = 44;

const ACTION_DROP: u16 = 2;
const ACTION_FORWARD: u16 = 4;
const ACTION_COUNT: u16 = 8;
const TO_TABLE: u8 = 1;
const TO_TIR: u8 = 2;

/// An entry: words that it looks at with mask and value; where it leads.
#[derive(Debug)]
struct Entry {
    matches: Vec<(u8, u32, u32)>,
    action: u16,
    tag: u32,
    table: Option<u32>,
    receivers: Vec<u32>,
    counters: Vec<u32>,
}

/// What a counter has counted: packets, and bytes of them, without their checksum.
pub type Counted = [u64; 2];

/// A group: entries that look at the same bits.
#[derive(Debug)]
struct Group {
    mask: Vec<u8>,
}

#[derive(Debug, Default)]
struct Table {
    /// Where what matches nothing goes on.
    miss: Option<u32>,
    groups: BTreeMap<u32, Group>,
    entries: BTreeMap<u32, Entry>,
}

/// All tables.
pub struct Steering {
    tables: Numbered<Table>,
    /// Groups and entries that there are.
    count: usize,
    groups: u32,
    /// Of entries.
    pub counters: Numbered<Counted>,
    /// Of receiving.
    root: Option<u32>,
}

/// Why a command about tables fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such table or group.
    BadIndex,
    /// It asks for what is not offered.
    BadParameter,
    /// There are too many.
    NoResources,
}

impl Default for Steering {
    fn default() -> Self {
        Self { tables: Numbered::from(1), count: 0, groups: 0, counters: Numbered::from(1), root: None }
    }
}

fn miss(c: &[u8]) -> Option<u32> {
    (c.first().copied().unwrap_or(0) & 0xf == 1).then(|| number(c, 4))
}

/// Which table a command is about.
fn table_of(input: &[u8]) -> u32 {
    number(input, 0x14)
}

impl Steering {
    /// `CREATE_FLOW_TABLE`.
    pub fn create(&mut self, input: &[u8]) -> Result<u32, Refused> {
        let c = input.get(0x18..).unwrap_or_default();
        self.tables.add(Table { miss: miss(c), ..Table::default() }).ok_or(Refused::NoResources)
    }

    /// `MODIFY_FLOW_TABLE`.
    pub fn modify(&mut self, input: &[u8]) -> Result<(), Refused> {
        let c = input.get(0x18..).unwrap_or_default();
        self.tables.get_mut(table_of(input)).ok_or(Refused::BadIndex)?.miss = miss(c);
        Ok(())
    }

    /// `DESTROY_FLOW_TABLE`.
    pub fn destroy(&mut self, input: &[u8]) -> Result<(), Refused> {
        let table = self.tables.remove(table_of(input)).ok_or(Refused::BadIndex)?;
        self.count = self.count.saturating_sub(table.groups.len() + table.entries.len());
        Ok(())
    }

    /// `SET_FLOW_TABLE_ROOT`.
    pub fn set_root(&mut self, input: &[u8]) {
        if input.get(0x10) == Some(&0) {
            self.root = Some(table_of(input));
        }
    }

    /// `CREATE_FLOW_GROUP`.
    pub fn create_group(&mut self, input: &[u8]) -> Result<u32, Refused> {
        let table = self.tables.get_mut(table_of(input)).ok_or(Refused::BadIndex)?;
        let mut mask = input.get(0x40..0x40 + MASK).unwrap_or_default().to_vec();
        mask.resize(MASK, 0);
        if mask[4 * WORDS..].iter().any(|&byte| byte != 0) {
            return Err(Refused::BadParameter);
        }
        if self.count >= ENTRIES {
            return Err(Refused::NoResources);
        }
        self.count += 1;
        self.groups += 1;
        table.groups.insert(self.groups, Group { mask });
        Ok(self.groups)
    }

    /// `DESTROY_FLOW_GROUP`.
    pub fn destroy_group(&mut self, input: &[u8]) -> Result<(), Refused> {
        let table = self.tables.get_mut(table_of(input)).ok_or(Refused::BadIndex)?;
        table.groups.remove(&number(input, 0x18)).ok_or(Refused::BadIndex)?;
        self.count = self.count.saturating_sub(1);
        Ok(())
    }

    /// `SET_FLOW_TABLE_ENTRY`.
    pub fn set_entry(&mut self, input: &[u8]) -> Result<(), Refused> {
        let table = self.tables.get_mut(table_of(input)).ok_or(Refused::BadIndex)?;
        let c = input.get(0x40..).unwrap_or_default();
        let group = table.groups.get(&word(c, 4)).ok_or(Refused::BadIndex)?;
        let value = c.get(0x40..).unwrap_or_default();
        let looks = |at: usize| {
            let mask = word(&group.mask, 4 * at);
            (mask != 0).then(|| (at as u8, mask, word(value, 4 * at) & mask))
        };
        let matches = (0..WORDS).filter_map(looks).collect();
        let (count, counted) = (number(c, 0x10) as usize, number(c, 0x14) as usize);
        if count + counted > DESTINATIONS || self.count >= ENTRIES {
            return Err(Refused::NoResources);
        }
        let (mut next, mut receivers) = (None, Vec::new());
        for at in (0..count).map(|i| 0x300 + 8 * i) {
            match c.get(at) {
                Some(&TO_TABLE) => next = Some(number(c, at)),
                Some(&TO_TIR) => receivers.push(number(c, at)),
                _ => {} // another device's port, or a way to send
            }
        }
        let (action, tag) = (half(c, 0xe), number(c, 8));
        // Behind the destinations.
        let counters = (count..count + counted).filter(|_| action & ACTION_COUNT != 0);
        let counters = counters.map(|i| number(c, 0x300 + 8 * i)).collect();
        let entry = Entry { matches, action, tag, table: next, receivers, counters };
        self.count += usize::from(table.entries.insert(word(input, 0x20), entry).is_none());
        Ok(())
    }

    /// `DELETE_FLOW_TABLE_ENTRY`.
    pub fn delete_entry(&mut self, input: &[u8]) -> Result<(), Refused> {
        let table = self.tables.get_mut(table_of(input)).ok_or(Refused::BadIndex)?;
        table.entries.remove(&word(input, 0x20)).ok_or(Refused::BadIndex)?;
        self.count = self.count.saturating_sub(1);
        Ok(())
    }

    /// What counters from `first` on have counted, as many as `output` has room for: what is no counter has counted nothing.
    /// Those that are cleared begin anew.
    pub fn read_counters(&mut self, first: u32, clear: bool, output: &mut [u8]) {
        for (i, place) in output.chunks_exact_mut(16).enumerate() {
            let counted = self.counters.get_mut(first.wrapping_add(i as u32));
            let values = counted.as_deref().copied().unwrap_or_default();
            for (bytes, value) in place.chunks_exact_mut(8).zip(values) {
                bytes.copy_from_slice(&value.to_be_bytes());
            }
            if let Some(counted) = counted.filter(|_| clear) {
                *counted = Counted::default();
            }
        }
    }

    /// Where a packet of so many bytes with these headers is received, and the tag that says by which rule; `to` gets each
    /// place.
    pub fn steer(&mut self, headers: &Headers, bytes: u64, mut to: impl FnMut(u32, u32)) {
        let Self { tables, counters, .. } = self;
        let mut at = self.root;
        for _ in 0..CHAIN {
            let Some(table) = at.and_then(|number| tables.get(number)) else { return };
            let hit =
                table.entries.values().find(|e| e.matches.iter().all(|&(i, m, v)| headers[usize::from(i)] & m == v));
            for counter in hit.map_or(&[][..], |e| &e.counters) {
                if let Some([packets, octets]) = counters.get_mut(*counter) {
                    (*packets, *octets) = (*packets + 1, *octets + bytes);
                }
            }
            at = match hit {
                None => table.miss,
                Some(e) if e.action & ACTION_FORWARD != 0 && e.action & ACTION_DROP == 0 => {
                    e.receivers.iter().for_each(|&receiver| to(receiver, e.tag));
                    e.table
                }
                Some(_) => None,
            };
        }
    }
}

/// The outer headers of a frame, as entries match them.
#[must_use]
pub fn headers(f: &[u8]) -> Headers {
    let mut b = [0; 4 * WORDS];
    let mut copy = |to: usize, from: usize, count: usize| {
        if let Some(bytes) = f.get(from..from + count) {
            b[to..to + count].copy_from_slice(bytes);
        }
    };
    copy(0, 6, 6);
    copy(8, 0, 6);
    let tagged = half(f, 12) == 0x8100;
    let kind = if tagged { 16 } else { 12 };
    copy(6, kind, 2);
    if tagged {
        copy(0xe, 14, 2);
    }
    let l = checks::layout(f);
    let ip = l.network;
    match l.l3 {
        L3::V4 => {
            copy(0x10, ip + 9, 1);
            copy(0x11, ip + 1, 1);
            copy(0x1b, ip + 8, 1);
            copy(0x2c, ip + 12, 4);
            copy(0x3c, ip + 16, 4);
        }
        L3::V6 => {
            copy(0x10, ip + 6, 1);
            copy(0x1b, ip + 7, 1);
            copy(0x20, ip + 8, 16);
            copy(0x30, ip + 24, 16);
        }
        L3::None => {}
    }
    match l.l4 {
        L4::Tcp => copy(0x14, l.transport, 4),
        L4::Udp => copy(0x1c, l.transport, 4),
        L4::None => {}
    }
    let fragment = match l.l3 {
        L3::V4 => half(f, ip + 6) & 0x3fff != 0,
        L3::V6 => {
            b[0x11] = (half(f, ip) >> 4) as u8; // traffic class
            f.get(ip + 6) == Some(&FRAGMENT)
        }
        L3::None => false,
    };
    put(&mut b, (144, 1, tagged.into()));
    put(&mut b, (146, 1, fragment.into()));
    put(&mut b, (147, 4, [0, 4, 6][l.l3 as usize]));
    if l.l4 == L4::Tcp {
        put(&mut b, (151, 9, get(f, (l.transport as u32 + 12) * 8 + 7, 9)));
    }
    std::array::from_fn(|i| word(&b, 4 * i))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::devices::mlx5::fields::{double, place};

    fn frame(destination: [u8; 6], port: u16) -> Vec<u8> {
        let mut f = vec![0; 64];
        f[..6].copy_from_slice(&destination);
        f[12..14].copy_from_slice(&[8, 0]);
        f[14..24].copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17]);
        f[36..38].copy_from_slice(&port.to_be_bytes());
        f
    }

    fn command(table: u32, parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut b = vec![0; 0x400];
        place(&mut b, 0x14, &table.to_be_bytes());
        parts.iter().for_each(|(at, bytes)| place(&mut b, *at, bytes));
        b
    }

    fn receivers(s: &mut Steering, f: &[u8]) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        s.steer(&headers(f), 60, |tir, tag| found.push((tir, tag)));
        found
    }

    #[test]
    fn the_lowest_entry_that_matches_wins_and_tables_follow_each_other() {
        let mut s = Steering::default();
        let (second, first) = (s.create(&command(0, &[])).unwrap(), s.create(&command(0, &[])).unwrap());
        s.set_root(&command(first, &[]));
        // By destination port of UDP.
        let by_port = s.create_group(&command(first, &[(0x40 + 0x1e, &[0xff, 0xff])])).unwrap();
        let all = s.create_group(&command(second, &[])).unwrap();
        let to = |group: u32, action: u16, kind: u8, number: u32, tag: u32| {
            [(0x44, group), (0x48, tag), (0x4c, u32::from(action)), (0x50, 1), (0x340, u32::from(kind) << 24 | number)]
        };
        let entry = |table, index: u32, words: [(usize, u32); 5], port: u16| {
            let mut b = command(table, &[(0x20, &index.to_be_bytes()), (0x80 + 0x1e, &port.to_be_bytes())]);
            words.iter().for_each(|(at, word)| place(&mut b, *at, &word.to_be_bytes()));
            b
        };
        s.set_entry(&entry(first, 3, to(by_port, ACTION_FORWARD, TO_TIR, 77, 5), 319)).unwrap();
        s.set_entry(&entry(first, 9, to(by_port, ACTION_FORWARD, TO_TIR, 78, 0), 319)).unwrap();
        s.set_entry(&entry(second, 0, to(all, ACTION_FORWARD, TO_TIR, 79, 0), 0)).unwrap();
        assert_eq!(receivers(&mut s, &frame([2; 6], 319)), [(77, 5)]);
        assert_eq!(receivers(&mut s, &frame([2; 6], 320)), [], "a table without a miss");
        s.modify(&command(first, &[(0x18, &[1]), (0x1c, &second.to_be_bytes())])).unwrap();
        assert_eq!(receivers(&mut s, &frame([2; 6], 320)), [(79, 0)]);
        s.set_entry(&entry(first, 3, to(by_port, ACTION_DROP, TO_TIR, 77, 5), 319)).unwrap();
        assert_eq!(receivers(&mut s, &frame([2; 6], 319)), []);
        s.delete_entry(&command(first, &[(0x20, &3u32.to_be_bytes())])).unwrap();
        assert_eq!(receivers(&mut s, &frame([2; 6], 319)), [(78, 0)]);
        // A table that leads to itself ends.
        s.modify(&command(second, &[(0x18, &[1]), (0x1c, &second.to_be_bytes())])).unwrap();
        s.delete_entry(&command(second, &[])).unwrap();
        assert_eq!(receivers(&mut s, &frame([2; 6], 1)), []);
    }

    /// What is dropped, too; a packet counts in every table that it comes through, by the entry that wins.
    #[test]
    fn entries_count_what_they_match() {
        let mut s = Steering::default();
        let (second, first) = (s.create(&command(0, &[])).unwrap(), s.create(&command(0, &[])).unwrap());
        s.set_root(&command(first, &[]));
        let counters = [(); 3].map(|()| s.counters.add(Counted::default()).unwrap());
        let action = u32::from(ACTION_FORWARD | ACTION_COUNT);
        for (table, index, action, to, counter) in [
            (first, 0u32, action, u32::from(TO_TABLE) << 24 | second, counters[0]),
            (first, 9, action, u32::from(TO_TIR) << 24 | 7, counters[1]),
            (second, 0, u32::from(ACTION_DROP | ACTION_COUNT), u32::from(TO_TIR) << 24 | 7, counters[2]),
        ] {
            let group = s.create_group(&command(table, &[])).unwrap();
            let mut b = command(table, &[(0x20, &index.to_be_bytes())]);
            let words = [(0x44, group), (0x4c, action), (0x50, 1), (0x54, 1), (0x340, to), (0x348, counter)];
            words.iter().for_each(|(at, word)| place(&mut b, *at, &word.to_be_bytes()));
            s.set_entry(&b).unwrap();
        }
        for _ in 0..3 {
            assert_eq!(receivers(&mut s, &frame([2; 6], 1)), []);
        }
        let read = |s: &mut Steering, first, clear| {
            let mut b = [0xff; 4 * 16 + 3];
            s.read_counters(first, clear, &mut b);
            let values: Vec<_> = b.chunks_exact(16).map(|c| [double(c, 0), double(c, 8)]).collect();
            values
        };
        let seen = [[3, 180], [0, 0], [3, 180], [0, 0]];
        assert_eq!(read(&mut s, counters[0], false), seen);
        assert_eq!(
            (read(&mut s, counters[0], true), read(&mut s, counters[2], true)),
            (seen.to_vec(), vec![[0, 0]; 4])
        );
        // One that is gone counts no more; an entry may name what is no counter.
        s.counters.remove(counters[0]).unwrap();
        receivers(&mut s, &frame([2; 6], 1));
        assert_eq!(read(&mut s, counters[0], false)[..3], [[0, 0], [0, 0], [1, 60]]);
        assert_eq!(read(&mut s, u32::MAX - 1, true).len(), 4);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let mut s = Steering::default();
        let t = s.create(&command(0, &[])).unwrap();
        assert_eq!(s.create_group(&command(t, &[(0x40 + 0x50, &[1])])), Err(Refused::BadParameter));
        assert_eq!(s.create_group(&command(99, &[])), Err(Refused::BadIndex));
        assert_eq!(s.set_entry(&command(t, &[])), Err(Refused::BadIndex), "no group");
        assert_eq!(s.set_entry(&[]), Err(Refused::BadIndex));
        assert_eq!((s.destroy(&command(t, &[])), s.destroy(&command(t, &[]))), (Ok(()), Err(Refused::BadIndex)));
    }

    #[test]
    fn headers_where_entries_look_for_them() {
        let h = headers(&frame([1, 2, 3, 4, 5, 6], 0x1234));
        assert_eq!((h[2], h[3] >> 16, h[1] & 0xffff), (0x0102_0304, 0x0506, 0x0800));
        assert_eq!((h[4] >> 24, h[4] >> 9 & 0xf, h[7] & 0xffff), (17, 4, 0x1234));
        // Class and fragments, of both versions.
        let mut f = frame([2; 6], 9);
        (f[15], f[20]) = (0xb8, 0x20);
        assert_eq!((headers(&f)[4] >> 16 & 0xff, headers(&f)[4] >> 13 & 1, h[4] >> 13 & 1), (0xb8, 1, 0));
        let mut f = vec![0u8; 80];
        f[12..22].copy_from_slice(&[0x86, 0xdd, 0x6b, 0x80, 0, 0, 0, 26, 17, 64]);
        assert_eq!((headers(&f)[4] >> 16 & 0xff, headers(&f)[4] >> 13 & 1), (0xb8, 0));
        f[20] = FRAGMENT;
        assert_eq!(headers(&f)[4] >> 13 & 1, 1);
        let _ = headers(&[]);
    }
}
