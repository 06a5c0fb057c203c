//! A whole trace: what is in it, and its packets in blocks.

use crate::problem::Problem;
use crate::reader::Reader;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use wiretime_base::Ps;
use wiretime_hw::wire::{Block, Source, FCS};

/// Packets of a block.
const BLOCK: usize = 256;

/// What is in a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets that can be sent.
    pub packets: u64,
    /// Bytes of their frames, FCS included.
    pub bytes: u64,
    /// Shortest and longest frame, FCS included.
    pub shortest: u64,
    /// See `shortest`.
    pub longest: u64,
    /// From the first to the latest packet.
    pub span: Ps,
    /// Packets captured before one in front of them.
    pub out_of_order: u64,
    /// Packets of which only a part was captured.
    pub cut: u64,
    /// Packets that cannot be sent; the first of them says why.
    pub skipped: u64,
    /// The first problem.
    pub problem: Option<Problem>,
}

/// Reads a trace from start to end; what can be sent is counted, up to where the file is damaged.
#[must_use]
pub fn summary(file: File) -> Summary {
    let mut s = Summary::default();
    let mut reader = match Reader::open(file) {
        Ok(reader) => reader,
        Err(problem) => return Summary { problem: Some(problem), ..s },
    };
    loop {
        let mut block = Block::default();
        match reader.next(&mut block) {
            Ok(true) => {}
            Ok(false) => break,
            Err(problem) => {
                let harmless = problem.what.harmless();
                s.skipped += u64::from(harmless);
                s.problem.get_or_insert(problem);
                if harmless {
                    continue;
                }
                break;
            }
        }
        let Some((at, frame)) = block.get(0) else { continue };
        let length = frame.len() as u64 + u64::from(FCS);
        s.shortest = if s.packets == 0 { length } else { s.shortest.min(length) };
        s.longest = s.longest.max(length);
        s.packets += 1;
        s.bytes += length;
        s.span = s.span.max(at);
    }
    (s.cut, s.out_of_order) = (reader.cut(), reader.out_of_order());
    s
}

/// A trace as a source of packets: those that can be sent, up to the end or to where the file is damaged.
pub struct Trace {
    file: File,
    reader: Option<Reader>,
}

impl Trace {
    /// The trace in a file.
    #[must_use]
    pub fn new(file: File) -> Self {
        let mut trace = Self { file, reader: None };
        trace.rewind();
        trace
    }
}

impl Source for Trace {
    fn fill(&mut self, block: &mut Block) {
        let Some(reader) = &mut self.reader else { return };
        while block.len() < BLOCK {
            match reader.next(block) {
                Ok(true) => {}
                Err(problem) if problem.what.harmless() => {}
                Ok(false) | Err(_) => {
                    self.reader = None;
                    return;
                }
            }
        }
    }

    fn rewind(&mut self) {
        // One file may be several ports' trace: each has a description of its own.
        self.reader = self.file.seek(SeekFrom::Start(0)).ok().and_then(|_| {
            let file = self.file.try_clone().ok()?;
            Reader::open(file).ok()
        });
    }
}
