//! When what is over is forgotten changes no result: neither how often, nor whether at all.

use wiretime_base::Ps;
use wiretime_hw::nic::loopback::{measure_with, Host};
use wiretime_hw::params::Platform;
use wiretime_hw::wire::{Arrivals, Load, Sizes};

fn platforms() -> [(&'static str, Platform); 4] {
    let parsed = |text| toml::from_str::<Platform>(text).expect("a platform");
    let n1 = parsed(include_str!("../../../../platforms/neoverse-n1.toml"));
    let (mut smmu, mut iommu) = (n1.clone(), n1.clone());
    smmu.iommu = parsed(include_str!("../../../../platforms/ampere-altra.toml")).iommu;
    (smmu.iommu.enabled, iommu.iommu.enabled) = (true, true);
    [
        ("neoverse-n1", n1),
        ("SMMU", smmu),
        ("IOMMU", iommu),
        ("bus", parsed(include_str!("../../../../platforms/gem5-n1-paper.toml"))),
    ]
}

#[test]
fn how_often_is_forgotten_changes_nothing() {
    for (what, p) in platforms() {
        for (size, rate) in [(64, "40Gbps"), (64, "5Gbps"), (1518, "70Gbps"), (1518, "20Gbps")] {
            let load = Load {
                sizes: Sizes::Fixed { size },
                rate: rate.parse().expect("a rate"),
                arrivals: Arrivals::Poisson,
                seed: 1,
                ..Load::default()
            };
            let result = |every: Ps| {
                let mut host = Host::new(&p, &load, 256, true).expect("a load");
                host.machine.forget_every = every;
                serde_json::to_string(&measure_with(host, &load, 3000)).expect("plain numbers")
            };
            let never = result(Ps::MAX);
            for every in [Ps::from_ns(100), Ps::from_us(2), Ps::from_us(30)] {
                assert_eq!(result(every), never, "{what}, {size} B at {rate}, forgotten every {every:?}");
            }
        }
    }
}
