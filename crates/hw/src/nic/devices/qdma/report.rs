//! What a ring of descriptors tells software of those that are done: a status behind its last entry, and an interrupt, as its
//! context wants them (PG347, "Descriptor engine": status write-back and interrupts).

use super::contexts::Software;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    context: Software,
    /// Descriptors done that no report has told of.
    unreported: u32,
    /// A report is on its way.
    due: bool,
    /// Software wants to be interrupted by the next; one has come while it did not.
    armed: bool,
    missed: bool,
}

impl Report {
    /// As its context has it.
    #[must_use]
    pub fn of(context: Software) -> Self {
        Self { context, armed: context.armed, ..Self::default() }
    }

    /// A descriptor is done, the last of those posted or not: whether that is told, where every `interval` may be; and whether a
    /// report has to be sent for it, since none is on its way.
    pub fn done(&mut self, is_last: bool, interval: u32) -> (bool, bool) {
        let c = &self.context;
        self.unreported += 1;
        let wanted = c.report_interval && self.unreported >= interval || c.report_empty && is_last;
        let told = wanted && (c.write_back || c.interrupts.enabled);
        if told {
            self.unreported = 0;
        }
        (told, told && !std::mem::replace(&mut self.due, true))
    }

    /// The report leaves: whether the status is written, and whether software is interrupted.
    pub fn leaves(&mut self) -> (bool, bool) {
        if !std::mem::take(&mut self.due) {
            return (false, false);
        }
        let interrupts = self.context.interrupts.enabled;
        self.missed = interrupts && !self.armed;
        (self.context.write_back, interrupts && std::mem::take(&mut self.armed))
    }

    /// Software has posted, and wants to be interrupted or not: whether a report has to be sent at once, since it missed one.
    pub fn arms(&mut self, armed: bool) -> bool {
        self.armed |= armed;
        self.armed && std::mem::take(&mut self.missed) && !std::mem::replace(&mut self.due, true)
    }

    /// The context.
    #[must_use]
    pub fn context(&self) -> &Software {
        &self.context
    }
}

#[cfg(test)]
mod tests {
    use super::super::contexts::Interrupts;
    use super::*;

    fn report(write_back: bool, enabled: bool) -> Report {
        let interrupts = Interrupts { enabled, ..Interrupts::default() };
        Report::of(Software {
            write_back,
            report_interval: true,
            report_empty: true,
            interrupts,
            ..Software::default()
        })
    }

    #[test]
    fn at_intervals_and_when_all_is_done_one_at_a_time() {
        let mut r = report(true, false);
        assert_eq!((r.done(false, 3), r.done(false, 3)), ((false, false), (false, false)));
        assert_eq!((r.done(false, 3), r.done(true, 3)), ((true, true), (true, false)), "one on its way tells of both");
        assert_eq!((r.leaves(), r.leaves()), ((true, false), (false, false)));
        let mut silent = report(false, false);
        assert_eq!(silent.done(true, 1), (false, false));
    }

    #[test]
    fn an_interrupt_each_time_that_software_asks_and_none_is_missed() {
        let mut r = report(false, true);
        assert!(!r.arms(true));
        assert_eq!((r.done(true, 9), r.leaves()), ((true, true), (false, true)));
        assert_eq!((r.done(true, 9), r.leaves()), ((true, true), (false, false)), "not asked for");
        assert!(!r.arms(false) && r.arms(true), "it has missed one");
        assert_eq!((r.leaves(), r.arms(true)), ((false, true), false));
    }
}
