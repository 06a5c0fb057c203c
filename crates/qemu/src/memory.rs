//! Guest memory, mapped for DMA, and the pages of BAR0 that guest and device share.

use crate::start_error::StartError;
use nix::errno::Errno;
use nix::sys::memfd::{memfd_create, MFdFlags};
use nix::sys::mman::{mmap, MapFlags, ProtFlags};
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use wiretime_hw::memory::GuestMemory;
use wiretime_hw::nic::{DevicePages, SharedRegisters};

/// One mapping of shared memory, never unmapped.
#[derive(Clone, Copy)]
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}
// SAFETY: plain shared memory; all access goes through raw copies or atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: &OwnedFd, offset: u64, length: u64) -> Result<Self, StartError> {
        let size = usize::try_from(length)
            .ok()
            .and_then(NonZeroUsize::new)
            .ok_or(StartError::NoMemory { what: "map none of", cause: Errno::EINVAL })?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            mmap(None, size, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED, fd, offset as i64)
        };
        let start = start.map_err(|cause| StartError::NoMemory { what: "map", cause })?.cast();
        Ok(Self { start, length: size.get() })
    }
}

/// Guest RAM; empty until QEMU offers it.
#[derive(Clone, Copy, Default)]
pub struct GuestRam {
    base: u64,
    mapping: Option<Mapping>,
}

impl GuestRam {
    /// Maps a piece of guest memory. The largest one is the RAM; ROMs are not DMA targets.
    pub fn map(&mut self, base: u64, size: u64, fd: &OwnedFd, offset: u64) {
        if self.mapping.is_some_and(|m| m.length as u64 >= size) {
            return;
        }
        match Mapping::new(fd, offset, size) {
            Ok(m) => {
                self.base = base;
                self.mapping = Some(m);
            }
            Err(problem) => eprintln!("wiretime: {problem}"),
        }
    }

    /// Whether all of this is memory.
    pub fn holds(&self, address: u64, length: usize) -> bool {
        self.at(address, length).is_some()
    }

    fn at(&self, address: u64, length: usize) -> Option<NonNull<u8>> {
        let mapping = self.mapping?;
        let offset = usize::try_from(address.checked_sub(self.base)?).ok()?;
        if offset.checked_add(length)? > mapping.length {
            return None;
        }
        // SAFETY: inside the mapping, as just checked.
        Some(unsafe { mapping.start.add(offset) })
    }
}

impl GuestMemory for GuestRam {
    fn read(&self, address: u64, data: &mut [u8]) -> bool {
        let Some(from) = self.at(address, data.len()) else { return false };
        // SAFETY: inside the mapping; the guest does not run while devices act (one TCG thread).
        unsafe { from.copy_to_nonoverlapping(NonNull::from(&mut *data).cast(), data.len()) };
        true
    }
    fn write(&mut self, address: u64, data: &[u8]) -> bool {
        let Some(to) = self.at(address, data.len()) else { return false };
        // SAFETY: as above.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(data).cast(), data.len()) };
        true
    }
}

/// The register pages that the guest accesses as memory.
///
/// Threads share them: all access goes through atomics.
pub struct SharedPages {
    mapping: Mapping,
    /// Where they are.
    pub place: DevicePages,
    /// What QEMU maps: a file as large as the pages' end in the BAR, since it maps at the BAR's offset.
    pub fd: OwnedFd,
}

impl SharedPages {
    /// New pages there, all zero.
    ///
    /// # Errors
    /// Where the host refuses the memory.
    pub fn new(place: DevicePages) -> Result<Self, StartError> {
        let range = &place.range;
        let fd = memfd_create(c"wiretime-bar", MFdFlags::MFD_CLOEXEC)
            .map_err(|cause| StartError::NoMemory { what: "create", cause })?;
        nix::unistd::ftruncate(&fd, range.end as i64).map_err(|cause| StartError::NoMemory { what: "size", cause })?;
        let mapping = Mapping::new(&fd, range.start, range.end - range.start)?;
        Ok(Self { mapping, place, fd })
    }

    fn word(&self, offset: u64) -> Option<&AtomicU32> {
        let at = offset.checked_sub(self.place.range.start)? as usize & !3;
        if at + 4 > self.mapping.length {
            return None;
        }
        // SAFETY: inside the mapping, aligned, shared with the guest: hence atomic.
        Some(unsafe { self.mapping.start.add(at).cast::<AtomicU32>().as_ref() })
    }
}

impl SharedRegisters for SharedPages {
    fn load(&self, offset: u64) -> u32 {
        self.word(offset).map_or(0, |w| w.load(Relaxed))
    }
    fn store(&self, offset: u64, value: u32) {
        if let Some(w) = self.word(offset) {
            w.store(value, Relaxed);
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Guest RAM without a guest.
    pub fn ram(base: u64, size: u64) -> GuestRam {
        let fd = memfd_create(c"wiretime-test", MFdFlags::MFD_CLOEXEC).expect("memory");
        nix::unistd::ftruncate(&fd, size as i64).expect("its size");
        let mut ram = GuestRam::default();
        ram.map(base, size, &fd, 0);
        ram
    }

    #[test]
    fn what_is_outside_is_no_memory() {
        let mut m = ram(0x1000, 0x1000);
        let mut data = [0; 4];
        assert!(m.write(0x1ffc, &[1, 2, 3, 4]) && m.read(0x1ffc, &mut data) && data == [1, 2, 3, 4]);
        assert!(m.holds(0x1000, 0x1000));
        for (address, length) in [(0xfff, 1), (0x1ffd, 4), (0x2000, 1), (u64::MAX, 2), (0, 0x1000)] {
            assert!(!m.holds(address, length) && !m.write(address, &vec![0; length]), "{address:#x}");
        }
    }
}
