//! What devices have read of guest memory while the guest boots.
//!
//! A device that is told things in memory (commands, rings of a driver that is at work) reads what is not there any more when
//! its state is brought back, and has written what is there already. So its reads are recorded, and when it is told
//! everything again they are answered from the record, and what it writes goes nowhere.

use crate::memory::GuestRam;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use wiretime_hw::memory::GuestMemory;

/// Reads, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reads {
    /// Address, length, and whether there is memory.
    places: Vec<(u64, u32, bool)>,
    /// What was there, one after the other.
    #[serde(with = "hex")]
    bytes: Vec<u8>,
}

/// Reads that are answered from a record.
#[derive(Debug)]
struct Playing {
    reads: Reads,
    /// How many, and how many bytes of them.
    done: (usize, usize),
    /// Something else was asked for.
    lost: bool,
}

#[derive(Debug, Default)]
enum Tape {
    #[default]
    Off,
    Records(RefCell<Reads>),
    Plays(RefCell<Playing>),
}

/// Guest memory as a device sees it.
#[derive(Default)]
pub struct DeviceMemory {
    /// The memory.
    pub ram: GuestRam,
    tape: Tape,
}

impl DeviceMemory {
    /// From now on reads are recorded.
    pub fn record(&mut self) {
        self.tape = Tape::Records(RefCell::default());
    }

    /// What has been read.
    pub fn recorded(&mut self) -> Reads {
        match std::mem::take(&mut self.tape) {
            Tape::Records(reads) => reads.into_inner(),
            _ => Reads::default(),
        }
    }

    /// From now on reads are answered from this record.
    pub fn play(&mut self, reads: Reads) {
        self.tape = Tape::Plays(RefCell::new(Playing { reads, done: (0, 0), lost: false }));
    }

    /// From now on reads are of memory; whether all that were recorded have been asked for, and nothing else.
    pub fn played(&mut self) -> bool {
        match std::mem::take(&mut self.tape) {
            Tape::Plays(playing) => {
                let Playing { reads, done, lost } = playing.into_inner();
                !lost && done.0 == reads.places.len()
            }
            _ => true,
        }
    }
}

impl Playing {
    fn read(&mut self, address: u64, data: &mut [u8]) -> bool {
        let (n, at) = self.done;
        let there = match self.reads.places.get(n) {
            Some(&(place, length, there)) if (place, length as usize) == (address, data.len()) => there,
            _ => {
                self.lost = true;
                return false;
            }
        };
        let length = if there { data.len() } else { 0 };
        let Some(bytes) = self.reads.bytes.get(at..at + length) else {
            self.lost = true;
            return false;
        };
        if there {
            data.copy_from_slice(bytes);
        }
        self.done = (n + 1, at + length);
        there
    }
}

impl GuestMemory for DeviceMemory {
    #[inline]
    fn read(&self, address: u64, data: &mut [u8]) -> bool {
        match &self.tape {
            Tape::Off => self.ram.read(address, data),
            Tape::Records(reads) => {
                let there = self.ram.read(address, data);
                let mut reads = reads.borrow_mut();
                reads.places.push((address, data.len() as u32, there));
                if there {
                    reads.bytes.extend_from_slice(data);
                }
                there
            }
            Tape::Plays(playing) => playing.borrow_mut().read(address, data),
        }
    }

    #[inline]
    fn write(&mut self, address: u64, data: &[u8]) -> bool {
        match &self.tape {
            Tape::Plays(_) => self.ram.holds(address, data.len()),
            _ => self.ram.write(address, data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::ram;

    #[test]
    fn what_was_read_is_read_again_whatever_is_there_by_then() {
        let mut m = DeviceMemory { ram: ram(0x1000, 4096), tape: Tape::Off };
        assert!(m.write(0x1100, &[1, 2, 3, 4]));
        m.record();
        let read = |m: &DeviceMemory, address, length| {
            let mut data = vec![0xee; length];
            m.read(address, &mut data).then_some(data)
        };
        assert_eq!(read(&m, 0x1101, 2), Some(vec![2, 3]));
        assert_eq!(read(&m, 0x9000, 8), None);
        m.write(0x1100, &[9; 4]);
        assert_eq!(read(&m, 0x1100, 1), Some(vec![9]));
        let text = serde_json::to_string(&m.recorded()).expect("plain words");
        assert_eq!(text, r#"{"places":[[4353,2,true],[36864,8,false],[4352,1,true]],"bytes":"020309"}"#);

        let reads: Reads = serde_json::from_str(&text).expect("what it was");
        m.play(reads.clone());
        m.write(0x1100, &[7; 4]);
        assert!(!m.write(0x9000, &[7]), "nothing is there now either");
        let again = [read(&m, 0x1101, 2), read(&m, 0x9000, 8), read(&m, 0x1100, 1)];
        assert_eq!(again, [Some(vec![2, 3]), None, Some(vec![9])]);
        assert!(m.played());
        assert_eq!(read(&m, 0x1100, 2), Some(vec![9, 9]), "what it writes meanwhile goes nowhere");

        for (address, length) in [(0x1102, 2), (0x1101, 3)] {
            m.play(reads.clone());
            assert_eq!(read(&m, address, length), None);
            assert!(!m.played(), "another read");
        }
        m.play(reads);
        assert!(!m.played(), "too few");
    }
}
