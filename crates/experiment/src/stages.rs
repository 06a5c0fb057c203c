//! The stages of a run, decided at window boundaries: boot, traffic (warm-up, measurement, following the cohort to its
//! end), draining, stopping the guest.

use crate::capture::Capture;
use crate::channel::Channel;
use crate::far::Outside;
use crate::result;
use crate::settings::{FarEnd, Role, RunSettings, StartAt, Timing};
use crate::snapshot::{Snapshot, Times};
use serde_json::{json, Value};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Instant;
use wiretime_base::{Duration, Invalid, Ps};
use wiretime_hw::core::StageTrace;
use wiretime_hw::machine::{Hold, Machine, Nics, Slot};
use wiretime_hw::nic::{Lateness, Phase, Which};
use wiretime_hw::params::Platform;

/// Where the run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The guest boots; no timing, no traffic.
    Boot,
    /// Timing and traffic.
    Traffic,
    /// No traffic; packets under way still do their way. No timing.
    Draining,
    /// The guest has been asked to stop.
    Stopping,
}

/// Host times, for speed only; never in a result.
pub struct Clocks {
    boot: Instant,
    traffic: Option<Instant>,
    draining: Option<Instant>,
    ticks: u32,
}

impl Default for Clocks {
    fn default() -> Self {
        Self { boot: Instant::now(), traffic: None, draining: None, ticks: 0 }
    }
}

/// How long the drained state must last before the guest is told to stop: a burst of any polling loop, untimed
/// instructions being slow.
const SETTLE: Ps = Ps::from_ms(20);
/// How long no packet may have moved for a guest to be told to stop though its devices are busy: a program that sleeps
/// until it is interrupted asks for that again and again.
const PATIENCE: Ps = Ps::from_ms(100);
/// Between packets that find out whether the program polls.
const TRICKLE: Ps = Ps::from_ms(1);
/// Host time is looked at once in so many windows.
const TICKS: u32 = 256;
/// Undecided packets of the cohort are counted once in so many windows.
const COUNT_EVERY: u32 = 64;

/// Window while the guest boots: nothing depends on its length but how often cores alternate.
const BOOT_QUANTUM: Ps = Ps::from_us(10);

/// Window while there is traffic.
fn window(p: &Platform, s: &RunSettings) -> Ps {
    if s.timing == Timing::Blocks {
        BOOT_QUANTUM
    } else {
        p.quantum()
    }
}

/// What an engine has executed so far.
#[derive(Clone, Copy)]
pub struct Executed<'a> {
    /// Instructions by core, timed or counted.
    pub instructions: &'a [u64],
    /// Of these, timed.
    pub timed: u64,
    /// Over what ran where: two runs that have the same have run the same.
    pub hash: u64,
    /// Of these, not executed one by one: turns of loops that repeat.
    pub repeated: u64,
    /// Interrupts raised, messages included.
    pub interrupts: u64,
    /// Processor time by kind, by core.
    pub times: &'a [Times],
}

/// The program under test, as a run needs it.
pub trait Program {
    /// The last mark that it has announced.
    fn mark(&self) -> u32;
    /// The exit status that it has reported.
    fn exit(&self) -> Option<u32>;
    /// Figures that it has reported.
    fn figures(&self) -> Vec<u32>;
    /// It is asked to stop.
    fn stop(&self);
    /// The text of the instruction at a physical address.
    fn instruction(&self, paddr: u64) -> String;
}

/// What a run drives, lent for a while.
pub struct Driven<'a, H> {
    /// Cores, memory, NICs.
    pub machine: &'a mut Machine<H>,
    /// What has been executed.
    pub executed: Executed<'a>,
    /// The program under test.
    pub program: &'a dyn Program,
}

/// A run: its settings, the stage that it is in, and what has been measured.
pub struct Experiment {
    /// As told, and as trials change them.
    pub settings: RunSettings,
    pub(crate) platform: Platform,
    pub(crate) stage: Stage,
    pub(crate) start: Option<Snapshot>,
    pub(crate) end: Option<Snapshot>,
    /// Snapshots inside the measurement, where a time series is wanted.
    pub(crate) series: Vec<Snapshot>,
    /// What became of all packets, before the program stops and resets the device.
    pub(crate) totals: Option<result::PacketTotals>,
    /// Fill of FIFOs and rings over the measurement, and between points of it.
    pub(crate) occupancy: Vec<Vec<[u64; 4]>>,
    pub(crate) occupancy_step: Ps,
    /// Stages of instructions in the timeline's window, by core.
    pub(crate) pipelines: Vec<(usize, StageTrace)>,
    clocks: Clocks,
    begin: Ps,
    /// When the traffic stopped, or the program was asked to.
    stopped: Ps,
    /// How often packets had moved when one did last since then, and when.
    moved: (u64, Ps),
    /// No device had anything under way at the last tick.
    idle: bool,
    /// Packets of the measurement whose fate was not known when they were followed no longer.
    pub(crate) followed_no_longer: u64,
    /// How late cores and devices saw each other's writes up to the end of the measurement.
    pub(crate) late: Option<(Lateness, Lateness)>,
    /// Of the measurement's length, the time in which what had left was still on the wire: of what is measured to its end.
    pub(crate) arriving: Ps,
    /// The capture of the wire, where one is wanted.
    pub(crate) capture: Option<Capture>,
    /// What is at the other end of the wire, where it is outside.
    pub(crate) outside: Outside,
}

impl Experiment {
    /// As platform and run say; `capture` is where a capture goes, `far` the far end of the wire, where they are wanted.
    ///
    /// # Errors
    /// One line that names what cannot be.
    pub fn new(p: &Platform, s: &RunSettings, capture: Option<OwnedFd>, far: Option<OwnedFd>) -> Result<Self, Invalid> {
        if s.interval.ps() > Ps::ZERO && s.interval.ps() < window(p, s) {
            let least = Duration::of(window(p, s));
            return Err(Invalid::new("interval", s.interval, format!("at least a window, {least}")));
        }
        Ok(Self {
            settings: s.clone(),
            platform: p.clone(),
            stage: Stage::Boot,
            start: None,
            end: None,
            series: Vec::new(),
            totals: None,
            occupancy: Vec::new(),
            occupancy_step: Ps(1),
            pipelines: Vec::new(),
            clocks: Clocks::default(),
            begin: Ps::ZERO,
            stopped: Ps::ZERO,
            moved: (0, Ps::ZERO),
            idle: false,
            followed_no_longer: 0,
            late: None,
            arriving: Ps::ZERO,
            capture: capture.map(|fd| Capture::new(File::from(fd), p)),
            outside: Outside::new(s.far, far, p)?,
        })
    }

    /// The first window's length.
    #[must_use]
    pub fn boot_quantum(&self) -> Ps {
        if self.settings.timing == Timing::Always {
            self.platform.quantum()
        } else {
            BOOT_QUANTUM
        }
    }

    /// Whether instructions are timed now.
    #[inline]
    #[must_use]
    pub fn full_timing(&self) -> bool {
        match self.settings.timing {
            Timing::Always => true,
            Timing::Full => self.stage == Stage::Traffic,
            Timing::Blocks => false,
        }
    }

    /// Whether cores' stores to device pages are seen now.
    #[must_use]
    pub fn watches_stores(&self) -> bool {
        self.stage == Stage::Traffic && self.full_timing()
    }

    /// Whether the guest boots, untimed.
    #[must_use]
    pub fn booting(&self) -> bool {
        self.stage == Stage::Boot && self.settings.timing != Timing::Always
    }

    /// Whether the measurement is over, and what is under way ends.
    #[must_use]
    pub fn draining(&self) -> bool {
        matches!(self.stage, Stage::Draining | Stage::Stopping)
    }

    /// Windows and idle jumps so far.
    #[must_use]
    pub fn ticks(&self) -> u32 {
        self.clocks.ticks
    }

    /// As if there had been so many.
    pub fn set_ticks(&mut self, ticks: u32) {
        self.clocks.ticks = ticks;
    }

    /// Whether cycles are charged to blocks now.
    #[inline]
    #[must_use]
    pub fn profiling(&self) -> bool {
        self.settings.profile && self.start.is_some() && self.end.is_none()
    }

    pub(crate) fn full_timing_of(&self, stage: Stage) -> bool {
        self.settings.timing == Timing::Always || stage == Stage::Traffic && self.settings.timing == Timing::Full
    }

    /// At the start of each window, which ends at `window_end`, and at each idle jump: the quantum from then on, where timing
    /// is switched on or off.
    pub fn tick<H: Hold>(&mut self, t: Ps, window_end: Ps, channel: &mut Channel, d: &mut Driven<'_, H>) -> Option<Ps> {
        self.clocks.ticks = self.clocks.ticks.wrapping_add(1);
        if self.clocks.ticks % TICKS == 0 && channel.progress_due() {
            channel.progress(self.progress(t, d));
        }
        match self.stage {
            Stage::Boot => self.boot_tick(window_end, d),
            Stage::Traffic => self.traffic_tick(t, channel, d),
            Stage::Draining => {
                self.draining_tick(t, d);
                None
            }
            Stage::Stopping => None,
        }
    }
    fn draining_tick<H: Hold>(&mut self, t: Ps, d: &mut Driven<'_, H>) {
        let mut idle = !d.machine.writes_pending();
        {
            let nics = d.machine.nics.nics();
            idle &= nics.slots.iter().all(|s| s.nic.idle());
            let moves = nics.books.ledger.moves_so_far();
            if moves != self.moved.0 {
                self.moved = (moves, t);
            }
        }
        self.idle = idle;
        // A program that sends by itself goes on until it is told to stop.
        if !idle && self.settings.role != Role::Sends && t < self.moved.1 + PATIENCE {
            self.begin = t;
        } else if t >= self.begin + SETTLE {
            self.stage = Stage::Stopping;
            (self.begin, self.stopped) = (t, t);
            let mut nics = d.machine.nics.nics();
            nics.books.ledger.drained();
            self.totals = Some(result::packet_totals(&nics, &self.settings));
            drop(nics);
            d.program.stop();
        }
    }

    /// The guest has reported its exit, or taken too long: the last message, and the exit status of the process.
    pub fn finished<H: Hold>(&mut self, t: Ps, d: &mut Driven<'_, H>) -> Option<(Value, i32)> {
        if let Some(status) = d.program.exit() {
            let missing = match self.settings.start_at {
                StartAt::ReceiverReady | StartAt::Sending if !self.draining() && self.end.is_none() => Some("was over"),
                StartAt::Mark if self.start.is_none() => Some("began"),
                _ => None,
            };
            if let Some(what) = missing {
                let reason = format!("the guest application ended with status {status} before the measurement {what}");
                return Some(self.failure("exited", &reason, t, d));
            }
            // A program that ends by itself is measured to its end.
            if let (Some(start), None) = (&self.start, &self.end) {
                self.settings.duration = Duration::of(t - start.time);
                self.end = Some(self.snapshot(t, d));
            }
            if self.stage == Stage::Traffic {
                self.followed_no_longer = self.under_way(d);
            }
            self.unplug();
            self.write_capture(t, true, d);
            let result = result::result(self, t, status, d);
            let trace = result::timeline(self, d);
            return Some((json!({ "result": result, "trace": trace, "host": self.host(d) }), 0));
        }
        if self.far_end_lost() && self.stage == Stage::Traffic {
            return Some(self.failure("peer", "the other host ended before the measurement was over", t, d));
        }
        let limit = self.settings.guest_limit.ps();
        let since = match self.stage {
            Stage::Boot if self.settings.start_at != StartAt::Never => Ps::ZERO,
            Stage::Draining | Stage::Stopping => self.stopped,
            _ => return None,
        };
        if t > since.saturating_add(limit) {
            let what = match self.stage {
                Stage::Boot => self.never_began(d),
                _ => "the guest application did not stop".into(),
            };
            let reason = format!("{what} within {} of simulated time", self.settings.guest_limit);
            return Some(self.failure("time-out", &reason, t, d));
        }
        None
    }

    /// Why the load could not begin.
    fn never_began<H: Hold>(&self, d: &Driven<'_, H>) -> String {
        let nics = d.machine.nics.nics();
        if nics.slots.iter().any(|s| s.nic.phase() == Phase::Quiet) {
            return "no port was enabled".into();
        }
        let queues = self.settings.queues as usize;
        let filtered: u64 = (0..nics.slots.len()).map(|port| nics.stats(port, queues).receive.filtered).sum();
        let of = if queues > 1 { format!(" from all of its {queues} queues") } else { String::new() };
        let lost = if filtered > 0 { format!(", {filtered} were filtered by the NIC,") } else { String::new() };
        format!("a port was enabled, but the program took no packets{of}{lost}")
    }

    /// The message and status of a run that has failed. What has been seen on the wire is written all the same.
    fn failure<H: Hold>(&mut self, kind: &str, reason: &str, t: Ps, d: &Driven<'_, H>) -> (Value, i32) {
        self.write_capture(t, true, d);
        (json!({ "failed": { "kind": kind, "reason": reason }, "host": self.host(d) }), 1)
    }

    /// Starts the traffic when the guest is ready; returns the quantum from then on.
    fn boot_tick<H: Hold>(&mut self, window_end: Ps, d: &mut Driven<'_, H>) -> Option<Ps> {
        let start = match self.settings.start_at {
            StartAt::ReceiverReady => self.receiver_ready(window_end, d),
            StartAt::Sending => self.has_sent(d),
            StartAt::Mark => d.program.mark() == 1,
            StartAt::Never => false,
        };
        if !start {
            return None;
        }
        self.stage = Stage::Traffic;
        self.clocks.traffic = Some(Instant::now());
        // From the end of the current window on: nothing of the past changes.
        self.begin_load(window_end, d);
        d.machine.find_places(self.settings.mapped_doorbells);
        Some(window(&self.platform, &self.settings))
    }

    /// When the measurement begins or ends next: a guest that sleeps must not sleep through it.
    pub fn boundary(&self) -> Option<Ps> {
        let measure = self.begin.saturating_add(self.settings.warm_up.ps());
        match (self.stage, self.start.is_some(), self.end.is_some()) {
            (Stage::Traffic, false, _) => Some(measure),
            (Stage::Traffic, true, false) if !self.settings.until_end => {
                Some(measure.saturating_add(self.settings.duration.ps()))
            }
            _ => None,
        }
    }

    /// Before what time no tick decides anything, whatever their number, as long as no device acts and no program reports.
    pub fn quiet_until(&self) -> Ps {
        if !matches!(self.outside, Outside::Nothing) {
            return Ps::ZERO;
        }
        if self.stage == Stage::Draining && self.idle {
            return self.begin + SETTLE;
        }
        let quiet = self.stage == Stage::Traffic && self.end.is_none();
        if !quiet || self.settings.trace_length.ps() > Ps::ZERO {
            return Ps::ZERO;
        }
        self.boundary().unwrap_or(Ps::MAX).min(self.next_sample())
    }

    /// Whether what devices do decides something, too: a trace that comes to its end, or what is still under way.
    #[must_use]
    pub fn devices_decide(&self) -> bool {
        self.settings.until_end || self.stage != Stage::Traffic
    }

    /// When the next points of the time series, and of the fill of rings, are due.
    fn samples_due(&self) -> [Ps; 2] {
        if self.start.is_none() || self.end.is_some() {
            return [Ps::MAX; 2];
        }
        let measure = self.begin + self.settings.warm_up.ps();
        let next = |done: usize, step: Ps| measure.saturating_add(done as u64 * step);
        let step = self.settings.interval.ps();
        let more = step > Ps::ZERO && self.series.len() < result::SERIES_MAX;
        let series = if more { next(self.series.len() + 1, step) } else { Ps::MAX };
        let room = self.occupancy.len() < result::OCCUPANCY_MAX;
        let occupancy = if room { next(self.occupancy.len(), self.occupancy_step) } else { Ps::MAX };
        [series, occupancy]
    }

    /// When the first of them is.
    pub(crate) fn next_sample(&self) -> Ps {
        let [series, occupancy] = self.samples_due();
        series.min(occupancy)
    }

    fn traffic_tick<H: Hold>(&mut self, t: Ps, channel: &mut Channel, d: &mut Driven<'_, H>) -> Option<Ps> {
        let measure = self.begin.saturating_add(self.settings.warm_up.ps());
        self.write_capture(t, false, d);
        if self.settings.until_end && self.start.is_some() && self.end.is_none() && all_sent(d) {
            // Its length is known now: devices have been simulated to the end of this window. What came last left before.
            let end = t + self.platform.quantum();
            let wires = self.platform.link.iter().map(|link| link.latency.ps());
            self.arriving = wires.min().unwrap_or_default().min(t.saturating_sub(measure));
            self.settings.duration = Duration::of(end.saturating_sub(measure));
            self.settings.until_end = false;
        }
        let end = if self.settings.until_end { Ps::MAX } else { measure.saturating_add(self.settings.duration.ps()) };
        if self.start.is_none() && t >= measure {
            self.start = Some(self.snapshot(t, d));
            d.machine.begin_measurement();
        }
        if self.end.is_none() && t >= end {
            self.end = Some(self.snapshot(t, d));
            self.late = Some(result::late(d));
            d.machine.nics.nics().books.end_measurement();
        }
        let [series, occupancy] = self.samples_due();
        if t >= occupancy {
            let nics = d.machine.nics.nics();
            self.occupancy.push(nics.slots.iter().map(|s| s.nic.occupancy(&nics.books)).collect());
        }
        self.trace_pipelines(t, measure + self.settings.trace_start.ps(), d);
        if t >= series {
            self.series.push(self.snapshot(t, d));
        }
        if self.end.is_none() || self.clocks.ticks % COUNT_EVERY != 0 {
            return None;
        }
        let decided = self.decided(d);
        if decided || t >= end.saturating_add(self.settings.follow.ps()) {
            self.followed_no_longer = if decided { 0 } else { self.under_way(d) };
            if channel.has_trials() && self.next_trial(t, channel, d) {
                return None;
            }
            let mut nics = d.machine.nics.nics();
            nics.slots.iter_mut().for_each(|s| s.nic.stop_traffic(t));
            nics.books.end_of_timing();
            drop(nics);
            self.unplug();
            self.stage = Stage::Draining;
            self.stopped = t;
            self.moved.1 = t;
            self.clocks.draining = Some(Instant::now());
            self.begin = t;
            return Some(self.boot_quantum());
        }
        None
    }

    /// Whether the fate of all packets of the cohort is known: none is on its way to the NIC, inside it or with the host, and none
    /// that the host has taken is still to be answered from another buffer.
    fn decided<H: Hold>(&self, d: &Driven<'_, H>) -> bool {
        let nics = d.machine.nics.nics();
        let cohort = nics.books.counts(Which::Cohort);
        let answered_later = match self.settings.role {
            // The kernel sends copies: what it has taken counts as dropped until its copy leaves.
            Role::Forwards if self.settings.processor_time => cohort.host_drop,
            Role::Answers if self.settings.far == FarEnd::None => cohort.consumed,
            _ => 0,
        };
        // Packets come in the order in which they leave: while one from before its end does, more of it may.
        let coming = nics.slots.iter().any(|s| s.nic.cable().next().departed < nics.books.cohort.end);
        !coming && cohort.undecided() + answered_later == 0
    }

    /// Packets of the cohort that may still have a latency: what a program that only takes packets has, it has taken, although
    /// their buffers may not be posted again for long.
    fn under_way<H: Hold>(&self, d: &Driven<'_, H>) -> u64 {
        let cohort = d.machine.nics.nics().books.counts(Which::Cohort);
        let taken = if self.settings.role == Role::Consumes { cohort.held_by_host } else { 0 };
        cohort.undecided() - taken
    }

    /// Tells what this trial has shown and begins the next one; false where none follows.
    fn next_trial<H: Hold>(&mut self, t: Ps, channel: &mut Channel, d: &mut Driven<'_, H>) -> bool {
        let result = result::result(self, t, 0, d);
        let Some(trial) = channel.next_trial(&result) else { return false };
        // Nothing of what devices have been simulated to changes.
        let simulated = t + self.platform.quantum();
        {
            let mut nics = d.machine.nics.nics();
            for slot in &mut nics.slots {
                if let Err(problem) = slot.nic.cable_mut().change(&trial.load, simulated) {
                    channel.send(json!({ "refused": problem.to_string() }));
                    return false;
                }
            }
        }
        let s = &mut self.settings;
        (s.warm_up, s.duration, s.follow, s.load) = (trial.warm_up, trial.duration, trial.follow, trial.load);
        (self.start, self.end, self.late) = (None, None, None);
        self.series.clear();
        self.occupancy.clear();
        self.begin_load(simulated + trial.idle.ps(), d);
        true
    }

    /// The load in force starts at `t`: warm-up, then the measurement.
    fn begin_load<H: Hold>(&mut self, t: Ps, d: &mut Driven<'_, H>) {
        self.begin = t;
        self.plug(t);
        let (warm_up, duration) = (self.settings.warm_up.ps(), self.settings.duration.ps());
        // A point a window, at most.
        self.occupancy_step = (duration / result::OCCUPANCY_POINTS).max(window(&self.platform, &self.settings));
        let (measure, trace) = (t.saturating_add(warm_up), self.settings.trace_start.ps());
        let window = measure + trace..measure + trace + self.settings.trace_length.ps();
        let mut nics = d.machine.nics.nics();
        let Nics { slots, books, .. } = &mut *nics;
        books.measure(measure..if self.settings.until_end { Ps::MAX } else { measure.saturating_add(duration) });
        let capture = self.settings.capture_length.ps();
        let begin = measure + self.settings.capture_start.ps();
        let tapped = if capture == Ps::ZERO { Ps::ZERO..Ps::ZERO } else { begin..begin.saturating_add(capture) };
        for slot in slots {
            slot.nic.start_traffic(t, books);
            slot.nic.start_timeline(window.clone(), books);
        }
        books.ports.iter_mut().for_each(|p| p.tap.window = tapped.clone());
    }

    /// Stages of instructions are recorded in the timeline's window.
    fn trace_pipelines<H: Hold>(&mut self, t: Ps, from: Ps, d: &mut Driven<'_, H>) {
        let length = self.settings.trace_length.ps();
        if length == Ps::ZERO || t < from || !self.pipelines.is_empty() {
            return;
        }
        // However short, it has a window of the simulation.
        if d.machine.cores.iter().all(|c| c.stages.is_none()) {
            d.machine.cores.iter_mut().for_each(|c| c.stages = Some(Box::default()));
        } else if t >= from + length {
            let taken = d.machine.cores.iter_mut().enumerate().filter_map(|(i, c)| Some((i, *c.stages.take()?)));
            self.pipelines = taken.collect();
        }
    }

    /// Ready means that the program polls, which the register interface does not show: once the receive unit is on
    /// and its ring filled, a packet every now and then finds out.
    fn receiver_ready<H: Hold>(&mut self, window_end: Ps, d: &mut Driven<'_, H>) -> bool {
        let mut nics = d.machine.nics.nics();
        let quiet = nics.slots.iter().all(|s| s.nic.phase() == Phase::Quiet);
        if quiet && nics.slots.iter().all(|s| s.nic.ready()) {
            nics.slots.iter_mut().for_each(|s| s.nic.trickle(window_end, TRICKLE));
        }
        !quiet && nics.books.host_takes_packets(self.settings.queues.into())
    }

    /// Whether the program has sent anything.
    fn has_sent<H: Hold>(&self, d: &Driven<'_, H>) -> bool {
        let nics = d.machine.nics.nics();
        let sends = |(port, s): (usize, &Slot<_>)| s.nic.program_sends() && nics.stats(port, 1).transmit.frames > 0;
        nics.slots.iter().enumerate().any(sends)
    }

    fn snapshot<H: Hold>(&self, t: Ps, d: &Driven<'_, H>) -> Snapshot {
        let nics = d.machine.nics.nics();
        let queues = self.settings.queues as usize;
        Snapshot {
            time: t,
            cores: d.machine.cores.iter().map(wiretime_hw::core::Core::stats).collect(),
            private: (0..d.machine.cores.len()).map(|i| d.machine.memory.private_stats(i).clone()).collect(),
            stalls: d.machine.cores.iter().map(wiretime_hw::core::Core::stall_stats).collect(),
            tlbs: d.machine.cores.iter().map(wiretime_hw::core::Core::tlb_stats).collect(),
            memory: d.machine.memory.stats().clone(),
            objects: d.machine.memory.objects.stats(),
            dram: d.machine.memory.dram_stats().clone(),
            ports: (0..nics.slots.len()).map(|port| nics.stats(port, queues)).collect(),
            instructions: d.executed.instructions.to_vec(),
            times: d.executed.times.to_vec(),
            hash: d.executed.hash,
        }
    }

    fn progress<H: Hold>(&self, t: Ps, d: &Driven<'_, H>) -> Value {
        let total = self.settings.warm_up.ps() + self.settings.duration.ps();
        let (phase, done) = match self.stage {
            Stage::Boot => ("boot", Ps::ZERO),
            Stage::Traffic => {
                let done = t.saturating_sub(self.begin);
                let phase = if done < self.settings.warm_up.ps() {
                    "warm-up"
                } else if done < total {
                    "measure"
                } else {
                    "follow"
                };
                (phase, done.min(total))
            }
            Stage::Draining | Stage::Stopping => ("stop", total),
        };
        let instructions: u64 = d.executed.instructions.iter().sum();
        json!({
            "phase": phase, "simulated_ns": t.ns(), "instructions": instructions,
            "done_ns": done.ns(), "total_ns": total.ns(), "frames": self.far_frames(d),
        })
    }

    /// Host times, for speed only.
    pub fn host<H>(&self, d: &Driven<'_, H>) -> Value {
        let seconds =
            |from: Instant, to: Option<Instant>| to.unwrap_or_else(Instant::now).duration_since(from).as_secs_f64();
        json!({
            "boot_seconds": seconds(self.clocks.boot, self.clocks.traffic),
            "traffic_seconds": self.clocks.traffic.map(|t| seconds(t, self.clocks.draining)),
            "traffic_instructions": d.executed.timed,
            "repeated_instructions": d.executed.repeated,
            "all_instructions": d.executed.instructions.iter().sum::<u64>(),
        })
    }
}

/// Whether nothing is left to be sent to any port.
fn all_sent<H: Hold>(d: &Driven<'_, H>) -> bool {
    d.machine.nics.nics().slots.iter().all(|s| s.nic.cable().exhausted())
}
