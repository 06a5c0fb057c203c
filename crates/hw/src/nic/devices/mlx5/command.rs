//! The command interface: entries of 64 bytes in a queue in memory, with chains of mailboxes for what does not fit; a doorbell
//! hands entries over, an owner bit or an event gives them back.
//!
//! Left out: signatures (drivers check none), the time that firmware takes: a command is done when it is seen.

use super::events::{own, COMMAND_EVENT};
use super::execute::Status;
use super::fields::{double, half, place, word};
use super::{Due, Mlx5};
use crate::memory::GuestMemory;
use crate::nic::device::Io;
use crate::requester::Moves;

/// Entries of the queue, bytes of one.
pub const LOG_ENTRIES: u32 = 5;
pub const LOG_ENTRY: u32 = 6;
const ENTRY: usize = 1 << LOG_ENTRY;

/// A mailbox: data, the next one's address, a token.
const MAILBOX: usize = 576;
const DATA: usize = 512;
const NEXT: usize = 0x230;
const TOKEN: usize = 0x23d;
/// What the entry itself holds.
const INLINE: usize = 16;
/// Most bytes of an input or an output.
const LONGEST: usize = 1 << 20;

impl Mlx5 {
    /// The entries whose bits are set are to be done.
    pub(super) fn commands<G: GuestMemory>(&mut self, entries: u32, io: &mut Io<'_, Due, G>) {
        for slot in (0..1 << LOG_ENTRIES).filter(|slot| entries >> slot & 1 != 0) {
            self.command(slot, io);
        }
    }

    fn command<G: GuestMemory>(&mut self, slot: u32, io: &mut Io<'_, Due, G>) {
        let address = self.segment.queue.wrapping_add(u64::from(slot) << LOG_ENTRY);
        let mut entry = [0; ENTRY];
        if !io.guest.read(address, &mut entry) {
            self.faults[0] += 1;
            return;
        }
        let Some(input) = self.input(&entry, io) else {
            self.faults[0] += 1;
            return;
        };
        let length = (word(&entry, 0x38) as usize).clamp(INLINE, LONGEST);
        let mut output = vec![0; length];
        let before = self.objects.command_eq;
        let status = self.execute(&input, &mut output, io);
        if status != Status::Ok {
            output[0] = status as u8;
            place(&mut output, 4, &(u32::from(half(&input, 0)) | 0x00ba_d000).to_be_bytes());
        }
        self.answer(&entry, &output, io);
        entry[0x20..0x30].copy_from_slice(&output[..INLINE]);
        entry[0x3f] = 0;
        let now = io.now;
        io.write(now, address.wrapping_add(0x20), &entry[0x20..], own(Moves::WriteBack));
        // Where the events of commands begin or end with this one, the driver looks at the entry.
        if let Some(eq) = before.filter(|_| before == self.objects.command_eq) {
            let mut data = [0; 28];
            place(&mut data, 0, &(1u32 << slot).to_be_bytes());
            self.event_entry(now, eq, COMMAND_EVENT, data, io);
        }
    }

    /// A command's input, as far as it is there.
    fn input<G: GuestMemory>(&self, entry: &[u8], io: &Io<'_, Due, G>) -> Option<Vec<u8>> {
        let length = (word(entry, 4) as usize).min(LONGEST);
        let mut input = entry[0x10..0x10 + INLINE].to_vec();
        let mut at = double(entry, 8);
        let mut mailbox = [0; MAILBOX];
        while input.len() < length {
            if !io.guest.read(at, &mut mailbox) {
                return None;
            }
            input.extend_from_slice(&mailbox[..DATA.min(length - input.len())]);
            at = double(&mailbox, NEXT);
        }
        Some(input)
    }

    /// The rest of its output goes into the driver's mailboxes.
    fn answer<G: GuestMemory>(&mut self, entry: &[u8], output: &[u8], io: &mut Io<'_, Due, G>) {
        let mut at = double(entry, 0x30);
        let mut mailbox = [0; MAILBOX];
        for part in output[INLINE..].chunks(DATA) {
            if !io.guest.read(at, &mut mailbox) {
                self.faults[0] += 1;
                return;
            }
            let now = io.now;
            io.write(now, at, part, own(Moves::WriteBack));
            io.write(now, at.wrapping_add(TOKEN as u64), &entry[0x3c..0x3d], own(Moves::WriteBack));
            at = double(&mailbox, NEXT);
        }
    }
}
