//! A machine that is made in microseconds: small caches, one core.

use std::sync::OnceLock;
use wiretime_hw::params::{Interface, Platform};

/// The machine with this NIC.
pub fn machine(interface: Interface) -> Platform {
    static SMALL: OnceLock<Platform> = OnceLock::new();
    let mut p = SMALL
        .get_or_init(|| {
            let mut p: Platform =
                toml::from_str(include_str!("../../platforms/ampere-altra.toml")).expect("a valid platform");
            let size = |text: &str| text.parse().expect("a size");
            (p.l1i.size, p.l1d.size, p.l2.size, p.llc.size) =
                (size("4KiB"), size("4KiB"), size("16KiB"), size("64KiB"));
            (p.llc.banks, p.llc.ways, p.system.cores) = (1, 4, 2);
            p
        })
        .clone();
    p.nic[0].interface = interface;
    p
}
