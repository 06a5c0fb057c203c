//! What JEDEC's standards allow: how long after one command another may follow, by how near the two are.
//!
//! [`RULES`] has a constraint a line. Left out: the command bus itself, so commands of one channel may coincide; commands
//! come at any picosecond, not at clock edges.

use crate::params::Dram;
use wiretime_base::Ps;

/// Commands of a controller, refresh apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Opens a row of a bank.
    Activate,
    /// Closes it.
    Precharge,
    /// Reads a burst of the open row.
    Read,
    /// Writes one.
    Write,
}

/// What two commands have in common: the nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Near {
    /// The bank.
    Bank,
    /// The bank group.
    Group,
    /// The rank.
    Rank,
    /// The channel alone.
    Channel,
}

impl Near {
    /// From the nearest on.
    pub const ALL: [Self; 4] = [Self::Bank, Self::Group, Self::Rank, Self::Channel];
}

use Command::{Activate, Precharge, Read, Write};
use Near::{Bank, Channel, Group, Rank};

/// From, to, how near, and after what time. What holds in a rank holds in its groups and banks, too; what is said of the
/// channel is between different ranks.
type Rule = (Command, Command, Near, fn(&Dram) -> Ps);

const RULES: [Rule; 20] = [
    (Activate, Activate, Bank, |d| d.t_ras.ps() + d.t_rp.ps()),
    (Activate, Activate, Group, |d| d.t_rrd_l.ps()),
    (Activate, Activate, Rank, |d| d.t_rrd_s.ps()),
    (Activate, Read, Bank, |d| d.t_rcd.ps()),
    (Activate, Write, Bank, |d| d.t_rcd.ps()),
    (Activate, Precharge, Bank, |d| d.t_ras.ps()),
    (Precharge, Activate, Bank, |d| d.t_rp.ps()),
    (Read, Precharge, Bank, |d| d.t_rtp.ps()),
    (Write, Precharge, Bank, |d| d.t_cwl.ps() + d.burst() + d.t_wr.ps()),
    (Read, Read, Group, |d| d.t_ccd_l.ps().max(d.burst())),
    (Read, Read, Rank, |d| d.t_ccd_s.ps().max(d.burst())),
    (Read, Read, Channel, |d| d.burst() + d.t_rtrs.ps()),
    (Write, Write, Group, |d| d.t_ccd_l_wr.ps().max(d.burst())),
    (Write, Write, Rank, |d| d.t_ccd_s.ps().max(d.burst())),
    (Write, Write, Channel, |d| d.burst() + d.t_rtrs.ps()),
    (Read, Write, Rank, |d| (d.t_cl.ps() + d.burst() + d.t_rtw.ps()).saturating_sub(d.t_cwl.ps())),
    (Read, Write, Channel, |d| (d.t_cl.ps() + d.burst() + d.t_rtw.ps()).saturating_sub(d.t_cwl.ps())),
    (Write, Read, Group, |d| d.t_cwl.ps() + d.burst() + d.t_wtr_l.ps()),
    (Write, Read, Rank, |d| d.t_cwl.ps() + d.burst() + d.t_wtr_s.ps()),
    (Write, Read, Channel, |d| (d.t_cwl.ps() + d.burst() + d.t_rtrs.ps()).saturating_sub(d.t_cl.ps())),
];

/// All constraints of a machine's memory.
pub struct Timing {
    after: [[[Ps; 4]; 4]; 4],
    room: [[Ps; 4]; 4],
    /// Four rows of a rank are opened in no less.
    pub four_activates: Ps,
    /// How far constraints reach, by the command that they are for and by the one that they come from.
    to: [Ps; 4],
    from: [Ps; 4],
}

impl Timing {
    pub fn new(p: &Dram) -> Self {
        let mut after = [[[Ps::ZERO; 4]; 4]; 4];
        for (from, to, near, time) in RULES {
            let entry = &mut after[from as usize][to as usize];
            let all = if near == Channel { Channel as usize..=Channel as usize } else { 0..=near as usize };
            for at in all {
                entry[at] = entry[at].max(time(p));
            }
        }
        let of_its_kind = |c: Command| if c == Activate { &[Activate][..] } else { &[Read, Write][..] };
        let kinds = [Activate, Precharge, Read, Write];
        let longest = |from: Command, to: Command| {
            // Rows are opened again in a bank once they have been closed, which the bank sees to.
            let nearest = if from == Activate { Group } else { Bank };
            let both = of_its_kind(from).contains(&to);
            after[from as usize][to as usize][nearest as usize..]
                .iter()
                .copied()
                .filter(|_| both)
                .max()
                .unwrap_or_default()
        };
        let to = kinds.map(|to| kinds.map(|from| longest(from, to)).into_iter().max().unwrap_or_default());
        let from = kinds.map(|from| kinds.map(|to| longest(from, to)).into_iter().max().unwrap_or_default());
        let least = |from: Command, to: Command| {
            *after[from as usize][to as usize][Group as usize..]
                .iter()
                .filter(|&&t| t > Ps::ZERO || from == Write)
                .min()
                .unwrap_or(&Ps::ZERO)
        };
        let mut room = [[Ps::ZERO; 4]; 4];
        for (from, to) in [(Activate, Activate), (Read, Read), (Read, Write), (Write, Read), (Write, Write)] {
            let between = of_its_kind(from).iter().map(|&c| least(from, c) + least(c, to));
            room[from as usize][to as usize] = between.min().unwrap_or_default();
        }
        Self { after, room, four_activates: p.t_faw.ps(), to, from }
    }

    /// No constraint between commands of its kind reaches further back from `to`.
    #[inline]
    pub fn reach_to(&self, to: Command) -> Ps {
        self.to[to as usize]
    }

    /// None reaches further ahead of `from`.
    #[inline]
    pub fn reach_from(&self, from: Command) -> Ps {
        self.from[from as usize]
    }

    /// Between two commands that are nearer than so, no third of their kind has room.
    #[inline]
    pub fn room(&self, from: Command, to: Command) -> Ps {
        self.room[from as usize][to as usize]
    }

    /// How long after `from` may `to` follow; 0 where nothing is said.
    #[inline]
    pub fn after(&self, from: Command, to: Command, near: Near) -> Ps {
        self.after[from as usize][to as usize][near as usize]
    }
}
