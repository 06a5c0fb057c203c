//! What a driver says of its queues: contexts of eight words, written through an indirect window (PG302 and PG347, "Context
//! structures", as CPM5 has them).

/// Words of a context.
pub const WORDS: usize = 8;
/// A context as written.
pub type Context = [u32; WORDS];

/// Which context: selectors of the indirect command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// Ring of descriptors of streams to the host.
    SoftwareC2h,
    /// Ring of descriptors of streams from the host.
    SoftwareH2c,
    /// Completion ring.
    Completion,
    /// Buffer size and prefetching of a queue to the host.
    Prefetch,
    /// Ring that interrupts of several queues are aggregated in.
    Interrupt,
    /// Queues of a function.
    FunctionMap,
    /// What is kept and not looked at: hardware and credit contexts, timers.
    Other(u8),
}

/// How many there are.
pub const SELECTORS: usize = 16;

impl Selector {
    /// Of a command's number.
    #[must_use]
    pub fn of(number: u32) -> Self {
        match number & 0xf {
            0 => Self::SoftwareC2h,
            1 => Self::SoftwareH2c,
            6 => Self::Completion,
            7 => Self::Prefetch,
            8 => Self::Interrupt,
            12 => Self::FunctionMap,
            other => Self::Other(other as u8),
        }
    }
}

fn bits(c: &Context, from: u32, count: u32) -> u64 {
    let mut value = 0;
    for i in 0..count {
        let at = from + i;
        value |= u64::from(c[(at / 32) as usize] >> (at % 32) & 1) << i;
    }
    value
}

/// A ring of descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // as in the product guides
pub struct Software {
    /// Software wants to be interrupted by the next report.
    pub armed: bool,
    pub enabled: bool,
    /// Report when all is done; report at intervals.
    pub report_empty: bool,
    pub report_interval: bool,
    /// Reports are written at all.
    pub write_back: bool,
    /// Reads of descriptors under way, at most.
    pub fetches: u32,
    /// Index into the table of ring sizes.
    pub ring_size: usize,
    /// Bytes of a descriptor.
    pub size: u32,
    pub interrupts: Interrupts,
    /// Between memories, by this channel of its direction.
    pub memory_mapped: bool,
    pub channel: usize,
    pub base: u64,
}

/// How a queue interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// Whether it does.
    pub enabled: bool,
    /// By an entry of an interrupt ring, not by a message of its own.
    pub aggregated: bool,
    /// The ring, or the message's vector.
    pub vector: u16,
}

impl Software {
    /// As written.
    #[must_use]
    pub fn of(c: &Context) -> Self {
        Self {
            armed: bits(c, 16, 1) != 0,
            enabled: bits(c, 32, 1) != 0,
            report_empty: bits(c, 34, 1) != 0,
            report_interval: bits(c, 35, 1) != 0,
            fetches: bits(c, 37, 4) as u32 + 1,
            ring_size: bits(c, 44, 4) as usize,
            size: 8 << bits(c, 48, 2),
            write_back: bits(c, 52, 1) != 0,
            interrupts: Interrupts {
                enabled: bits(c, 53, 1) != 0,
                aggregated: bits(c, 139, 1) != 0,
                vector: bits(c, 128, 11) as u16,
            },
            memory_mapped: bits(c, 63, 1) != 0,
            channel: bits(c, 51, 1) as usize,
            base: bits(c, 64, 64),
        }
    }
}

/// Prefetching of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // as in the product guides
pub struct Prefetch {
    pub valid: bool,
    pub enabled: bool,
    /// Index into the table of buffer sizes.
    pub buffer_size: usize,
}

impl Prefetch {
    /// As written.
    #[must_use]
    pub fn of(c: &Context) -> Self {
        Self { buffer_size: bits(c, 1, 4) as usize, enabled: bits(c, 27, 1) != 0, valid: bits(c, 45, 1) != 0 }
    }
}

/// When a completion ring's status is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trigger {
    /// Never.
    #[default]
    Disabled,
    /// With every entry.
    Every,
    /// At so many entries, or when the user logic says so (which ours never does).
    Count,
    /// When the user logic says so.
    User,
    /// Some time after the first entry.
    Timer,
    /// At so many entries, and some time after the first.
    TimerAndCount,
}

impl Trigger {
    /// Whether no status is ever due by itself.
    #[must_use]
    pub fn never(self) -> bool {
        matches!(self, Self::Disabled | Self::User)
    }

    /// Of its number; unknown ones are disabled.
    #[must_use]
    pub fn of(number: u64) -> Self {
        match number {
            1 => Self::Every,
            2 => Self::Count,
            3 => Self::User,
            4 => Self::Timer,
            5 => Self::TimerAndCount,
            _ => Self::Disabled,
        }
    }
}

/// A ring of completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // as in the product guides
pub struct Completion {
    pub valid: bool,
    /// The status entry is written.
    pub status: bool,
    pub interrupts: Interrupts,
    pub trigger: Trigger,
    /// Indices into the tables of counts and timers.
    pub count: usize,
    pub timer: usize,
    /// A doorbell changes trigger, indices and status, too, and not only how far software has read.
    pub full_update: bool,
    /// What the color bit of the first turn is.
    pub color: bool,
    pub ring_size: usize,
    /// Bytes of an entry.
    pub size: u32,
    pub base: u64,
}

impl Completion {
    /// As written.
    #[must_use]
    pub fn of(c: &Context) -> Self {
        Self {
            status: bits(c, 0, 1) != 0,
            interrupts: Interrupts {
                enabled: bits(c, 1, 1) != 0,
                aggregated: bits(c, 143, 1) != 0,
                vector: bits(c, 132, 11) as u16,
            },
            trigger: Trigger::of(bits(c, 2, 3)),
            count: bits(c, 17, 4) as usize,
            timer: bits(c, 21, 4) as usize,
            full_update: bits(c, 129, 1) != 0,
            color: bits(c, 27, 1) != 0,
            ring_size: bits(c, 28, 4) as usize,
            base: bits(c, 32, 58) << 6,
            size: 8 << bits(c, 90, 2),
            valid: bits(c, 124, 1) != 0,
        }
    }
}

/// A ring of interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // as in the product guides
pub struct InterruptRing {
    pub valid: bool,
    /// Of the message that tells of its entries.
    pub vector: u16,
    /// What the color bit of the first turn is.
    pub color: bool,
    pub base: u64,
    /// Entries of eight bytes.
    pub entries: u32,
    /// The first to be written.
    pub produced: u32,
}

impl InterruptRing {
    /// As written.
    #[must_use]
    pub fn of(c: &Context) -> Self {
        let entries = 512 * (bits(c, 67, 3) as u32 + 1);
        Self {
            valid: bits(c, 0, 1) != 0,
            vector: bits(c, 1, 11) as u16,
            color: bits(c, 14, 1) != 0,
            base: bits(c, 15, 52) << 12,
            entries,
            produced: bits(c, 70, 12) as u32 % entries,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_guides_have_them() {
        let mut c = [0; WORDS];
        (c[1], c[2], c[3]) = (1 | 1 << 2 | 1 << 3 | 2 << 5 | 3 << 12 | 1 << 16 | 1 << 20, 0x1234_5000, 7);
        let s = Software::of(&c);
        assert!(s.enabled && s.report_empty && s.report_interval && s.write_back && !s.memory_mapped);
        assert_eq!((s.fetches, s.ring_size, s.size, s.base), (3, 3, 16, 0x7_1234_5000));
        let p = Prefetch::of(&[4 << 1 | 1 << 27, 1 << 13, 0, 0, 0, 0, 0, 0]);
        assert!(p.enabled && p.valid);
        assert_eq!(p.buffer_size, 4);
        let base: u64 = 0x1_0000_0040;
        let words = base >> 6;
        let c =
            [1 | 5 << 2 | 7 << 17 | 9 << 21 | 1 << 27 | 2 << 28, words as u32, (words >> 32) as u32 | 1 << 26, 1 << 28];
        let mut whole = [0; WORDS];
        whole[..4].copy_from_slice(&c);
        let c = Completion::of(&whole);
        assert!(c.valid && c.status && c.color);
        assert_eq!((c.trigger, c.count, c.timer, c.ring_size), (Trigger::TimerAndCount, 7, 9, 2));
        assert_eq!((c.size, c.base), (16, base));
    }

    #[test]
    fn who_interrupts_and_how() {
        let queue = |aggregated| Interrupts { enabled: true, aggregated, vector: 5 };
        let s = Software::of(&[1 << 16, 1 | 1 << 19 | 1 << 21 | 1 << 31, 0, 0, 5 | 1 << 11, 0, 0, 0]);
        assert!(s.armed && s.memory_mapped);
        assert_eq!((s.interrupts, s.channel), (queue(true), 1));
        assert_eq!(Completion::of(&[2, 0, 0, 0, 5 << 4, 0, 0, 0]).interrupts, queue(false));
        let base: u64 = 0x1_2345_6000;
        let words = [1 | 9 << 1 | 1 << 14 | (base << 3) as u32, (base >> 29) as u32, 1 << 3 | 7 << 6, 0, 0, 0, 0, 0];
        let ring = InterruptRing { valid: true, vector: 9, color: true, base, entries: 1024, produced: 7 };
        assert_eq!(InterruptRing::of(&words), ring);
    }
}
