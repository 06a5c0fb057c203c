//! What a schema cannot say: rules between parameters.

use super::{Inclusion, Platform, Unit, PORTS_MAX};
use wiretime_base::{Bytes, Ps};

fn rule(ok: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if ok {
        Ok(())
    } else {
        Err(text())
    }
}

impl Platform {
    /// Checks what a schema cannot say.
    ///
    /// # Errors
    /// Key, value and rule.
    pub fn check(&self) -> Result<(), String> {
        self.check_caches()?;
        self.check_core()?;
        self.check_powers()?;
        self.check_dram()?;
        self.check_io()?;
        self.check_system()
    }

    fn check_caches(&self) -> Result<(), String> {
        geometry("l1i", self.l1i.size, self.l1i.ways)?;
        geometry("l1d", self.l1d.size, self.l1d.ways)?;
        geometry("l2", self.l2.size, self.l2.ways)?;
        geometry("llc", self.llc.size, self.llc.ways)?;
        rule(self.llc.dca_ways <= self.llc.ways, || {
            format!("llc.dca_ways is {}: at most llc.ways, {}", self.llc.dca_ways, self.llc.ways)
        })?;
        rule(self.l2.inclusion != Inclusion::Inclusive || self.l2.size >= self.l1d.size, || {
            format!("l2.size is {}: it includes the L1D, so at least l1d.size, {}", self.l2.size, self.l1d.size)
        })?;
        rule(self.l2.inclusion != Inclusion::Exclusive, || {
            "l2.inclusion is exclusive: must be inclusive or non-inclusive of the L1D".into()
        })?;
        rule(self.llc.inclusion != Inclusion::Inclusive || self.llc.size >= self.l2.size, || {
            format!("llc.size is {}: it includes the L2, so at least l2.size, {}", self.llc.size, self.l2.size)
        })?;
        for (name, p) in [("l1i", &self.l1i.prefetcher), ("l1d", &self.l1d.prefetcher), ("l2", &self.l2.prefetcher)] {
            rule(p.degree <= p.distance, || {
                format!("{name}.prefetcher.degree is {}: at most {name}.prefetcher.distance, {}", p.degree, p.distance)
            })?;
        }
        rule(self.l1i.prefetcher.kind != super::PrefetcherKind::Stride, || {
            "l1i.prefetcher.kind is stride: instructions have none; off, next-line or stream".into()
        })
    }

    fn check_core(&self) -> Result<(), String> {
        let (core, p) = (&self.core, &self.core.predictor);
        sets("core.predictor.btb", p.btb_entries, p.btb_ways)?;
        if core.tlb.l2_entries > 0 {
            sets("core.tlb.l2", core.tlb.l2_entries, core.tlb.l2_ways)?;
        }
        for (name, class) in core.timing.all() {
            let store = class.unit == Unit::Store || name == "store";
            rule(!store || class.unit == Unit::Store, || {
                format!("core.timing.{name}.unit: stores execute in the store unit")
            })?;
            rule(!matches!(name, "load" | "load_vector") || class.unit == Unit::Load, || {
                format!("core.timing.{name}.unit: loads execute in the load unit")
            })?;
        }
        Ok(())
    }

    fn check_powers(&self) -> Result<(), String> {
        for (name, value) in [
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
            rule(value.is_power_of_two(), || format!("{name} is {value}: must be a power of two"))?;
        }
        for (name, value) in [("dram.row_size", self.dram.row_size), ("iommu.page_size", self.iommu.page_size)] {
            rule(value.bytes().is_power_of_two() && value.bytes() >= 256, || {
                format!("{name} is {value}: must be a power of two, at least 256B")
            })?;
        }
        Ok(())
    }

    fn check_dram(&self) -> Result<(), String> {
        let d = &self.dram;
        rule(d.bank_groups <= d.banks, || {
            format!("dram.bank_groups is {}: at most dram.banks, {}", d.bank_groups, d.banks)
        })?;
        rule(d.bus_width % 8 == 0, || format!("dram.bus_width is {}: must be a multiple of 8 bits", d.bus_width))?;
        rule(d.t_rfc.ps() < d.t_refi.ps(), || {
            format!("dram.t_rfc is {}: must be below dram.t_refi, {}", d.t_rfc, d.t_refi)
        })
    }

    fn check_io(&self) -> Result<(), String> {
        let p = &self.pcie;
        rule(u64::from(p.posted_data) * 16 >= u64::from(p.max_payload), || {
            format!("pcie.posted_data is {}: must hold pcie.max_payload, {} B", p.posted_data, p.max_payload)
        })?;
        for slot in &self.slot {
            rule(slot.lanes.is_power_of_two(), || format!("slot.lanes is {}: must be a power of two", slot.lanes))?;
        }
        for nic in &self.nic {
            rule(nic.descriptor_prefetch <= nic.descriptor_cache, || {
                format!(
                    "nic.descriptor_prefetch is {}: at most nic.descriptor_cache, {}",
                    nic.descriptor_prefetch, nic.descriptor_cache
                )
            })?;
            for (name, size) in [("nic.rx_fifo", nic.rx_fifo), ("nic.tx_fifo", nic.tx_fifo)] {
                rule(size.bytes() >= 16 << 10, || format!("{name} is {size}: at least 16KiB, the longest frame"))?;
            }
        }
        self.check_cards()
    }

    /// Every card in a slot of its own, every port with a link.
    fn check_cards(&self) -> Result<(), String> {
        let slots = self.slot.len();
        for (i, nic) in self.nic.iter().enumerate() {
            rule((nic.slot as usize) < slots, || {
                format!("nic.{i}.slot is {}: there are {slots} slots, counted from 0", nic.slot)
            })?;
            let taken = self.nic[..i].iter().position(|other| other.slot == nic.slot);
            rule(taken.is_none(), || {
                format!("nic.{i}.slot is {}: nic.{} is in it already", nic.slot, taken.unwrap_or_default())
            })?;
        }
        let ports: usize = self.nic.iter().map(|nic| nic.ports as usize).sum();
        rule((1..=PORTS_MAX).contains(&ports), || {
            format!("nic.ports: the cards have {ports} together: must be from 1 to {PORTS_MAX}")
        })?;
        rule(self.link.len() == ports, || {
            format!("link: there are {} for {ports} ports: each has one", self.link.len())
        })
    }

    fn check_system(&self) -> Result<(), String> {
        let s = &self.system;
        rule(self.lookahead() > Ps::ZERO, || {
            "io.mmio_write_latency and the path's latency are both 0: a core would reach the NIC in no time".into()
        })?;
        rule(s.quantum.ps() == Ps::ZERO || (Ps::from_ns(1)..=Ps::from_ms(1)).contains(&s.quantum.ps()), || {
            format!("system.quantum is {}: allowed are 1ns to 1ms, or 0ns for the lookahead", s.quantum)
        })?;
        rule(s.boot_instruction_time.ps() >= Ps(10), || {
            format!("system.boot_instruction_time is {}: at least 10ps", s.boot_instruction_time)
        })?;
        rule(s.memory.bytes() >= 128 << 20 && s.memory.bytes() % (2 << 20) == 0, || {
            format!("system.memory is {}: at least 128MiB, in steps of 2MiB", s.memory)
        })
    }
}

fn geometry(name: &str, size: Bytes, ways: u32) -> Result<(), String> {
    let sets = size.bytes() / (64 * u64::from(ways.max(1)));
    rule(ways > 0 && sets.is_power_of_two() && sets * 64 * u64::from(ways) == size.bytes(), || {
        format!("{name}.size is {size} with {name}.ways = {ways}: needs a power-of-two number of sets of 64-byte lines")
    })
}

fn sets(name: &str, entries: u32, ways: u32) -> Result<(), String> {
    rule(ways > 0 && entries % ways == 0 && (entries / ways).is_power_of_two(), || {
        format!("{name}_entries is {entries} with {name}_ways = {ways}: needs a power-of-two number of sets")
    })
}
