//! Progress lines, trials and results: JSON, over descriptors that the caller passed.

use crate::report::RunResult;
use crate::settings::Trial;
use serde_json::{json, Value};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Progress and results on their way out.
pub struct Channel {
    output: File,
    input: Option<BufReader<File>>,
    last_progress: Instant,
    heard: bool,
}

const PROGRESS_EVERY: std::time::Duration = std::time::Duration::from_millis(100);

impl Channel {
    /// Messages go to `output`; trials are asked for, where there are several in one boot, from `input`.
    #[must_use]
    pub fn new(output: OwnedFd, input: Option<OwnedFd>) -> Self {
        let input = input.map(|fd| BufReader::new(File::from(fd)));
        Self { output: File::from(output), input, last_progress: Instant::now(), heard: true }
    }

    /// Whether somebody has listened so far.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        self.heard
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
    pub fn next_trial(&mut self, result: &RunResult) -> Option<Trial> {
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

    /// One message; where nobody listens any more, it is the engine's to go on or not.
    pub fn send(&mut self, message: Value) {
        // In one piece: whoever reads it wakes once.
        self.heard &= self.output.write_all(format!("{message}\n").as_bytes()).is_ok();
    }
}
