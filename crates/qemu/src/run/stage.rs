//! The stages of a run, decided at window boundaries: boot, traffic (warm-up, measurement, following the cohort to its
//! end), draining, stopping the guest.

use super::report::{self, Snapshot};
use super::{lock, Run};
use crate::control::{Control, Role, StartAt, Timing};
use crate::engine::{engine, reinstrument, Engine};
use crate::vfio::GuestPhase;
use serde_json::{json, Value};
use std::ffi::c_void;
use std::time::Instant;
use wiretime_base::{Duration, Ps, PS_PER_NS};
use wiretime_hw::machine::{Hold, Nics};
use wiretime_hw::nic::Phase;

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
const SETTLE: Ps = 20_000_000_000;
/// Between packets that find out whether the program polls.
const TRICKLE: Ps = 1_000_000_000;
/// Host time is looked at once in so many windows.
const TICKS: u32 = 256;
/// Undecided packets of the cohort are counted once in so many windows.
const COUNT_EVERY: u32 = 64;

/// At the start of each window, and at each idle jump.
pub fn window_tick(e: &mut Engine, t: Ps) {
    let run = &mut e.run;
    run.clocks.ticks = run.clocks.ticks.wrapping_add(1);
    if run.clocks.ticks % TICKS == 0 && e.control.progress_due() {
        e.control.progress(run.progress(t));
    }
    if run.settings.profile && lock(&run.control).exit.is_some() {
        // Blocks live until QEMU drops them: the result is due, so collect what they were charged.
        e.blocks.collect(&mut run.profile);
    }
    if let Some((message, status)) = run.finished(t) {
        e.control.send(message);
        leave_process(status);
    }
    let switch = match run.stage {
        Stage::Boot => run.boot_tick(e.turns.window_end),
        Stage::Traffic => run.traffic_tick(t, &mut e.control),
        Stage::Draining => {
            run.draining_tick(t);
            None
        }
        Stage::Stopping => None,
    };
    if let Some(quantum) = switch {
        e.turns.set_quantum(quantum);
        if e.run.settings.timing == Timing::Full {
            // Nobody has watched these meanwhile.
            e.vcpus.iter_mut().for_each(|v| v.addresses.stale = true);
            e.run.invalidate(None);
            reinstrument(e);
        }
    }
}

impl Run {
    fn draining_tick(&mut self, t: Ps) {
        let idle = self.machine.nics.nics().slots.iter().all(|s| s.nic.idle()) && !self.machine.writes_pending();
        // A program that sends by itself goes on until it is told to stop.
        if !idle && self.settings.role != Role::Sends {
            self.begin = t;
        } else if t >= self.begin + SETTLE {
            self.stage = Stage::Stopping;
            (self.begin, self.stopped) = (t, t);
            let mut nics = self.machine.nics.nics();
            nics.books.ledger.drained();
            self.totals = Some(report::packet_totals(&nics, &self.settings));
            drop(nics);
            lock(&self.control).phase = GuestPhase::Stop;
        }
    }

    /// The guest has reported its exit, or taken too long: the last message, and the exit status of the process.
    fn finished(&mut self, t: Ps) -> Option<(Value, i32)> {
        let exit = lock(&self.control).exit;
        if let Some(status) = exit {
            let early =
                self.stage != Stage::Stopping && matches!(self.starts_at(), StartAt::ReceiverReady | StartAt::Sending);
            if early {
                let reason =
                    format!("the guest application ended with status {status} before the measurement was over");
                return Some(self.failure("exited", &reason));
            }
            // A program that ends by itself is measured to its end.
            if self.start.is_some() && self.end.is_none() {
                self.end = Some(self.snapshot(t));
            }
            let profile = self.settings.profile.then(|| self.profile.report(&self.ram));
            self.unplug();
            self.write_capture(t, true);
            let result = report::result(self, t, status);
            let trace = report::trace(self);
            return Some((json!({ "result": result, "profile": profile, "trace": trace, "host": self.host() }), 0));
        }
        if self.far_end_lost() && self.stage == Stage::Traffic {
            return Some(self.failure("peer", "the other host ended before the measurement was over"));
        }
        let limit = self.settings.guest_limit.ps();
        let since = match self.stage {
            Stage::Boot if self.starts_at() != StartAt::Never => 0,
            Stage::Draining | Stage::Stopping => self.stopped,
            _ => return None,
        };
        if t > since + limit {
            let what = match self.stage {
                Stage::Boot => "no port was enabled",
                _ => "the guest application did not stop",
            };
            return Some(
                self.failure("time-out", &format!("{what} within {} of simulated time", self.settings.guest_limit)),
            );
        }
        None
    }

    fn failure(&self, kind: &str, reason: &str) -> (Value, i32) {
        (json!({ "failed": { "kind": kind, "reason": reason }, "host": self.host() }), 1)
    }

    /// Starts the traffic when the guest is ready; returns the quantum from then on.
    fn boot_tick(&mut self, window_end: Ps) -> Option<Ps> {
        let start = match self.starts_at() {
            StartAt::ReceiverReady => self.receiver_ready(window_end),
            StartAt::Sending => self.has_sent(),
            StartAt::Mark => lock(&self.control).mark == 1,
            StartAt::Never => false,
        };
        if !start {
            return None;
        }
        self.find_places();
        self.stage = Stage::Traffic;
        self.clocks.traffic = Some(Instant::now());
        // From the end of the current window on: nothing of the past changes.
        self.begin_load(window_end);
        Some(if self.settings.timing == Timing::Blocks { super::BOOT_QUANTUM } else { self.platform.quantum() })
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

    fn traffic_tick(&mut self, t: Ps, control: &mut Control) -> Option<Ps> {
        let measure = self.begin + self.settings.warm_up.ps();
        self.write_capture(t, false);
        if self.settings.until_end && self.start.is_some() && self.end.is_none() && self.all_sent() {
            // Its length is known now: devices have been simulated to the end of this window.
            let end = t + self.platform.quantum();
            self.settings.duration = Duration::new(end.saturating_sub(measure)).unwrap_or(self.settings.duration);
            self.settings.until_end = false;
        }
        let end = if self.settings.until_end { Ps::MAX } else { measure + self.settings.duration.ps() };
        if self.start.is_none() && t >= measure {
            self.start = Some(self.snapshot(t));
            self.profile.on = self.settings.profile;
            self.machine.nics.nics().books.begin_measurement();
        }
        if self.end.is_none() && t >= end {
            self.end = Some(self.snapshot(t));
            self.profile.on = false;
            self.machine.nics.nics().books.end_measurement();
        }
        let step = self.occupancy_step;
        let room = (self.occupancy.len() as Ps) < report::OCCUPANCY_MAX;
        if room && self.start.is_some() && self.end.is_none() && t >= measure + self.occupancy.len() as Ps * step {
            let nics = self.machine.nics.nics();
            self.occupancy.push(nics.slots.iter().map(|s| s.nic.occupancy(&nics.books)).collect());
        }
        self.trace_pipelines(t, measure + self.settings.trace_start.ps());
        let step = self.settings.interval.ps();
        if step > 0 && self.start.is_some() && self.end.is_none() && t >= measure + (self.series.len() as Ps + 1) * step
        {
            self.series.push(self.snapshot(t));
        }
        if self.end.is_none() || self.clocks.ticks % COUNT_EVERY != 0 {
            return None;
        }
        let decided = !self.machine.nics.nics().books.ledger.cohort_undecided();
        if decided || t >= end + self.settings.follow.ps() {
            if control.has_trials() && self.next_trial(t, control) {
                return None;
            }
            self.machine.nics.nics().slots.iter_mut().for_each(|s| s.nic.stop_traffic(t));
            self.unplug();
            self.stage = Stage::Draining;
            self.stopped = t;
            self.clocks.draining = Some(Instant::now());
            self.begin = t;
            return Some(self.boot_quantum());
        }
        None
    }

    /// Tells what this trial has shown and begins the next one; false where none follows.
    fn next_trial(&mut self, t: Ps, control: &mut Control) -> bool {
        let result = report::result(self, t, 0);
        let Some(trial) = control.next_trial(&result) else { return false };
        let s = &mut self.settings;
        (s.warm_up, s.duration, s.follow) = (trial.warm_up, trial.duration, trial.follow);
        s.load = trial.load;
        let load = s.load.clone();
        {
            let mut nics = self.machine.nics.nics();
            for slot in &mut nics.slots {
                if let Err(problem) = slot.nic.change_load(&load) {
                    control.send(json!({ "refused": problem }));
                    return false;
                }
            }
        }
        (self.start, self.end) = (None, None);
        self.series.clear();
        self.occupancy.clear();
        // Nothing of what devices have been simulated to changes.
        self.begin_load(t + self.platform.quantum() + trial.idle.ps());
        true
    }

    /// The load in force starts at `t`: warm-up, then the measurement.
    fn begin_load(&mut self, t: Ps) {
        self.begin = t;
        self.plug(t);
        let (warm_up, duration) = (self.settings.warm_up.ps(), self.settings.duration.ps());
        self.occupancy_step = (duration / report::OCCUPANCY_POINTS).max(1);
        let (measure, trace) = (t + warm_up, self.settings.trace_start.ps());
        let window = measure + trace..measure + trace + self.settings.trace_length.ps();
        let mut nics = self.machine.nics.nics();
        let Nics { slots, books } = &mut *nics;
        books.measure(measure..if self.settings.until_end { Ps::MAX } else { measure + duration });
        let capture = self.settings.capture_length.ps();
        let begin = measure + self.settings.capture_start.ps();
        let tapped = if capture == 0 { 0..0 } else { begin..begin.saturating_add(capture) };
        for slot in slots {
            slot.nic.start_traffic(t, books);
            slot.nic.start_timeline(window.clone(), books);
        }
        books.ports.iter_mut().for_each(|p| p.tap.window = tapped.clone());
    }

    /// Whether the host has sent anything.
    fn has_sent(&self) -> bool {
        let nics = self.machine.nics.nics();
        nics.slots.iter().any(|s| s.nic.stats(1, &nics.books).transmit.frames > 0)
    }

    /// Whether no generator has anything left to send.
    fn all_sent(&self) -> bool {
        self.machine.nics.nics().slots.iter().all(|s| s.nic.exhausted())
    }

    /// Stages of instructions are recorded in the timeline's window.
    fn trace_pipelines(&mut self, t: Ps, from: Ps) {
        let length = self.settings.trace_length.ps();
        if length == 0 || t < from || !self.pipelines.is_empty() {
            return;
        }
        if t >= from + length {
            let taken = self.machine.cores.iter_mut().enumerate().filter_map(|(i, c)| Some((i, *c.stages.take()?)));
            self.pipelines = taken.collect();
        } else if self.machine.cores.iter().all(|c| c.stages.is_none()) {
            self.machine.cores.iter_mut().for_each(|c| c.stages = Some(Box::default()));
        }
    }

    /// Ready means that the program polls, which the register interface does not show: once the receive unit is on
    /// and its ring filled, a packet every now and then finds out.
    fn receiver_ready(&mut self, window_end: Ps) -> bool {
        let mut nics = self.machine.nics.nics();
        let quiet = nics.slots.iter().all(|s| s.nic.phase() == Phase::Quiet);
        if quiet && nics.slots.iter().all(|s| s.nic.ready()) {
            nics.slots.iter_mut().for_each(|s| s.nic.trickle(window_end, TRICKLE));
        }
        !quiet && nics.books.host_takes_packets(self.settings.queues.into())
    }

    fn snapshot(&self, t: Ps) -> Snapshot {
        let nics = self.machine.nics.nics();
        let queues = self.settings.queues as usize;
        Snapshot {
            time: t,
            cores: self.machine.cores.iter().map(wiretime_hw::core::Core::stats).collect(),
            private: (0..self.machine.cores.len()).map(|i| self.machine.memory.private_stats(i).clone()).collect(),
            stalls: self.machine.cores.iter().map(wiretime_hw::core::Core::stall_stats).collect(),
            tlbs: self.machine.cores.iter().map(wiretime_hw::core::Core::tlb_stats).collect(),
            memory: self.machine.memory.stats().clone(),
            objects: self.machine.memory.objects.stats(),
            dram: self.machine.memory.dram_stats().clone(),
            ports: nics.slots.iter().map(|s| s.nic.stats(queues, &nics.books)).collect(),
            instructions: self.instructions.clone(),
            times: self.core_times.iter().map(|a| a.times).collect(),
            hash: self.hash,
        }
    }

    fn progress(&self, t: Ps) -> Value {
        let total = self.settings.warm_up.ps() + self.settings.duration.ps();
        let (phase, done) = match self.stage {
            Stage::Boot => ("boot", 0),
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
        let instructions: u64 = self.instructions.iter().sum();
        json!({
            "phase": phase, "simulated_ns": t / PS_PER_NS, "instructions": instructions,
            "done_ns": done / PS_PER_NS, "total_ns": total / PS_PER_NS, "frames": self.far_frames(),
        })
    }

    fn host(&self) -> serde_json::Value {
        let seconds =
            |from: Instant, to: Option<Instant>| to.unwrap_or_else(Instant::now).duration_since(from).as_secs_f64();
        json!({
            "boot_seconds": seconds(self.clocks.boot, self.clocks.traffic),
            "traffic_seconds": self.clocks.traffic.map(|t| seconds(t, self.clocks.draining)),
            "traffic_instructions": self.timed_instructions,
            "all_instructions": self.instructions.iter().sum::<u64>(),
        })
    }
}

/// Ends the process at once: QEMU's own shutdown takes host time and has nothing to add.
fn leave_process(status: i32) -> ! {
    // SAFETY: nothing is left to flush: messages go out unbuffered.
    unsafe { libc::_exit(status) }
}

/// QEMU exits by itself: the guest has powered off, or somebody closed it.
pub extern "C" fn at_exit(_: *mut c_void) {
    let e: &mut Engine = engine();
    crate::execute::finish_all(e);
    let hash = format!("{:016x}", e.run.hash);
    let instructions = e.run.instructions.clone();
    let figures = lock(&e.run.control).figures.clone();
    let host = e.run.host();
    let interrupts = e.run.interrupts;
    e.control.send(json!({ "left": {
        "instructions": instructions, "hash": hash, "interrupts": interrupts, "figures": figures,
    }, "host": host }));
}
