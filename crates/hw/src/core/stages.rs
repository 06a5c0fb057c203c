//! When each instruction was in which stage, for a pipeline viewer.

use serde::Serialize;
use wiretime_base::Cycles;

/// An instruction's cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stages {
    /// Physical address.
    pub pc: u64,
    /// Its fetch group comes out of fetch.
    pub fetch: Cycles,
    /// It enters reorder buffer and queue.
    pub dispatch: Cycles,
    /// Operands and a port are there.
    pub issue: Cycles,
    /// Its result is there.
    pub complete: Cycles,
    /// It leaves, in order.
    pub commit: Cycles,
}

/// Instructions that a viewer takes well.
const LIMIT: usize = 200_000;

/// What was recorded.
#[derive(Debug, Default)]
pub struct StageTrace {
    /// In program order.
    pub instructions: Vec<Stages>,
    /// Instructions beyond the limit.
    pub lost: u64,
}

impl StageTrace {
    pub(super) fn note(&mut self, s: Stages) {
        if self.instructions.len() < LIMIT {
            self.instructions.push(s);
        } else {
            self.lost += 1;
        }
    }
}
