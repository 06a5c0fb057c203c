//! Memory of the host: bytes that all devices and cores reach.

use std::cell::RefCell;
use std::rc::Rc;
use wiretime_base::Invalid;
use wiretime_hw::memory::GuestMemory;
use wiretime_hw::nic::loopback::Ram;

/// See the module.
#[derive(Clone)]
pub struct HostMemory(Rc<RefCell<Ram>>);

impl HostMemory {
    /// So many bytes, all zero.
    ///
    /// # Errors
    /// Where this machine has not so many.
    pub fn new(bytes: usize) -> Result<Self, Invalid> {
        // Memory of zeros is not touched before it is used, but ends the process where there is none.
        if Vec::<u8>::new().try_reserve_exact(bytes).is_err() {
            let why = "memory for rings and buffers that this machine does not have: fewer or smaller ones are needed";
            return Err(Invalid::new("run.queues", format!("{} MiB", bytes >> 20), why));
        }
        Ok(Self(Rc::new(RefCell::new(Ram(vec![0; bytes])))))
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
