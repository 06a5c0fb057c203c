//! Packets a host second through the whole NIC, without a guest:
//! `cargo run --release -p wiretime-hw --example nic_speed [BYTES [PACKETS]]`.

use std::time::Instant;
use wiretime_hw::nic::loopback::measure;
use wiretime_hw::params::Platform;
use wiretime_hw::wire::{Load, Sizes};

const PACKETS: u64 = 2_000_000;

fn main() {
    let p: Platform = toml::from_str(include_str!("../../../platforms/neoverse-n1.toml")).expect("a platform");
    let number = |n: usize| std::env::args().nth(n).and_then(|a| a.parse::<u64>().ok());
    let (only, packets) = (number(1), number(2).unwrap_or(PACKETS));
    for (size, rate, forwards) in [
        (64, "40Gbps", true),
        (64, "20Gbps", true),
        (64, "20Gbps", false),
        (512, "60Gbps", true),
        (1518, "80Gbps", true),
    ] {
        if only.is_some_and(|o| o != u64::from(size)) {
            continue;
        }
        let load =
            Load { sizes: Sizes::Fixed { size }, rate: rate.parse().expect("a rate"), seed: 1, ..Load::default() };
        let begin = Instant::now();
        let o = measure(&p, &load, packets, 1024, forwards).expect("a load");
        let seconds = begin.elapsed().as_secs_f64();
        let way = if forwards { "in and out" } else { "in" };
        println!(
            "{size:5} B {way:11} {:7.2} M packets a host second ({} lost)",
            packets as f64 / seconds / 1e6,
            o.dma_drops + o.core_drops
        );
    }
}
