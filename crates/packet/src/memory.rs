//! Memory of the host: bytes that all devices and cores reach.

use std::cell::RefCell;
use std::rc::Rc;
use wiretime_hw::memory::GuestMemory;
use wiretime_hw::nic::loopback::Ram;

/// See the module.
#[derive(Clone)]
pub struct HostMemory(Rc<RefCell<Ram>>);

impl HostMemory {
    /// So many bytes, all zero.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(Rc::new(RefCell::new(Ram(vec![0; bytes]))))
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
        self.0.borrow_mut().write(address, data);
    }
}

impl GuestMemory for HostMemory {
    fn read(&self, address: u64, data: &mut [u8]) -> bool {
        self.0.borrow().read(address, data)
    }
    fn write(&mut self, address: u64, data: &[u8]) -> bool {
        self.0.borrow_mut().write(address, data)
    }
}
