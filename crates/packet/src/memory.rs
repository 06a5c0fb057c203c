//! Memory of the host: bytes that all devices and cores reach.

use std::cell::RefCell;
use std::rc::Rc;
use wiretime_hw::memory::GuestMemory;

/// See the module.
#[derive(Clone)]
pub struct HostMemory(Rc<RefCell<Vec<u8>>>);

impl HostMemory {
    /// So many bytes, all zero.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(Rc::new(RefCell::new(vec![0; bytes])))
    }

    /// A little-endian word of `N` bytes.
    #[must_use]
    pub fn bytes<const N: usize>(&self, address: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.read(address, &mut bytes);
        bytes
    }

    /// Bytes are written.
    pub fn put(&self, address: u64, data: &[u8]) {
        let at = address as usize;
        if let Some(place) = self.0.borrow_mut().get_mut(at..at.saturating_add(data.len())) {
            place.copy_from_slice(data);
        }
    }
}

impl GuestMemory for HostMemory {
    fn read(&self, address: u64, data: &mut [u8]) -> bool {
        let at = address as usize;
        self.0.borrow().get(at..at.saturating_add(data.len())).map(|s| data.copy_from_slice(s)).is_some()
    }
    fn write(&mut self, address: u64, data: &[u8]) -> bool {
        let at = address as usize;
        let mut all = self.0.borrow_mut();
        all.get_mut(at..at.saturating_add(data.len())).map(|s| s.copy_from_slice(data)).is_some()
    }
}
