//! Whose turn it is: devices up to where the next core stands, what they have written by then, that core; and between windows
//! what the experiment decides.

use crate::cost::{CostModel, Mode};
use crate::cpu::{Cpu, Host};
use crate::driver::{self, Arena, Driver, RINGS, RING_BYTES};
use crate::memory::HostMemory;
use crate::poll::PollCore;
use crate::pool::Pool;
use serde::Deserialize;
use serde_json::{json, Value};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use wiretime_base::{Invalid, Ps};
use wiretime_capture::Trace;
use wiretime_experiment::{Channel, Driven, Executed, Experiment, Program, Role, RunSettings, Times};
use wiretime_hw::machine::{Machine, Nics, Slot};
use wiretime_hw::nic::{devices, shared_pages, BookSettings, DmaEngine, LocalPages};
use wiretime_hw::params::{Interface, Platform};
use wiretime_hw::wire::{Cable, Sink, FCS};

/// What a run is told.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    platform: Platform,
    run: RunSettings,
    model: CostModel,
    /// Rounds that find nothing are done one by one.
    #[serde(default)]
    every_turn: bool,
    /// The longest frame of all trials, where later ones have longer frames than the first.
    #[serde(default)]
    longest: u32,
}

/// The program under test: it runs from the start, and stops when it is told to.
#[derive(Default)]
struct Modelled {
    stopped: Cell<bool>,
}

impl Program for Modelled {
    fn mark(&self) -> u32 {
        1
    }
    fn exit(&self) -> Option<u32> {
        self.stopped.get().then_some(0)
    }
    fn figures(&self) -> Vec<u32> {
        Vec::new()
    }
    fn stop(&self) {
        self.stopped.set(true);
    }
    fn instruction(&self, _: u64) -> String {
        "?".into()
    }
}

const PAGE: u64 = 4096;
/// Windows without cores before it is looked again whether somebody listens, and what is over is forgotten.
const AT_ONCE: u32 = 256;
/// How far nothing may happen at once.
const FARTHEST: Ps = Ps::from_ms(10);

/// Buffers of a core's pool for each queue pair: both rings full, and some on their way, those of packets that wait among them.
fn buffers(model: &CostModel, longest: u32) -> u32 {
    let p = &model.policy;
    let gathered = p.gather.saturating_mul(longest.div_ceil(p.buffer));
    p.receive_ring + p.transmit_ring + 2 * p.burst.max(512).max(gathered)
}

/// Bytes of the shortest and the longest frame that come.
fn frames(s: &RunSettings) -> Result<(u32, u32), Invalid> {
    let Some(path) = &s.trace_file else { return Ok(s.load.sizes.range()) };
    let trace = wiretime_capture::summary(open(path)?);
    let bytes = |length: u64| u32::try_from(length).unwrap_or(u32::MAX);
    Ok((bytes(trace.shortest), bytes(trace.longest)))
}

fn open(path: &Path) -> Result<File, Invalid> {
    File::open(path).map_err(|e| Invalid::new("trace_file", path.display(), format!("cannot be opened: {e}")))
}

fn host(p: &Platform, s: &RunSettings, memory: &HostMemory) -> Result<Host, Invalid> {
    let mut slots = Vec::new();
    for port in p.ports() {
        let index = port.index;
        let mut mac = s.mac;
        mac[5] = mac[5].wrapping_add(index as u8);
        let cable = Cable::new(&s.load, index as u8, (port.link.rate, port.link.gap_bytes), mac)?;
        let pages = LocalPages::new(shared_pages(port.nic.interface).range);
        let mut nic = devices::port(p, index, (mac, pages), cable);
        if let Some(path) = &s.trace_file {
            nic.cable_mut().set_source(Box::new(Trace::new(open(path)?)));
        }
        slots.push(Slot::new(p, &port, nic, memory.clone()));
    }
    let sink = Sink::new(s.load.recognition, s.load.timestamp_offset);
    let settings =
        BookSettings { forwards: s.role == Role::Forwards, copies: s.processor_time, sink, classes: s.drop_classes };
    let nics = Nics { slots, cards: DmaEngine::of_cards(p), books: devices::books(p, settings) };
    Ok(Machine::new(p, p.system.cores as usize, RefCell::new(nics)))
}

/// Everything that runs.
struct PacketRun {
    host: Host,
    memory: HostMemory,
    model: CostModel,
    /// Rounds that find nothing are taken at once.
    repeats: bool,
    cores: Vec<PollCore>,
    experiment: Experiment,
    program: Modelled,
    times: Vec<Times>,
    instructions: Vec<u64>,
}

impl PacketRun {
    fn new(c: Config, capture: Option<OwnedFd>) -> Result<Self, Invalid> {
        c.platform.check()?;
        c.model.check()?;
        let (p, model) = (&c.platform, c.model);
        let cores = p.system.cores as usize;
        let queues = c.run.queues.max(1) as u16;
        // The first core keeps house.
        let working = cores.saturating_sub(1).max(1);
        let first = cores - working.min(cores);
        let ports = p.link.len();
        let pairs: Vec<(usize, u16)> =
            (0..ports).flat_map(|port| (0..queues).map(move |queue| (port, queue))).collect();
        let (shortest, longest) = frames(&c.run)?;
        let longest = longest.max(c.longest);
        let buffers = buffers(&model, longest);
        let pool_bytes = Pool::stride(model.policy.buffer) * u64::from(buffers);
        // An odd number of pages: rings are aligned as devices want them, and queues that go in step do not meet in the
        // same banks of memory, as they would were they a power of two apart.
        let pages = (RINGS * RING_BYTES + pool_bytes).div_ceil(PAGE) | 1;
        let arena = |n: usize| {
            let rings = n as u64 * pages * PAGE;
            Arena { rings, buffers: rings + RINGS * RING_BYTES }
        };
        let memory = HostMemory::new(arena(pairs.len()).rings as usize)?;
        let mut host = host(p, &c.run, &memory)?;
        let experiment = Experiment::new(p, &c.run, capture, None)?;
        // The device adds the check sequence, where a wire has one.
        let stripped = if model.interface == driver::name(Interface::Qdma) { 0 } else { FCS };
        let bytes = shortest.saturating_sub(stripped).max(1);
        let spread = model.policy.spread;
        let core_of = |pair: &(usize, u16)| spread.core((pair.0, pair.1.into()), (ports, queues.into()), working);
        let mut all = Vec::new();
        for core in 0..working.min(pairs.len()) {
            let mut drivers = Vec::new();
            let mine = pairs.iter().enumerate().filter(|(_, pair)| core_of(pair) == core);
            for (n, &(port, queue)) in mine {
                let interface = p.port(port).nic.interface;
                let its = driver::name(interface);
                if its != model.interface {
                    let rule = format!("the NIC is {its}: another model is needed");
                    return Err(Invalid::new("model.interface", &model.interface, rule));
                }
                let pool = Pool::new(arena(n).buffers, buffers, model.policy.buffer);
                drivers.push((Driver::new(interface, port, queue, arena(n), &model)?, pool));
            }
            if !drivers.is_empty() {
                let cpu = Cpu::new(first + core, &model, p);
                all.push(PollCore::new(cpu, drivers, bytes));
            }
        }
        let mut now = Ps::ZERO;
        for port in p.ports() {
            let its: Vec<_> = pairs
                .iter()
                .enumerate()
                .filter(|(_, pair)| pair.0 == port.index)
                .map(|(n, pair)| (pair.1, arena(n)))
                .collect();
            let at = (port.nic.interface, port.index);
            driver::set_up(at, (&mut host, &memory, &mut now), &its, &model, longest.saturating_sub(stripped))?;
        }
        Ok(Self {
            host,
            memory,
            model,
            repeats: !c.every_turn,
            cores: all,
            experiment,
            program: Modelled::default(),
            times: vec![Times::default(); cores],
            instructions: vec![0; cores],
        })
    }

    fn driven<T>(&mut self, with: impl FnOnce(&mut Experiment, &mut Driven<'_, RefCell<Nics<HostMemory>>>) -> T) -> T {
        let executed = Executed {
            instructions: &self.instructions,
            timed: 0,
            hash: 0,
            repeated: 0,
            interrupts: 0,
            times: &self.times,
        };
        let mut driven = Driven { machine: &mut self.host, executed, program: &self.program };
        with(&mut self.experiment, &mut driven)
    }

    /// Devices go on to the end of a window, and window by window for as long as all cores find nothing and nobody decides
    /// anything; returns the end of the window in which that may be over.
    fn advance(&mut self, mut end: Ps, quantum: Ps) -> Ps {
        let until = self.experiment.quiet_until();
        let acts = |host: &Host, end: Ps| host.quiet_until() < end || host.writes_pending();
        let decides = self.experiment.devices_decide() && acts(&self.host, end);
        self.host.advance(end, false);
        let skips = self.repeats && !decides && end < until;
        if !skips || !self.cores.iter().all(|core| core.finds_nothing(&self.host)) {
            return end;
        }
        let first = end / quantum;
        for _ in 0..AT_ONCE {
            // What is visible at its end is so before devices go on.
            if end >= until || self.host.next_write() <= end {
                break;
            }
            let (next, quiet) = ((end / quantum + 1) * quantum, self.host.quiet_until());
            if self.experiment.devices_decide() && acts(&self.host, next) {
                break;
            }
            // To the window in which a device acts or has written something, or to the first that begins when something is decided.
            let until = until.saturating_add(quantum - Ps(1));
            let farthest = quiet.min(self.host.next_write()).min(until).min(next.saturating_add(FARTHEST));
            end = (farthest / quantum * quantum).max(next);
            self.host.advance(end, false);
        }
        let windows = end / quantum - first;
        self.experiment.set_ticks(self.experiment.ticks().wrapping_add(windows as u32));
        end
    }

    /// To the end: the last message.
    fn run(&mut self, channel: &mut Channel) -> Value {
        for core in &mut self.cores {
            core.start(&mut self.host, &self.memory, &self.model);
        }
        let mut quantum = self.experiment.boot_quantum();
        let mut end = quantum;
        loop {
            // Devices first: before the window's end nothing reaches them that cores do in it. Then cores in order of time.
            end = self.advance(end, quantum);
            // A program that sends by itself stops when the measurement is over.
            let over = self.model.policy.program == Mode::Send && self.experiment.draining();
            while let Some((t, i)) = self.cores.iter().enumerate().map(|(i, c)| (c.cpu.time(), i)).min() {
                if t >= end || over {
                    break;
                }
                self.host.apply_writes(t);
                let core = &mut self.cores[i];
                core.step(&mut self.host, &self.memory, &self.model);
                if self.repeats {
                    let unchanged = self.host.next_write().min(end);
                    core.skip_to(unchanged, &mut self.host, &self.model.policy);
                }
            }
            for core in &self.cores {
                self.host.cores[core.cpu.index].busy_until(core.cpu.time());
            }
            self.host.apply_writes(end);
            self.host.reached(end);
            let start = end;
            if let Some((message, _)) = self.driven(|e, d| e.finished(start, d)) {
                return message;
            }
            let ends = start + quantum;
            if let Some(next) = self.driven(|e, d| e.tick(start, ends, channel, d)) {
                // Here devices are watched to the end, and see no doorbell later than in the measurement.
                quantum = if self.experiment.draining() { quantum } else { next };
            }
            if !channel.is_heard() {
                // Whoever asked has been interrupted.
                return json!({ "failed": { "kind": "stopped", "reason": "nobody listens any more" } });
            }
            end = (start / quantum + 1) * quantum;
        }
    }
}

/// Runs what `config` says, as JSON: messages go to `output`, trials come from `input`, a capture to `capture`.
///
/// # Errors
/// One line that names what cannot be.
pub fn run(config: &str, output: OwnedFd, input: Option<OwnedFd>, capture: Option<OwnedFd>) -> Result<(), Invalid> {
    let config: Config =
        serde_json::from_str(config).map_err(|e| Invalid::new("configuration", "JSON", e.to_string()))?;
    let mut run = PacketRun::new(config, capture)?;
    let mut channel = Channel::new(output, input);
    let mut message = run.run(&mut channel);
    if let Some(message) = message.as_object_mut().filter(|m| m.contains_key("result")) {
        message.insert("profile".into(), json!(null));
    }
    channel.send(message);
    Ok(())
}
