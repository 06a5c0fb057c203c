//! The capture of the wire: what taps have seen, in order of time, into a file.

use crate::stages::{Driven, Experiment};
use std::fs::File;
use std::io::{self, BufWriter};
use wiretime_base::Ps;
use wiretime_capture::Writer;
use wiretime_hw::machine::Hold;
use wiretime_hw::params::Platform;
use wiretime_hw::wire::{Seen, FRAME_MAX};

/// Frames that wait for the file.
const WAITING: usize = 4096;

/// A frame that waits: its port and bytes.
struct Frame {
    seen: Seen,
    port: usize,
    bytes: Vec<u8>,
}

/// The file, or why it is no longer written.
pub struct Capture {
    writer: io::Result<Writer<BufWriter<File>>>,
    waiting: Vec<Frame>,
    /// A frame is seen when it has arrived: so much later than its first bit left.
    slack: Ps,
}

impl Capture {
    pub fn new(file: File, p: &Platform) -> Self {
        let speeds: Vec<u64> = p.link.iter().map(|link| link.rate.bits_per_second()).collect();
        let writer = Writer::new(BufWriter::new(file), &speeds);
        let ways = p.link.iter().map(|link| link.rate.time_of(FRAME_MAX.into()) + link.latency.ps());
        let slack = ways.max().unwrap_or_default() + p.quantum();
        Self { writer, waiting: Vec::new(), slack }
    }

    /// Why it is incomplete.
    pub fn problem(&self) -> Option<String> {
        self.writer.as_ref().err().map(ToString::to_string)
    }

    /// Writes what waits from before `horizon`, in order.
    fn write(&mut self, horizon: Ps) {
        self.waiting.sort_by_key(|f| (f.seen.at, f.port)); // stable: else in the order seen
        let due = self.waiting.partition_point(|f| f.seen.at < horizon);
        for f in self.waiting.drain(..due) {
            let Ok(writer) = &mut self.writer else { continue };
            if let Err(e) = writer.write(f.port, &f.seen, &f.bytes) {
                self.writer = Err(e);
            }
        }
    }
}

impl Experiment {
    /// Takes and writes all that was seen on the wires: nothing follows.
    pub fn flush_capture<H: Hold>(&mut self, d: &Driven<'_, H>) {
        self.write_capture(Ps::MAX, true, d);
    }

    /// At `t`: takes what was seen on the wires, and writes it if it is enough, or `all` of it.
    pub(crate) fn write_capture<H: Hold>(&mut self, t: Ps, all: bool, d: &Driven<'_, H>) {
        let Some(capture) = &mut self.capture else { return };
        for (port, book) in d.machine.nics.nics().books.ports.iter_mut().enumerate() {
            let (tap, mut start) = (&mut book.tap, 0);
            for seen in &tap.seen {
                let bytes = tap.bytes.get(start..seen.end).unwrap_or(&[]).to_vec();
                start = seen.end;
                capture.waiting.push(Frame { seen: *seen, port, bytes });
            }
            tap.clear();
        }
        if all {
            capture.write(Ps::MAX);
            if let Ok(Err(e)) = capture.writer.as_mut().map(Writer::flush) {
                capture.writer = Err(e);
            }
        } else if capture.waiting.len() >= WAITING {
            capture.write(t.saturating_sub(capture.slack));
        }
    }
}
