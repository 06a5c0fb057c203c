//! The server's loop: one request, one answer.

use super::protocol::{self as p, Connection, Request};
use super::PciDevice;
use crate::memory::SharedPages;
use crate::start_error::StartError;
use nix::sys::socket::{accept, getsockname, UnixAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use wiretime_hw::nic::Place;

const REGIONS: u32 = 9;
const REGION_CONFIG: u32 = 7;
const IRQ_INTX: u32 = 0;
const IRQ_MSIX: u32 = 2;
const LAST_BAR: u32 = 5;
const IRQ_INDEXES: u32 = 5;

const FLAG_READ: u32 = 1;
const FLAG_WRITE: u32 = 2;
const FLAG_MMAP: u32 = 4;
const FLAG_CAPS: u32 = 8;
const CAP_SPARSE_MMAP: u16 = 1;
const REGION_INFO: u32 = 32;

/// What is done with a device while it is at hand; `None` where that ends its connection.
pub type Act<'a> = &'a mut dyn FnMut(&mut dyn PciDevice) -> Option<()>;

/// Serves the device that `lend` finds in `owner` to the one client that connects to the listening socket `fd`, in a
/// thread of its own. `pages`: those that the guest may access as memory.
///
/// # Errors
/// One line where the thread cannot start.
pub fn serve_device<T: Send + 'static>(
    (name, fd): (&str, OwnedFd),
    owner: Arc<Mutex<T>>,
    pages: Option<Arc<SharedPages>>,
    lend: impl Fn(&mut T, Act<'_>) -> Option<()> + Send + 'static,
) -> Result<(), StartError> {
    std::thread::Builder::new()
        .name(format!("wiretime-{name}"))
        .spawn(move || {
            let Ok(accepted) = accept(fd.as_raw_fd()) else { return };
            forget_name(&fd);
            drop(fd); // nobody else may connect
                      // SAFETY: just accepted: ours alone.
            let connection = Connection(unsafe { OwnedFd::from_raw_fd(accepted) });
            while let Some(mut request) = connection.receive() {
                let mut owner = owner.lock().unwrap_or_else(PoisonError::into_inner);
                let mut act = |device: &mut dyn PciDevice| answer(&connection, device, pages.as_deref(), &mut request);
                if lend(&mut owner, &mut act).is_none() {
                    break;
                }
            }
        })
        .map(|_| ())
        .map_err(|cause| StartError::NoThread { device: name.to_owned(), cause })
}

/// Removes the socket's name, and its folder when this was the last: nothing stays behind if we are killed.
fn forget_name(fd: &OwnedFd) {
    let name = getsockname::<UnixAddr>(fd.as_raw_fd()).ok();
    if let Some(path) = name.as_ref().and_then(UnixAddr::path) {
        let _ = std::fs::remove_file(path);
        if let Some(folder) = path.parent() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

fn answer(
    connection: &Connection,
    device: &mut dyn PciDevice,
    pages: Option<&SharedPages>,
    r: &mut Request,
) -> Option<()> {
    match r.command {
        p::VERSION => {
            crate::engine::connected();
            let mut reply = vec![0; 4]; // version 0.0
            reply.extend_from_slice(br#"{"capabilities":{"max_msg_fds":8,"max_data_xfer_size":1048576}}"#);
            reply.push(0);
            connection.reply(r, &reply, None)
        }
        p::DMA_MAP => {
            if let Some(fd) = r.fds.pop() {
                device.map_memory(r.u64(16), r.u64(24), fd, r.u64(8));
            }
            connection.reply(r, &[], None)
        }
        p::DMA_UNMAP => {
            let echo: Vec<u8> = r.payload.iter().copied().take(24).collect();
            connection.reply(r, &echo, None)
        }
        p::DEVICE_GET_INFO => connection.reply(r, &words(&[16, 1 | 2, REGIONS, IRQ_INDEXES]), None),
        p::DEVICE_GET_REGION_INFO => region_info(connection, device, pages, r),
        p::DEVICE_GET_IRQ_INFO if r.u32(8) == IRQ_INTX && has_intx(device) => {
            connection.reply(r, &words(&[16, 1 | 2 | 4, IRQ_INTX, 1]), None)
        }
        p::DEVICE_GET_IRQ_INFO => match device.config().msix.filter(|_| r.u32(8) == IRQ_MSIX) {
            Some(msix) => connection.reply(r, &words(&[16, 1 | 8, IRQ_MSIX, msix.vectors.into()]), None),
            None => connection.refuse(r),
        },
        p::REGION_READ => {
            let (offset, region, count) = (r.u64(0), r.u32(8), r.u32(12).min(1 << 20));
            let mut reply = r.payload.get(..16)?.to_vec();
            reply.resize(16 + count as usize, 0xff);
            match region {
                0..=LAST_BAR => device.read(Place { bar: region as u8, offset }, &mut reply[16..]),
                REGION_CONFIG => device.config().read(offset, &mut reply[16..]),
                _ => {}
            }
            connection.reply(r, &reply, None)
        }
        p::REGION_WRITE => {
            let (offset, region) = (r.u64(0), r.u32(8));
            let count = (r.u32(12) as usize).min(r.payload.len().saturating_sub(16));
            write(device, region, offset, r.payload.get(16..16 + count)?);
            connection.reply(r, r.payload.get(..16)?, None)
        }
        p::REGION_WRITE_MULTI => {
            for i in 0..(r.u64(0) as usize).min(r.payload.len() / 24) {
                let at = 8 + i * 24;
                let count = (r.u32(at + 12) as usize).min(8);
                let data = r.payload.get(at + 16..at + 16 + count)?.to_vec();
                write(device, r.u32(at + 8), r.u64(at), &data);
            }
            connection.reply(r, &(r.u64(0)).to_le_bytes(), None)
        }
        p::DEVICE_RESET => {
            device.reset();
            connection.reply(r, &[], None)
        }
        // SET_IRQS among others: interrupts are raised inside QEMU (see `run`), the descriptors are not used.
        _ => connection.reply(r, &[], None),
    }
}

fn write(device: &mut dyn PciDevice, region: u32, offset: u64, data: &[u8]) {
    match region {
        0..=LAST_BAR => device.write(Place { bar: region as u8, offset }, data),
        REGION_CONFIG => device.config().write(offset, data),
        _ => {}
    }
}

fn has_intx(device: &mut dyn PciDevice) -> bool {
    let mut pin = [0];
    device.config().read(0x3d, &mut pin);
    pin[0] != 0
}

fn words(list: &[u32]) -> Vec<u8> {
    list.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// argsz, flags, index, cap_offset, size, offset; then, where part of the BAR is mapped, the sparse-mmap capability.
fn region_info(
    connection: &Connection,
    device: &mut dyn PciDevice,
    pages: Option<&SharedPages>,
    r: &Request,
) -> Option<()> {
    let index = r.u32(8);
    let size = match index {
        0..=LAST_BAR => device.config().bar(index as u8).map_or(0, |bar| bar.size),
        REGION_CONFIG => device.config().size(),
        _ => 0,
    };
    let flags = if size > 0 { FLAG_READ | FLAG_WRITE } else { 0 };
    let Some(pages) = pages.filter(|pages| index == u32::from(pages.place.bar)) else {
        let mut reply = words(&[REGION_INFO, flags, index, 0]);
        reply.extend_from_slice(&size.to_le_bytes());
        reply.extend_from_slice(&0u64.to_le_bytes());
        return connection.reply(r, &reply, None);
    };
    let whole = REGION_INFO + 16 + 16;
    // A client whose buffer is too small asks again with the size that we name.
    let fits = r.u32(0) >= whole;
    let caps = if fits { FLAG_CAPS } else { 0 };
    let mut reply = words(&[whole, flags | FLAG_MMAP | caps, index, if fits { REGION_INFO } else { 0 }]);
    reply.extend_from_slice(&size.to_le_bytes());
    reply.extend_from_slice(&0u64.to_le_bytes());
    if fits {
        reply.extend_from_slice(&CAP_SPARSE_MMAP.to_le_bytes());
        reply.extend_from_slice(&1u16.to_le_bytes());
        reply.extend_from_slice(&words(&[0, 1, 0]));
        reply.extend_from_slice(&pages.place.range.start.to_le_bytes());
        reply.extend_from_slice(&(pages.place.range.end - pages.place.range.start).to_le_bytes());
    }
    connection.reply(r, &reply, fits.then_some(&pages.fd))
}
