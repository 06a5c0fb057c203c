//! When each instruction was in which stage, for a pipeline viewer.

use serde::Serialize;

/// An instruction's cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stages {
    /// Physical address.
    pub pc: u64,
    /// Its fetch group comes out of fetch.
    pub fetch: u64,
    /// It enters reorder buffer and queue.
    pub dispatch: u64,
    /// Operands and a port are there.
    pub issue: u64,
    /// Its result is there.
    pub complete: u64,
    /// It leaves, in order.
    pub commit: u64,
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
