//! What is decided between windows: the experiment's next stage, and the end of the process.

use super::{lock, Run};
use crate::engine::{engine, reinstrument, Engine, Guest};
use crate::kept;
use crate::memory::GuestRam;
use crate::vfio::{ControlDevice, GuestPhase, Nics};
use serde_json::json;
use std::ffi::c_void;
use std::sync::Mutex;
use wiretime_base::Ps;
use wiretime_experiment::{Driven, Executed, Program, Timing};
use wiretime_hw::memory::GuestMemory;
use wiretime_isa::Isa;

/// The guest's program, by the control page and its memory.
struct InGuest<'a> {
    control: &'a Mutex<ControlDevice>,
    ram: GuestRam,
}

impl Program for InGuest<'_> {
    fn mark(&self) -> u32 {
        lock(self.control).mark
    }
    fn exit(&self) -> Option<u32> {
        lock(self.control).exit
    }
    fn figures(&self) -> Vec<u32> {
        lock(self.control).figures.clone()
    }
    fn stop(&self) {
        lock(self.control).phase = GuestPhase::Stop;
    }
    fn instruction(&self, paddr: u64) -> String {
        let mut word = [0; 4];
        if self.ram.read(paddr, &mut word) {
            Guest::disassemble(u32::from_le_bytes(word))
        } else {
            "?".into()
        }
    }
}

impl Run {
    /// Lends what the experiment drives.
    fn driven<T>(&mut self, with: impl FnOnce(&mut wiretime_experiment::Experiment, &mut Driven<'_, Nics>) -> T) -> T {
        let program = InGuest { control: &self.control, ram: self.ram };
        let executed = Executed {
            instructions: &self.instructions,
            timed: self.timed_instructions,
            repeated: self.repeated_instructions,
            hash: self.hash,
            interrupts: self.interrupts,
            times: &self.times,
        };
        let mut driven = Driven { machine: &mut self.machine, executed, program: &program };
        with(&mut self.experiment, &mut driven)
    }
}

/// At the start of each window, and at each idle jump.
pub fn window_tick(e: &mut Engine, t: Ps) {
    if let Some(moment) = e.boot.keeps {
        kept::look(e, moment, t);
    }
    let run = &mut e.run;
    if !e.turns.keeping {
        lock(&run.control).answer();
    }
    let profile = run.experiment.settings.profile;
    if profile && lock(&run.control).exit.is_some() {
        // Blocks live until QEMU drops them: the result is due, so collect what they were charged.
        e.blocks.collect(&mut run.profile);
    }
    if let Some((mut message, status)) = run.driven(|experiment, d| experiment.finished(t, d)) {
        if let Some(message) = message.as_object_mut().filter(|m| m.contains_key("result")) {
            message.insert("profile".into(), json!(profile.then(|| run.profile.report(&run.ram))));
        }
        e.channel.send(message);
        leave_process(status);
    }
    // While all cores sleep, windows are not begun: this one holds `t` all the same.
    let (window_end, channel) = (e.turns.window_end.max(e.turns.end_of_window(t)), &mut e.channel);
    if let Some(quantum) = run.driven(|experiment, d| experiment.tick(t, window_end, channel, d)) {
        e.turns.set_quantum(quantum);
        e.turns.must_advance |= run.maps_otherwise();
        if run.experiment.settings.timing == Timing::Full {
            // Nobody has watched these meanwhile.
            for v in &mut e.vcpus {
                v.addresses.stale = true;
                v.addresses.forget();
            }
            e.run.invalidate(None);
            reinstrument(e);
        }
    }
}

/// Ends the process at once: QEMU's own shutdown takes host time and has nothing to add.
pub fn leave_process(status: i32) -> ! {
    // SAFETY: nothing is left to flush: messages go out unbuffered.
    unsafe { libc::_exit(status) }
}

/// QEMU exits by itself: the guest has powered off, or somebody closed it.
pub extern "C" fn at_exit(_: *mut c_void) {
    let e: &mut Engine = engine();
    crate::execute::finish_all(e);
    let (left, host) = e.run.driven(|experiment, d| {
        let left = json!({
            "instructions": d.executed.instructions,
            "hash": format!("{:016x}", d.executed.hash),
            "interrupts": d.executed.interrupts,
            "figures": d.program.figures(),
        });
        (left, experiment.host(d))
    });
    e.run.driven(|experiment, d| experiment.flush_capture(d));
    e.channel.send(json!({ "left": left, "host": host }));
}
