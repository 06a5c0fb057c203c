//! How far the slices of the last-level cache are: cores and slices sit on the tiles of a mesh, devices at one of its edges, and
//! each hop between them takes its time there and back.
//!
//! What a platform calls its cache's latency is the mean of all ways from a tile to a slice: a mesh moves single accesses about
//! it, and cores sit on the tiles whose own mean is nearest to it, so that a machine that was calibrated without a mesh still is.
//! Left out: what links carry (a core's port and a slice's bank are short before them, with as many cores as run here), where memory
//! controllers and other cores are on it, routes other than the shortest.

use crate::params::{Platform, SharedCache};
use wiretime_base::Ps;

/// Latencies by slice.
pub struct Mesh {
    /// The mean of a core's.
    pub mean: Ps,
    /// Of each core.
    cores: Vec<Box<[Ps]>>,
    /// Of devices.
    devices: Box<[Ps]>,
}

/// Column and row of a tile.
#[derive(Clone, Copy)]
struct Tile(u64, u64);

impl Tile {
    fn hops(self, other: Self) -> u64 {
        self.0.abs_diff(other.0) + self.1.abs_diff(other.1)
    }
}

/// Where tiles and slices are.
struct Plan {
    tiles: Vec<Tile>,
    slices: Vec<Tile>,
}

impl Plan {
    fn new(p: &SharedCache) -> Option<Self> {
        let (columns, rows) = (u64::from(p.mesh_columns), u64::from(p.mesh_rows));
        let tiles: Vec<_> = (0..columns * rows).map(|n| Tile(n % columns, n / columns)).collect();
        let slices = u64::from(p.banks);
        if tiles.is_empty() {
            return None;
        }
        let slices = (0..slices).map(|n| tiles[(n * tiles.len() as u64 / slices) as usize]).collect();
        Some(Self { tiles, slices })
    }

    /// Hops from a tile to all slices.
    fn hops(&self, from: Tile) -> u64 {
        self.slices.iter().map(|&to| from.hops(to)).sum()
    }

    /// A latency to each slice from a tile, whose mean over slices is `mean` where `usual` are the hops to all of them.
    fn latencies(&self, from: Tile, mean: Ps, usual: u64, hop: Ps) -> Box<[Ps]> {
        let count = self.slices.len() as u64;
        let to = |&slice: &Tile| (mean + 2 * hop * from.hops(slice)).saturating_sub(2 * hop * usual / count);
        self.slices.iter().map(to).collect()
    }
}

impl Mesh {
    pub fn new(p: &Platform, cores: usize) -> Self {
        let (latency, device) = (p.llc.latency.ps(), p.llc.device_latency.ps());
        let Some(plan) = Plan::new(&p.llc) else {
            let same = |ps: Ps| vec![ps; p.llc.banks as usize].into_boxed_slice();
            return Self { mean: latency, cores: vec![same(latency); cores], devices: same(device) };
        };
        let hop = p.llc.mesh_hop.ps();
        let usual = plan.tiles.iter().map(|&t| plan.hops(t)).sum::<u64>() / plan.tiles.len() as u64;
        let mut nearest = plan.tiles.clone();
        nearest.sort_by_key(|&tile| plan.hops(tile).abs_diff(usual));
        let edge = Tile(0, u64::from(p.llc.mesh_rows) / 2);
        Self {
            mean: latency,
            cores: (0..cores).map(|i| plan.latencies(nearest[i % nearest.len()], latency, usual, hop)).collect(),
            devices: plan.latencies(edge, device, plan.hops(edge), hop),
        }
    }

    /// From core `i` to a slice's answer.
    #[inline]
    pub fn core(&self, i: usize, slice: usize) -> Ps {
        self.cores[i][slice]
    }

    /// From a device to a slice's answer.
    #[inline]
    pub fn device(&self, slice: usize) -> Ps {
        self.devices[slice]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::platform;

    fn mesh(columns: u32, rows: u32, cores: usize) -> (Mesh, Platform) {
        let mut p = platform();
        (p.llc.mesh_columns, p.llc.mesh_rows, p.llc.banks) = (columns, rows, 32);
        (p.llc.mesh_hop, p.llc.latency) = ("1ns".parse().unwrap(), "30ns".parse().unwrap());
        p.llc.device_latency = "40ns".parse().unwrap();
        (Mesh::new(&p, cores), p)
    }

    fn mean(all: &[Ps]) -> f64 {
        all.iter().map(|ps| ps.as_f64()).sum::<f64>() / all.len() as f64
    }

    #[test]
    fn the_mean_is_the_platforms_and_the_farthest_a_corner_away() {
        let (m, _) = mesh(8, 4, 16);
        let all: Vec<_> = m.cores.iter().flatten().copied().collect();
        assert!((mean(&all) - 30_000.0).abs() < 500.0, "{}", mean(&all));
        assert!((mean(&m.devices) - 40_000.0).abs() < 100.0, "{}", mean(&m.devices));
        // From the middle of the edge: none away at best, seven columns and two rows at worst.
        let (least, most) = (m.devices.iter().min().unwrap(), m.devices.iter().max().unwrap());
        assert_eq!(*most - *least, Ps::from_ns(2 * (7 + 2)));
    }

    #[test]
    fn without_one_all_are_as_far() {
        let (m, _) = mesh(0, 0, 3);
        assert!((0..32).all(|s| m.core(2, s) == Ps::from_ns(30) && m.device(s) == Ps::from_ns(40)));
    }

    #[test]
    fn cores_beyond_the_tiles_share_them() {
        let (m, _) = mesh(2, 2, 9);
        assert_eq!(m.cores[0], m.cores[4]);
    }
}
