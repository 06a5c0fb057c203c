//! What a ConnectX's driver does once: it makes queues, a key, and rules that spread packets, by commands in memory. A command is
//! done when the device has seen it; no time passes for software.
//!
//! Left out: events and their queues (nobody waits for one), contexts of users, keys with pages (one covers all memory).

use super::{counts, rings, send_completions, Keeps};
use crate::cost::CostModel;
use crate::cpu::Host;
use crate::driver::{Arena, RING_BYTES};
use crate::memory::HostMemory;
use wiretime_base::{Invalid, Ps};
use wiretime_hw::nic::blocks::vlan;
use wiretime_hw::nic::Place;

/// The key that DPDK's mlx5 gives to receive-side scaling unless it is told another.
const KEY: [u8; 40] = [
    0x2c, 0xc6, 0x81, 0xd1, 0x5b, 0xdb, 0xf4, 0xf7, 0xfc, 0xa2, 0x83, 0x19, 0xdb, 0x1a, 0x3e, 0x94, 0x6b, 0x9e, 0x38,
    0xd9, 0x2c, 0x9c, 0x03, 0xd1, 0xad, 0x99, 0x44, 0xa7, 0xd9, 0x56, 0x3d, 0x59, 0x06, 0x3c, 0x25, 0xf3, 0xfc, 0x1f,
    0xdc, 0x2a,
];

/// Registers: where the command queue is, and its doorbell.
const QUEUE_HIGH: u64 = 0x10;
const QUEUE_LOW: u64 = 0x14;
const COMMAND: u64 = 0x18;

const PAGE: u64 = 4096;
/// Of an entry of the command queue and its mailboxes: behind all that queues keep.
const COMMANDS: u64 = RING_BYTES - (64 << 10);
const MAILBOXES: u64 = COMMANDS + PAGE;
const ANSWER: u64 = RING_BYTES - PAGE;
const MAILBOX: u64 = 1024;
/// What an entry holds of a command; what a mailbox does; where it names the next.
const INLINE: usize = 16;
const DATA: usize = 512;
const NEXT: u64 = 0x230;

/// Where a command lists pages, and its length without them.
const LIST: usize = 0x110;
/// Contexts of queues, of the rings in them.
const CONTEXT: usize = 0x20;
const WORK: usize = 0x50;
/// The register of the longest frame, VLAN tag and FCS included, and what it says at first.
const PMTU: u32 = 0x5003;
const MTU: u32 = 1522;
/// A queue is made ready.
const READY: u32 = 1 << 20;
/// Some user's, not the kernel's.
const USER: u32 = 1;

/// A word of a command, at a byte.
type Word = (usize, u32);

/// Gives commands to a port.
struct Firmware<'a> {
    host: &'a mut Host,
    memory: &'a HostMemory,
    port: usize,
    /// Of the first queue: where commands are.
    at: u64,
    /// Devices have got so far: ports are set up one after the other.
    now: &'a mut Ps,
}

impl Firmware<'_> {
    fn write(&mut self, offset: u64, value: u32) {
        let mut nics = self.host.nics.borrow_mut();
        nics.slots[self.port].write(Place { bar: 0, offset }, &value.to_be_bytes());
    }

    fn start(&mut self) {
        let at = self.at + COMMANDS;
        self.write(QUEUE_HIGH, (at >> 32) as u32);
        self.write(QUEUE_LOW, at as u32);
    }

    /// Does a command; the number that it answers with.
    fn command(&mut self, input: &[u8]) -> Result<u32, Invalid> {
        let (entry_at, mail) = (self.at + COMMANDS, self.at + MAILBOXES);
        let mut entry = [0; 64];
        entry[0] = 7;
        entry[4..8].copy_from_slice(&(input.len() as u32).to_be_bytes());
        entry[8..16].copy_from_slice(&mail.to_be_bytes());
        entry[0x10..0x10 + INLINE].copy_from_slice(&input[..INLINE]);
        entry[0x30..0x38].copy_from_slice(&(self.at + ANSWER).to_be_bytes());
        entry[0x38..0x3c].copy_from_slice(&(INLINE as u32).to_be_bytes());
        entry[0x3f] = 1;
        for (part, at) in input[INLINE..].chunks(DATA).zip((mail..).step_by(MAILBOX as usize)) {
            self.memory.put(at, part);
            self.memory.put(at + NEXT, &(at + MAILBOX).to_be_bytes());
        }
        self.memory.put(entry_at, &entry);
        self.write(COMMAND, 1);
        *self.now += Ps(1);
        self.host.advance(*self.now, false);
        // It waits for the answer before anything else: what has been written is there.
        let slot = &mut self.host.nics.borrow_mut().slots[self.port];
        slot.nic.writes().apply(Ps::MAX, &mut slot.guest);
        let answer: [u8; 16] = self.memory.bytes(entry_at + 0x20);
        let [owned] = self.memory.bytes(entry_at + 0x3f);
        let why = match (owned & 1, answer[0]) {
            (0, 0) => return Ok(u32::from_be_bytes([0, answer[9], answer[10], answer[11]])),
            (0, status) => format!("a command ended with status {status}"),
            _ => "a command is not done".into(),
        };
        Err(Invalid::new("nic", format!("{:#06x}", u16::from_be_bytes([input[0], input[1]])), why))
    }

    /// A command that makes something, or changes it.
    fn make(&mut self, length: usize, words: &[Word]) -> Result<u32, Invalid> {
        let mut input = vec![0; length];
        for &(at, word) in words {
            input[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        self.command(&input)
    }

    /// Sets the port's MTU (register PMTU) where packets may be longer than it lets through from power-on.
    fn admit(&mut self, longest: u32) -> Result<(), Invalid> {
        let mtu = longest + vlan::BYTES;
        if mtu > MTU {
            self.make(LIST, &[(0, 0x0805 << 16), (8, PMTU), (0x18, mtu << 16)])?;
        }
        Ok(())
    }

    /// The same with a list of the pages of so many bytes.
    fn with_pages(&mut self, words: &[Word], ring: u64, bytes: u64) -> Result<u32, Invalid> {
        let mut words = words.to_vec();
        for (n, page) in (0..).zip((ring..ring + bytes).step_by(PAGE as usize)) {
            words.extend([(LIST + 8 * n, (page >> 32) as u32), (LIST + 8 * n + 4, page as u32)]);
        }
        self.make(LIST + 8 * bytes.div_ceil(PAGE) as usize, &words)
    }

    fn completions(&mut self, log: u32, entry: u32, compressed: bool, at: (u64, u64)) -> Result<u32, Invalid> {
        let (ring, record) = at;
        let words = [
            (0, 0x0400 << 16 | USER),
            (0x10, u32::from(entry == 128) << 21 | u32::from(compressed) << 14),
            (0x1c, log << 24),
            (0x48, (record >> 32) as u32),
            (0x4c, record as u32),
        ];
        self.with_pages(&words, ring, u64::from(entry) << log)
    }

    /// A queue of requests, of so many bytes as a logarithm, whose completions go there; made ready.
    fn requests(&mut self, kind: Requests, log: u32, completions: u32, at: (u64, u64)) -> Result<u32, Invalid> {
        let (ring, record) = at;
        let (make, modify, shift) = match kind {
            Requests::Receive => (0x0908, 0x0909, 4),
            Requests::Send(_) => (0x0904, 0x0905, 6),
        };
        // Of a receive queue nothing is there.
        let transport = if let Requests::Send(number) = kind { number } else { 0 };
        let words = [
            (0, make << 16 | USER),
            (CONTEXT + 8, completions),
            (CONTEXT + 0x2c, transport),
            (WORK, 1 << 28),
            (WORK + 0x10, (record >> 32) as u32),
            (WORK + 0x14, record as u32),
            (WORK + 0x20, shift << 16 | log),
        ];
        let number = self.with_pages(&words, ring, 1 << (shift + log))?;
        self.make(LIST, &[(0, modify << 16 | USER), (8, number), (CONTEXT, READY)])?;
        Ok(number)
    }

    /// All packets go to these queues, by a hash of addresses and ports.
    fn spread(&mut self, queues: &[u32]) -> Result<(), Invalid> {
        let receiver = if let [one] = queues {
            self.make(LIST, &[(0, 0x0900 << 16 | USER), (CONTEXT + 0x1c, *one)])?
        } else {
            let mut words = vec![(0, 0x0916 << 16 | USER), (CONTEXT + 0x18, queues.len() as u32)];
            words.extend(queues.iter().enumerate().map(|(i, &queue)| (CONTEXT + 0xf0 + 4 * i, queue)));
            let table = self.make(CONTEXT + 0xf0 + 4 * queues.len(), &words)?;
            let mut words = vec![
                (0, 0x0900 << 16 | USER),
                (CONTEXT + 4, 1 << 28),
                (CONTEXT + 0x20, table),
                (CONTEXT + 0x24, 2 << 28),
                (CONTEXT + 0x50, 0xf),
            ];
            let key = KEY.chunks(4).map(|k| u32::from_be_bytes(std::array::from_fn(|i| k[i])));
            words.extend(key.enumerate().map(|(i, word)| (CONTEXT + 0x28 + 4 * i, word)));
            self.make(LIST, &words)?
        };
        let table = self.make(0x40, &[(0, 0x0930 << 16)])?;
        let group = self.make(0x400, &[(0, 0x0933 << 16), (0x14, table)])?;
        let (forward, to_receiver) = (4, 2 << 24);
        let entry = [
            (0, 0x0936 << 16),
            (0x14, table),
            (0x44, group),
            (0x4c, forward),
            (0x50, 1),
            (0x340, to_receiver | receiver),
        ];
        self.make(0x348, &entry)?;
        self.make(0x40, &[(0, 0x092f << 16), (0x14, table)])?;
        Ok(())
    }
}

/// Which way a queue of requests goes; on sending, its transport's number.
#[derive(Clone, Copy)]
enum Requests {
    Receive,
    Send(u32),
}

/// Sets a port up, for packets of so many bytes at most.
///
/// # Errors
/// Where the device has no such rings, or packets are too long for a buffer.
pub fn set_up(
    (host, memory, now): (&mut Host, &HostMemory, &mut Ps),
    port: usize,
    queues: &[(u16, Arena)],
    (model, longest): (&CostModel, u32),
) -> Result<(), Invalid> {
    let d = model.connectx_driver()?;
    let p = &model.policy;
    for (name, entries, bytes) in
        [("policy.receive_ring", p.receive_ring, d.completion), ("policy.transmit_ring", p.transmit_ring, 64)]
    {
        let most = RING_BYTES as u32 / bytes;
        if !entries.is_power_of_two() || entries > most {
            return Err(Invalid::new(name, entries, format!("this device takes powers of two up to {most} here")));
        }
    }
    let most = RING_BYTES as u32 / d.completion;
    if send_completions(model) > most {
        return Err(Invalid::new("policy.report", p.report, format!("at most {most} completions of sending fit here")));
    }
    if longest > p.buffer {
        return Err(Invalid::new(
            "policy.buffer",
            p.buffer,
            format!("a packet of {longest} B has to fit into one buffer here"),
        ));
    }
    let Some(&(_, first)) = queues.first() else { return Ok(()) };
    let mut f = Firmware { host, memory, port, at: first.ring(4), now };
    f.start();
    f.admit(longest)?;
    // All physical memory; its low byte is 0.
    let key = f.make(LIST, &[(0, 0x0200 << 16 | USER), (0x1c, 1 << 31)])? << 8;
    let transport = f.make(LIST, &[(0, 0x0912 << 16 | USER)])?;
    let mut receivers = Vec::new();
    for &(_, arena) in queues {
        let (r, c) = (rings(arena), counts(arena));
        let sent = send_completions(model);
        let receive_log = p.receive_ring.trailing_zeros();
        let completions = f.completions(receive_log, d.completion, d.compresses, (r[2], c.receive_completions))?;
        receivers.push(f.requests(Requests::Receive, receive_log, completions, (r[0], c.receives))?);
        let completions = f.completions(sent.trailing_zeros(), d.completion, false, (r[3], c.send_completions))?;
        let send_log = p.transmit_ring.trailing_zeros();
        let send = f.requests(Requests::Send(transport), send_log, completions, (r[1], c.sends))?;
        Keeps { send, key }.put(memory, arena);
    }
    f.spread(&receivers)
}
