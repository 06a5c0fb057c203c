//! From a platform's units and instruction classes to what issue looks up: ports, latency, interval, queue.

use super::limits;
use super::uop::Class;
use crate::params::{self, Unit};
use wiretime_base::Cycles;

/// A set of ports, one bit each.
pub type PortMask = u16;

/// Issue queues.
/// A fourth is never used: masking an index makes it safe.
pub const QUEUES: usize = 4;
const INTEGER: u8 = 0;
const VECTOR: u8 = 1;
const MEMORY: u8 = 2;

/// How a class issues.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// From issue to result; for memory classes beyond the access.
    pub latency: Cycles,
    /// Ports that take it; none: handled at dispatch.
    pub ports: PortMask,
    /// Cycles that the port is taken.
    pub interval: u8,
    /// Which issue queue holds it.
    pub queue: u8,
    /// What it adds to the counters of dispatch (`limits`).
    pub kind: u64,
}

/// Ports by unit: branch, integer, multiply, vector, load, store, from bit 0 on.
struct Layout {
    branch: PortMask,
    integer: PortMask,
    multiply: PortMask,
    vector: PortMask,
    load: PortMask,
    store: PortMask,
}

impl Layout {
    fn new(u: &params::Units) -> Self {
        let mut next = 0;
        let mut take = |count: u32| {
            let mask = (((1u32 << count) - 1) << next) as PortMask;
            next += count;
            mask
        };
        let (branch, integer, multiply) = (take(u.branch), take(u.integer), take(u.multiply));
        let (vector, load, store) = (take(u.vector), take(u.load), take(u.store));
        Self {
            branch,
            integer: if u.multiply_takes_integer { integer | multiply } else { integer },
            multiply,
            vector,
            load,
            // The lowest of the load pipes.
            store: if store == 0 { load & !(load << u.load_store) } else { store },
        }
    }

    fn ports(&self, unit: Unit) -> PortMask {
        match unit {
            Unit::None => 0,
            Unit::Branch => self.branch,
            Unit::Integer => self.integer,
            Unit::Multiply => self.multiply,
            Unit::Vector => self.vector,
            Unit::VectorFirst => self.vector & self.vector.wrapping_neg(),
            Unit::VectorLast => self.vector & !(self.vector >> 1),
            Unit::Load => self.load,
            Unit::Store => self.store,
        }
    }
}

fn queue(unit: Unit) -> u8 {
    match unit {
        Unit::None | Unit::Branch | Unit::Integer | Unit::Multiply => INTEGER,
        Unit::Vector | Unit::VectorFirst | Unit::VectorLast => VECTOR,
        Unit::Load | Unit::Store => MEMORY,
    }
}

/// The table of a core, by class.
pub fn table<const N: usize>(p: &params::Core) -> [Slot; N] {
    let layout = Layout::new(&p.units);
    let nothing = Slot { latency: Cycles::ZERO, ports: 0, interval: 1, queue: INTEGER, kind: 0 };
    let mut table = [nothing; N];
    let t = &p.timing;
    for (class, timing) in [
        (Class::Alu, &t.alu),
        (Class::AluShift, &t.alu_shift),
        (Class::Mul, &t.mul),
        (Class::MulWide, &t.mul_wide),
        (Class::Div, &t.div),
        (Class::DivWide, &t.div_wide),
        (Class::Crc, &t.crc),
        (Class::FpMove, &t.fp_move),
        (Class::FpAdd, &t.fp_add),
        (Class::FpMul, &t.fp_mul),
        (Class::FpFma, &t.fp_fma),
        (Class::FpDiv, &t.fp_div),
        (Class::Simd, &t.simd),
        (Class::SimdMul, &t.simd_mul),
        (Class::SimdPermute, &t.simd_permute),
        (Class::SimdTransfer, &t.simd_transfer),
        (Class::Crypto, &t.crypto),
        (Class::Load, &t.load),
        (Class::LoadVector, &t.load_vector),
        (Class::Store, &t.store),
        (Class::Atomic, &t.atomic),
        (Class::LoadExclusive, &t.load),
        (Class::StoreExclusive, &t.exclusive),
        (Class::Prefetch, &t.prefetch),
        (Class::ZeroLine, &t.store),
        (Class::Maintenance, &t.maintenance),
        (Class::Branch, &t.branch),
        (Class::SystemRead, &t.system_read),
        (Class::SystemWrite, &t.system_write),
        (Class::Auth, &t.auth),
        (Class::Unknown, &t.alu),
    ] {
        table[class as usize] = Slot {
            latency: timing.latency.into(),
            ports: layout.ports(timing.unit),
            interval: timing.interval.min(200) as u8,
            queue: queue(timing.unit),
            kind: limits::kind(&p.dispatch_limits, timing.unit),
        };
    }
    table
}
