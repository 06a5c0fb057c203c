//! What a schema cannot say: rules between parameters.

use super::{Inclusion, Platform, Unit, PORTS_MAX};
use wiretime_base::{Bytes, Invalid, Ps};

fn rule(ok: bool, problem: impl FnOnce() -> Invalid) -> Result<(), Invalid> {
    if ok {
        Ok(())
    } else {
        Err(problem())
    }
}

/// A word as platforms have it.
fn word(value: Unit) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

impl Platform {
    /// Checks what a schema cannot say.
    ///
    /// # Errors
    /// Key, value and rule.
    pub fn check(&self) -> Result<(), Invalid> {
        self.check_caches()?;
        self.check_core()?;
        self.check_powers()?;
        self.check_dram()?;
        self.check_io()?;
        self.check_system()
    }

    fn check_caches(&self) -> Result<(), Invalid> {
        geometry("l1i", self.l1i.size, self.l1i.ways, false)?;
        geometry("l1d", self.l1d.size, self.l1d.ways, false)?;
        geometry("l2", self.l2.size, self.l2.ways, false)?;
        geometry("llc", self.llc.size, self.llc.ways, self.llc.hashed)?;
        rule((self.llc.mesh_columns > 0) == (self.llc.mesh_rows > 0), || {
            let rule =
                format!("a mesh has columns and rows, or neither; llc.mesh_columns is {}", self.llc.mesh_columns);
            Invalid::new("llc.mesh_rows", self.llc.mesh_rows, rule)
        })?;
        rule(self.llc.dca_ways <= self.llc.ways, || {
            Invalid::new("llc.dca_ways", self.llc.dca_ways, format!("at most llc.ways, {}", self.llc.ways))
        })?;
        rule(self.l2.inclusion != Inclusion::Inclusive || self.l2.size >= self.l1d.size, || {
            Invalid::new(
                "l2.size",
                self.l2.size,
                format!("it includes the L1D, so at least l1d.size, {}", self.l1d.size),
            )
        })?;
        for (inclusion, name) in [(Inclusion::Exclusive, "exclusive"), (Inclusion::MostlyExclusive, "mostly-exclusive")]
        {
            rule(self.l2.inclusion != inclusion, || {
                Invalid::new("l2.inclusion", name, "must be inclusive or non-inclusive of the L1D")
            })?;
        }
        rule(self.llc.inclusion != Inclusion::Inclusive || self.llc.size >= self.l2.size, || {
            Invalid::new(
                "llc.size",
                self.llc.size,
                format!("it includes the L2, so at least l2.size, {}", self.l2.size),
            )
        })?;
        let caches = [("l1i", &self.l1i.prefetcher), ("l1d", &self.l1d.prefetcher), ("l2", &self.l2.prefetcher)];
        // By the instruction that misses: of instructions' own misses there is none.
        let by_instruction = [(super::PrefetcherKind::Stride, "stride"), (super::PrefetcherKind::Spatial, "spatial")];
        for (kind, name) in by_instruction {
            rule(self.l1i.prefetcher.iter().all(|p| p.kind != kind), || {
                let why = "instructions have none; off, next-line, stream or best-offset";
                Invalid::new("l1i.prefetcher.kind", name, why)
            })?;
        }
        for (name, p) in caches.into_iter().flat_map(|(name, all)| all.iter().map(move |p| (name, p))) {
            rule(p.kind != super::PrefetcherKind::Stream || p.entries <= 256, || {
                Invalid::new(format!("{name}.prefetcher.entries"), p.entries, "at most 256 streams")
            })?;
            rule(p.kind != super::PrefetcherKind::Spatial || p.distance > 1, || {
                Invalid::new(format!("{name}.prefetcher.distance"), p.distance, "regions of at least 2 lines")
            })?;
            rule(p.degree <= p.distance, || {
                Invalid::new(
                    format!("{name}.prefetcher.degree"),
                    p.degree,
                    format!("at most {name}.prefetcher.distance, {}", p.distance),
                )
            })?;
        }
        Ok(())
    }

    fn check_core(&self) -> Result<(), Invalid> {
        let (core, p) = (&self.core, &self.core.predictor);
        sets("core.predictor.btb", p.btb_entries, p.btb_ways)?;
        rule(core.decode_width <= core.fetch_width, || {
            Invalid::new(
                "core.decode_width",
                core.decode_width,
                format!("at most core.fetch_width, {}", core.fetch_width),
            )
        })?;
        let lines = core.fetch_width * core.mop_cache_ways;
        rule(core.mop_cache_entries % lines == 0, || {
            let rule = format!("a multiple of {lines}: lines of core.fetch_width, core.mop_cache_ways a set");
            Invalid::new("core.mop_cache_entries", core.mop_cache_entries, rule)
        })?;
        if core.tlb.l2_entries > 0 {
            sets("core.tlb.l2", core.tlb.l2_entries, core.tlb.l2_ways)?;
        }
        for (name, class) in core.timing.all() {
            let store = class.unit == Unit::Store || name == "store";
            rule(!store || class.unit == Unit::Store, || {
                Invalid::new(format!("core.timing.{name}.unit"), word(class.unit), "stores execute in the store unit")
            })?;
            rule(!matches!(name, "load" | "load_vector") || class.unit == Unit::Load, || {
                Invalid::new(format!("core.timing.{name}.unit"), word(class.unit), "loads execute in the load unit")
            })?;
        }
        Ok(())
    }

    fn check_powers(&self) -> Result<(), Invalid> {
        for (name, value) in [
            ("core.fetch_width", self.core.fetch_width),
            ("core.predictor.entries", self.core.predictor.entries),
            ("core.predictor.indirect_entries", self.core.predictor.indirect_entries),
            ("l2.banks", self.l2.banks),
            ("llc.banks", self.llc.banks),
            ("dram.channels", self.dram.channels),
            ("dram.interleave", self.dram.interleave),
            ("dram.ranks", self.dram.ranks),
            ("dram.banks", self.dram.banks),
            ("dram.bank_groups", self.dram.bank_groups),
            ("pcie.max_payload", self.pcie.max_payload),
            ("pcie.max_read_request", self.pcie.max_read_request),
            ("pcie.read_completion_boundary", self.pcie.read_completion_boundary),
        ] {
            rule(value.is_power_of_two(), || Invalid::new(name, value, "must be a power of two"))?;
        }
        for (name, value) in [
            ("dram.row_size", self.dram.row_size),
            ("iommu.page_size", self.iommu.page_size),
            ("iommu.ring_page_size", self.iommu.ring_page_size),
        ] {
            rule(value.bytes().is_power_of_two() && value.bytes() >= 256, || {
                Invalid::new(name, value, "must be a power of two, at least 256B")
            })?;
        }
        let second = self.iommu.second_iotlb_entries;
        rule(second < 8 || second % 8 == 0, || {
            Invalid::new("iommu.second_iotlb_entries", second, "must be below 8 or a multiple of its 8 ways")
        })?;
        Ok(())
    }

    fn check_dram(&self) -> Result<(), Invalid> {
        let d = &self.dram;
        rule(d.bank_groups <= d.banks, || {
            Invalid::new("dram.bank_groups", d.bank_groups, format!("at most dram.banks, {}", d.banks))
        })?;
        rule(d.bus_width % 8 == 0, || Invalid::new("dram.bus_width", d.bus_width, "must be a multiple of 8 bits"))?;
        rule(d.t_rfc.ps() < d.t_refi.ps(), || {
            Invalid::new("dram.t_rfc", d.t_rfc, format!("must be below dram.t_refi, {}", d.t_refi))
        })
    }

    fn check_io(&self) -> Result<(), Invalid> {
        let p = &self.pcie;
        rule(u64::from(p.posted_data) * 16 >= u64::from(p.max_payload), || {
            Invalid::new("pcie.posted_data", p.posted_data, format!("must hold pcie.max_payload, {} B", p.max_payload))
        })?;
        for slot in &self.slot {
            rule(slot.lanes.is_power_of_two(), || Invalid::new("slot.lanes", slot.lanes, "must be a power of two"))?;
        }
        for nic in &self.nic {
            rule(nic.descriptor_prefetch <= nic.descriptor_cache, || {
                Invalid::new(
                    "nic.descriptor_prefetch",
                    nic.descriptor_prefetch,
                    format!("at most nic.descriptor_cache, {}", nic.descriptor_cache),
                )
            })?;
            for (name, size) in [("nic.rx_fifo", nic.rx_fifo), ("nic.tx_fifo", nic.tx_fifo)] {
                rule(size.bytes() >= 16 << 10, || Invalid::new(name, size, "at least 16KiB, the longest frame"))?;
            }
        }
        for (i, nic) in self.nic.iter().enumerate() {
            check_qdma(i, nic)?;
            rule(!nic.interface.is_mlx5() || nic.mlx5.is_some(), || {
                Invalid::new(format!("nic.{i}.interface"), "mlx5", format!("needs the table nic.{i}.mlx5"))
            })?;
        }
        self.check_cards()
    }

    /// Every card in a slot of its own, every port with a link.
    fn check_cards(&self) -> Result<(), Invalid> {
        let slots = self.slot.len();
        for (i, nic) in self.nic.iter().enumerate() {
            rule((nic.slot as usize) < slots, || {
                Invalid::new(format!("nic.{i}.slot"), nic.slot, format!("there are {slots} slots, counted from 0"))
            })?;
            let taken = self.nic[..i].iter().position(|other| other.slot == nic.slot);
            rule(taken.is_none(), || {
                Invalid::new(
                    format!("nic.{i}.slot"),
                    nic.slot,
                    format!("nic.{} is in it already", taken.unwrap_or_default()),
                )
            })?;
        }
        let ports: usize = self.nic.iter().map(|nic| nic.ports as usize).sum();
        rule((1..=PORTS_MAX).contains(&ports), || {
            Invalid::new("nic.ports", format!("{ports} of all cards"), format!("must be from 1 to {PORTS_MAX}"))
        })?;
        rule(self.link.len() == ports, || {
            Invalid::new(
                "link",
                format!("a list of {}", self.link.len()),
                format!("there are {ports} ports, each with one"),
            )
        })
    }

    fn check_system(&self) -> Result<(), Invalid> {
        let s = &self.system;
        rule(self.lookahead() > Ps::ZERO, || {
            Invalid::new(
                "io.mmio_write_latency",
                "0ns",
                "and so is the path's latency: a core would reach the NIC in no time",
            )
        })?;
        rule(s.quantum.ps() == Ps::ZERO || (Ps::from_ns(1)..=Ps::from_ms(1)).contains(&s.quantum.ps()), || {
            Invalid::new("system.quantum", s.quantum, "allowed are 1ns to 1ms, or 0ns for the lookahead")
        })?;
        rule(s.boot_instruction_time.ps() >= Ps(10), || {
            Invalid::new("system.boot_instruction_time", s.boot_instruction_time, "at least 10ps")
        })?;
        rule(s.memory.bytes() >= 128 << 20 && s.memory.bytes() % (2 << 20) == 0, || {
            Invalid::new("system.memory", s.memory, "at least 128MiB, in steps of 2MiB")
        })
    }
}

/// A QDMA says what it is; what must be a power of two is.
fn check_qdma(i: usize, nic: &super::Nic) -> Result<(), Invalid> {
    let Some(q) = &nic.qdma else {
        return rule(nic.interface != super::Interface::Qdma, || {
            Invalid::new(format!("nic.{i}.interface"), "qdma", format!("needs the table nic.{i}.qdma"))
        });
    };
    for (name, value) in [("request_unit", q.request_unit), ("request_boundary", q.request_boundary)] {
        rule(value.is_power_of_two(), || {
            Invalid::new(format!("nic.{i}.qdma.{name}"), value, "must be a power of two")
        })?;
    }
    Ok(())
}

/// Of hashed sets there may be any number.
fn geometry(name: &str, size: Bytes, ways: u32, hashed: bool) -> Result<(), Invalid> {
    let sets = size.bytes() / (64 * u64::from(ways.max(1)));
    let whole = ways > 0 && sets > 0 && sets * 64 * u64::from(ways) == size.bytes();
    rule(whole && (hashed || sets.is_power_of_two()), || {
        let number = if hashed { "whole" } else { "power-of-two" };
        Invalid::new(
            format!("{name}.size"),
            format!("{size} with {name}.ways = {ways}"),
            format!("needs a {number} number of sets of 64-byte lines"),
        )
    })
}

fn sets(name: &str, entries: u32, ways: u32) -> Result<(), Invalid> {
    rule(ways > 0 && entries % ways == 0 && (entries / ways).is_power_of_two(), || {
        Invalid::new(
            format!("{name}_entries"),
            format!("{entries} with {name}_ways = {ways}"),
            "needs a power-of-two number of sets",
        )
    })
}
