//! Boots once: the state of a machine when its kernel asks what it is to run, and when its devices are switched on or its
//! program says that it is ready, kept and continued.
//!
//! Until then instructions take a fixed time each. QEMU's own state goes into a file by QEMU's migration, which knows nothing of
//! our devices; this is the rest: the clock, whose turn it is, configuration spaces, and all that devices have been told
//! (`inputs`), which those of the machine that goes on are told again. Where devices only have read what they were told in
//! guest memory, and written nothing, nothing depends on timing, and that machine may be any. Where they have (a device set up
//! by commands in memory, a kernel that has sent packets), what they have read is kept, too (`tape`), and that machine has to
//! be the same but for its cores. A kernel that has only just started has not touched any device: its state is one of all
//! guests with its archives and arguments, on all machines with such cores, memory and PCI functions, and theirs are made from it.
//!
//! Keeping: [`look`] finds the moment, says so with this state, and holds all vCPUs for good: whoever drives it keeps QEMU's
//! state, and ends it. Continuing: QEMU comes with its own state; before its first instruction [`go_on`] brings ours back,
//! and takes the decisions of the window anew that was about to begin. Every run goes on from a state, the first one of its
//! guest, too: a QEMU that has been stopped in between is not quite the one that was not.

mod inputs;
mod tape;

pub use inputs::{Input, Inputs};
pub use tape::DeviceMemory;

use crate::clock;
use crate::engine::Engine;
use crate::internals;
use crate::run::{self, CoreTime};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::ffi::c_void;
use wiretime_base::Ps;
use wiretime_experiment::{StartAt, Times};
use wiretime_hw::machine::Hold;
use wiretime_hw::pci::ConfigSpace;

/// When a boot is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The kernel runs, and asks what it is to run.
    Kernel,
    /// Devices are switched on, or the program says so.
    Ready,
}

impl Moment {
    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "kernel" => Some(Self::Kernel),
            "ready" => Some(Self::Ready),
            _ => None,
        }
    }
}

/// What is to be done about it.
pub struct Boot {
    /// What is brought back before anything runs; once.
    pub continues: Option<Box<State>>,
    /// When it is to be kept, if at all.
    pub keeps: Option<Moment>,
}

/// A PCI function as the guest has set it up.
#[derive(Serialize, Deserialize)]
struct Function {
    config: Vec<u8>,
    /// Where the table of messages stands, and its words, where it does.
    table: u64,
    messages: Vec<u32>,
}

/// Whose turn it is, and what is due.
#[derive(Serialize, Deserialize)]
struct Turn {
    turn: usize,
    running: usize,
    window: [Ps; 3],
    must_advance: bool,
    irq_due: bool,
    irq_at: Ps,
    /// Every vCPU slept: time was about to jump on.
    asleep: bool,
}

/// See the module.
#[derive(Serialize, Deserialize)]
pub struct State {
    /// The beginning of the window.
    time: Ps,
    clock: [i64; 3],
    turn: Turn,
    /// Own time of each vCPU, and what was timed last.
    vcpus: Vec<[Ps; 2]>,
    instructions: Vec<u64>,
    hash: u64,
    interrupts: u64,
    times: Vec<Times>,
    core_times: Vec<CoreTime>,
    ticks: u32,
    levels: Vec<bool>,
    nics: Vec<Function>,
    control: Function,
    /// The kernel waits for what it is to run.
    asked: bool,
    mark: u32,
    figures: Vec<u32>,
    inputs: Inputs,
    /// Devices have written nothing: it is a state of every machine.
    quiet: bool,
}

/// At the start of a window, before anything is decided: whether this is the moment.
pub fn look(e: &mut Engine, moment: Moment, time: Ps) {
    let nics = e.run.machine.nics.nics();
    let booting = e.run.experiment.booting();
    let now = match (moment, e.run.experiment.settings.start_at) {
        (Moment::Kernel, _) => run::lock(&e.run.control_device()).asked(),
        (Moment::Ready, StartAt::Mark) => run::lock(&e.run.control_device()).mark == 1,
        (Moment::Ready, _) => nics.slots.iter().all(|s| s.nic.ready()),
    };
    if booting && !now {
        return;
    }
    let silent = |port: usize| {
        let s = nics.stats(port, 1);
        s.io.memory_writes == 0 && s.transmit.frames == 0
    };
    // A guest that has talked is another one on each machine: it depends on how fast its packets were.
    let quiet = (0..nics.slots.len()).all(silent);
    drop(nics);
    e.boot.keeps = None;
    let inputs = e.run.stop_noting(!quiet).filter(|_| booting);
    let inputs = inputs.filter(|inputs| moment == Moment::Ready || inputs.untouched());
    let state = inputs.map(|inputs| State::of(e, time, inputs));
    if state.is_some() {
        e.turns.keeping = true;
        clock::stand_still(true);
    }
    e.channel.send(json!({ "keep": state }));
}

impl State {
    fn of(e: &Engine, time: Ps, inputs: Inputs) -> Self {
        let (run, turns) = (&e.run, &e.turns);
        let nics = run.machine.nics.nics().slots.iter().map(|s| Function::of(&s.config)).collect();
        let control = run.control_device();
        let control = run::lock(&control);
        Self {
            time,
            clock: clock::reading(),
            turn: Turn {
                turn: turns.turn,
                running: turns.running,
                window: [turns.window_start, turns.window_end, turns.quantum],
                must_advance: turns.must_advance,
                irq_due: turns.irq_due,
                irq_at: turns.irq_at,
                asleep: turns.asleep,
            },
            vcpus: e.vcpus.iter().map(|v| [v.local, v.timed_local]).collect(),
            instructions: run.instructions.clone(),
            hash: run.hash,
            interrupts: run.interrupts,
            times: run.times.clone(),
            core_times: run.core_times.clone(),
            ticks: run.experiment.ticks(),
            levels: run.levels(),
            nics,
            control: Function::of(&control.config),
            asked: control.asked(),
            mark: control.mark,
            figures: control.figures.clone(),
            quiet: inputs.quiet(),
            inputs,
        }
    }

    /// The clock, before QEMU brings its own state back.
    pub fn set_clock(&self) {
        clock::set_reading(self.clock);
        clock::stand_still(true);
    }
}

/// Brings the state back; TCG thread, big lock held.
pub fn go_on(e: &mut Engine, state: &State) {
    e.run.map_doorbells();
    let nics: Vec<Vec<u8>> = e.run.machine.nics.nics().slots.iter().map(|s| s.config.bytes().to_vec()).collect();
    for (i, (kept, fresh)) in state.nics.iter().zip(nics).enumerate() {
        kept.bring_back(internals::nic(i), &fresh);
    }
    let control = e.run.control_device();
    let fresh = run::lock(&control).config.bytes().to_vec();
    state.control.bring_back(internals::device(c"/machine/peripheral/control0"), &fresh);
    {
        let mut control = run::lock(&control);
        (control.mark, control.figures) = (state.mark, state.figures.clone());
        control.set_asked(state.asked);
    }
    if !state.inputs.replay(&mut e.run.machine) {
        // Better no result than that of another machine.
        let reason = "its kept boot is not one of this machine: run it with --boot";
        e.channel.send(json!({ "failed": { "kind": "boot", "reason": reason } }));
        run::leave_process(1);
    }
    if e.boot.keeps.is_some() {
        e.run.start_noting(state.inputs.clone());
    }
    let (run, turns) = (&mut e.run, &mut e.turns);
    run.see_memory();
    run.instructions.clone_from(&state.instructions);
    (run.hash, run.interrupts) = (state.hash, state.interrupts);
    run.times.clone_from(&state.times);
    run.core_times.clone_from(&state.core_times);
    run.experiment.set_ticks(state.ticks);
    run.set_levels(&state.levels);
    for (v, kept) in e.vcpus.iter_mut().zip(&state.vcpus) {
        [v.local, v.timed_local] = *kept;
    }
    let turn = &state.turn;
    (turns.turn, turns.running) = (turn.turn, turn.running);
    [turns.window_start, turns.window_end, turns.quantum] = turn.window;
    (turns.must_advance, turns.irq_due, turns.irq_at) = (turn.must_advance, turn.irq_due, turn.irq_at);
    clock::set_reading(state.clock);
    clock::stand_still(false);
    run::window_tick(e, state.time);
    // SAFETY: plain query.
    if turn.asleep && !unsafe { internals::all_cpu_threads_idle() } {
        e.turns.wake_up(clock::published());
    }
}

/// The command register: memory and bus mastering go on once all addresses stand.
const COMMAND: usize = 4;

impl Function {
    fn of(config: &ConfigSpace) -> Self {
        let table = config.message_table().unwrap_or_default();
        let messages = table.clone().step_by(4).map(internals::read_word).collect();
        Self { config: config.bytes().to_vec(), table: table.start, messages }
    }

    /// Writes what the guest had written, as it did: addresses, then the command register, then messages.
    fn bring_back(&self, device: *mut c_void, fresh: &[u8]) {
        if device.is_null() {
            return;
        }
        let word = |bytes: &[u8], at: usize| {
            bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
        };
        let messages = ConfigSpace::MESSAGES;
        let plain = (0..self.config.len()).step_by(4).filter(|&at| at != COMMAND && at != messages);
        for at in plain.filter(|&at| word(&self.config, at) != word(fresh, at)) {
            internals::write_config(device, at as u32, word(&self.config, at), 4);
        }
        internals::write_config(device, COMMAND as u32, word(&self.config, COMMAND) & 0xffff, 2);
        if self.messages.is_empty() {
            return;
        }
        for (address, &kept) in (self.table..).step_by(4).zip(&self.messages) {
            internals::write_word(address, kept);
        }
        internals::write_config(device, messages as u32 + 2, word(&self.config, messages) >> 16, 2);
    }
}
