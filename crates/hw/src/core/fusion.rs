//! Pairs of instructions that some cores take for one, and instructions that are done by renaming. Found by what they read
//! and write, in a block: a comparison writes nothing but flags, and what is fused with it reads them right behind it.
//!
//! A pair is one micro-operation: it takes one place in dispatch, queues and reorder buffer, waits for the operands of both,
//! and executes once, where the second would. Left out: pairs across the end of a block, and that a MOP cache holds them as
//! one (so it delivers a group of as many instructions as without).

use super::uop::{Branch, Class, MicroOp, Quick, FIRST, REG_FLAGS, SELECTS, TURNS};

fn compares(op: &MicroOp) -> bool {
    op.class == Class::Alu && op.destinations() == [REG_FLAGS] && !op.sources().contains(&REG_FLAGS)
}

/// What the second of a pair is, if it is one.
fn follows(op: &MicroOp) -> u16 {
    let reads = op.sources().contains(&REG_FLAGS);
    match op.class {
        Class::Branch if reads && op.branch == Branch::Conditional => TURNS,
        Class::Alu if reads && op.destinations().len() == 1 && !op.destinations().contains(&REG_FLAGS) => SELECTS,
        _ => 0,
    }
}

impl Quick {
    /// What the core model looks at first, of each instruction of a block.
    #[must_use]
    pub fn block(ops: &[MicroOp]) -> Vec<Self> {
        let mut block: Vec<_> = ops.iter().map(MicroOp::quick).collect();
        for (i, pair) in ops.windows(2).enumerate() {
            let kind = follows(&pair[1]);
            if kind != 0 && compares(&pair[0]) {
                block[i].flags |= kind | FIRST;
                block[i + 1].flags |= kind;
            }
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(class: Class, reads: &[u8], writes: &[u8]) -> MicroOp {
        let mut op = MicroOp::new(class);
        reads.iter().for_each(|&r| _ = op.reads(r));
        writes.iter().for_each(|&r| _ = op.writes(r));
        op
    }

    #[test]
    fn comparisons_go_with_what_reads_their_flags_right_behind_them() {
        let compare = op(Class::Alu, &[1, 2], &[REG_FLAGS]);
        let select = op(Class::Alu, &[REG_FLAGS, 3, 4], &[5]);
        let mut branch = op(Class::Branch, &[REG_FLAGS], &[]);
        branch.branch = Branch::Conditional;
        let subtract = op(Class::Alu, &[1, 2], &[6, REG_FLAGS]);
        let again = op(Class::Alu, &[REG_FLAGS, 1], &[REG_FLAGS]);
        let flags =
            |ops: &[MicroOp]| Quick::block(ops).iter().map(|q| q.flags & (FIRST | TURNS | SELECTS)).collect::<Vec<_>>();
        assert_eq!(flags(&[compare, branch]), [FIRST | TURNS, TURNS]);
        assert_eq!(flags(&[compare, select, branch]), [FIRST | SELECTS, SELECTS, 0]);
        assert_eq!(flags(&[subtract, branch]), [0, 0], "its difference is wanted");
        assert_eq!(flags(&[compare, again, branch]), [0, 0, 0], "a conditional comparison");
        let shifted = op(Class::AluShift, &[1, 2], &[REG_FLAGS]);
        assert_eq!(flags(&[shifted, branch]), [0, 0], "not on the single-cycle pipes");
    }
}
