//! What comes in and goes out: the configuration, progress lines, the result. All JSON, over descriptors that the
//! caller passed; no file is named or left behind.

use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::time::Instant;
use wiretime_base::Duration;
use wiretime_hw::nic::DropClasses;
use wiretime_hw::params::Platform;
use wiretime_hw::wire::Load;

/// A run, as the command line describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    platform: Platform,
    run: RunSettings,
}

/// How much timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// From the start of the traffic to the end of the measurement.
    Full,
    /// From power-on, for guests without a driver (micro-benchmarks).
    Always,
    /// Blocks are counted, a fixed time an instruction.
    Blocks,
}

/// What tells that the measurement may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartAt {
    /// The receive unit is enabled and its ring filled.
    ReceiverReady,
    /// The program sends, without being sent anything.
    Sending,
    /// The guest has announced mark 1.
    Mark,
    /// Never: the guest runs until it exits.
    Never,
}

/// What is at the other end of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FarEnd {
    /// The generator.
    None,
    /// A TAP of this machine.
    Tap,
    /// Another simulated host.
    Host,
}

/// What the program does with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sends them on in their own buffers: one that is not sent is dropped.
    Forwards,
    /// Takes them and makes answers.
    Answers,
    /// Takes them.
    Consumes,
    /// Sends without being sent anything.
    Sends,
}

/// The run's own settings.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSettings {
    /// What the generators send.
    pub load: Load,
    /// The trace that the load plays.
    pub trace_file: Option<PathBuf>,
    /// The measurement ends when the load does; its length is only what is expected.
    pub until_end: bool,
    /// Who decides classes of drops.
    pub drop_classes: DropClasses,
    /// Receive queues that the program was asked to use, for results by queue.
    pub queues: u32,
    /// A timeline of this time of the measurement; a length of 0: none.
    pub trace_start: Duration,
    pub trace_length: Duration,
    /// A capture of the wire in this time of the measurement; a length of 0: none.
    pub capture_start: Duration,
    pub capture_length: Duration,
    pub warm_up: Duration,
    pub duration: Duration,
    /// Longest time to follow the cohort after the measurement.
    pub follow: Duration,
    /// Longest simulated time to the start of the measurement, and for the guest to stop.
    pub guest_limit: Duration,
    /// Length of a step of the time series; 0: none.
    pub interval: Duration,
    /// Tell processor time by kind.
    pub processor_time: bool,
    /// Charge cycles to blocks of instructions.
    pub profile: bool,
    pub role: Role,
    pub far: FarEnd,
    pub mac: [u8; 6],
    pub start_at: StartAt,
    pub timing: Timing,
    /// Idle time passes at host speed (a person is at the console).
    pub host_speed: bool,
    /// Offer the ring registers as memory (doorbells cost a store); else every access traps.
    pub mapped_doorbells: bool,
    /// Self-test: another thread kicks vCPUs at random host times.
    pub chaos: bool,
    /// Self-test: software prefetches and line-zeroing stay unseen, as QEMU's callbacks leave them.
    pub ignore_hidden_accesses: bool,
}

/// All that the engine is told.
pub struct Config {
    pub platform: Platform,
    pub run: RunSettings,
    pub nic_fds: Vec<OwnedFd>,
    pub control_fd: OwnedFd,
    output: OwnedFd,
    /// Where the next trial is asked for, where there are several in one boot.
    input: Option<OwnedFd>,
    /// Where the capture of the wire goes.
    capture: Option<OwnedFd>,
    /// The far end of the wire.
    far: Option<OwnedFd>,
}

/// A trial: another measurement in the same boot, under another load.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    pub load: Load,
    /// Nothing is sent for so long before.
    pub idle: Duration,
    pub warm_up: Duration,
    pub duration: Duration,
    /// Longest time to follow the cohort.
    pub follow: Duration,
}

impl Config {
    /// From the plugin's arguments: `config=FILE`, `nic0=FD` and so on, `control=FD`, `output=FD`, and where wanted
    /// `input=FD`, `capture=FD` and `far=FD`.
    pub fn load(args: &[String]) -> Result<Self, String> {
        let value = |key: &str| {
            args.iter()
                .find_map(|a| a.strip_prefix(key)?.strip_prefix('='))
                .ok_or_else(|| format!("plugin argument {key}= is missing (start runs with the wiretime command)"))
        };
        let text = std::fs::read_to_string(value("config")?).map_err(|e| format!("configuration: {e}"))?;
        let settings: Settings = serde_json::from_str(&text).map_err(|e| format!("configuration: {e}"))?;
        settings.platform.check()?;
        let fd = |key: &str| -> Result<OwnedFd, String> {
            let raw: RawFd = value(key)?.parse().map_err(|_| format!("plugin argument {key}= is not a descriptor"))?;
            // SAFETY: the caller opened it for us; nobody else in this process uses it.
            Ok(unsafe { OwnedFd::from_raw_fd(raw) })
        };
        let nic_fds: Result<_, _> = (0..settings.platform.nic.ports).map(|i| fd(&format!("nic{i}"))).collect();
        Ok(Self {
            platform: settings.platform,
            run: settings.run,
            nic_fds: nic_fds?,
            control_fd: fd("control")?,
            output: fd("output")?,
            input: if value("input").is_ok() { Some(fd("input")?) } else { None },
            capture: if value("capture").is_ok() { Some(fd("capture")?) } else { None },
            far: if value("far").is_ok() { Some(fd("far")?) } else { None },
        })
    }

    /// The far end of the wire, where it is outside.
    pub fn far(&self) -> Option<OwnedFd> {
        self.far.as_ref().and_then(|fd| fd.try_clone().ok())
    }

    /// The file of the capture, where one is wanted.
    pub fn capture(&self) -> Option<File> {
        self.capture.as_ref().and_then(|fd| fd.try_clone().ok()).map(File::from)
    }
}

/// Progress and results on their way out.
pub struct Control {
    output: File,
    input: Option<BufReader<File>>,
    last_progress: Instant,
}

const PROGRESS_EVERY: std::time::Duration = std::time::Duration::from_millis(100);

impl Control {
    /// Opens the output of a run.
    pub fn open(config: &Config) -> Result<Self, String> {
        let output = config.output.try_clone().map_err(|e| format!("output: {e}"))?;
        let input = config.input.as_ref().map(OwnedFd::try_clone).transpose().map_err(|e| format!("input: {e}"))?;
        let input = input.map(|fd| BufReader::new(File::from(fd)));
        Ok(Self { output: File::from(output), input, last_progress: Instant::now() })
    }

    /// Whether it is time for a progress line.
    pub fn progress_due(&self) -> bool {
        self.last_progress.elapsed() >= PROGRESS_EVERY
    }

    /// One line of progress.
    pub fn progress(&mut self, line: Value) {
        self.last_progress = Instant::now();
        self.send(json!({ "progress": line }));
    }

    /// Whether trials are asked for.
    pub fn has_trials(&self) -> bool {
        self.input.is_some()
    }

    /// Tells the result of a trial and waits for the next one; simulated time stands still meanwhile. `None` where none
    /// follows, or what was asked for makes no sense (which is told).
    pub fn next_trial(&mut self, result: &Value) -> Option<Trial> {
        self.send(json!({ "trial": result }));
        let mut line = String::new();
        self.input.as_mut()?.read_line(&mut line).ok()?;
        match serde_json::from_str::<Option<Trial>>(&line) {
            Ok(trial) => trial,
            Err(e) => {
                self.send(json!({ "refused": e.to_string() }));
                None
            }
        }
    }

    /// One message; where nobody listens any more, the run goes on to its end unheard.
    pub fn send(&mut self, message: Value) {
        // In one piece: whoever reads it wakes once.
        let _ = self.output.write_all(format!("{message}\n").as_bytes());
    }
}
