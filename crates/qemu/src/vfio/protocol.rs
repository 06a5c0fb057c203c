//! vfio-user messages: byte layouts and the socket.

use nix::cmsg_space;
use nix::sys::socket::{recvmsg, sendmsg, ControlMessage, ControlMessageOwned, MsgFlags};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

pub const VERSION: u16 = 1;
pub const DMA_MAP: u16 = 2;
pub const DMA_UNMAP: u16 = 3;
pub const DEVICE_GET_INFO: u16 = 4;
pub const DEVICE_GET_REGION_INFO: u16 = 5;
pub const DEVICE_GET_IRQ_INFO: u16 = 7;
pub const REGION_READ: u16 = 9;
pub const REGION_WRITE: u16 = 10;
pub const DEVICE_RESET: u16 = 13;
pub const REGION_WRITE_MULTI: u16 = 15;

const HEADER: usize = 16;
const FLAG_REPLY: u32 = 1;
const FLAG_NO_REPLY: u32 = 1 << 4;
const FLAG_ERROR: u32 = 1 << 5;
/// The largest message: QEMU's default for one transfer, with room for headers.
const LARGEST: usize = (1 << 20) + 4096;

/// A request: its command, payload and file descriptors.
pub struct Request {
    pub command: u16,
    pub payload: Vec<u8>,
    pub fds: Vec<OwnedFd>,
    id: u16,
    pub wants_reply: bool,
}

impl Request {
    /// A little-endian word of the payload; 0 beyond its end.
    pub fn u32(&self, at: usize) -> u32 {
        self.bytes::<4>(at).map_or(0, u32::from_le_bytes)
    }
    pub fn u64(&self, at: usize) -> u64 {
        self.bytes::<8>(at).map_or(0, u64::from_le_bytes)
    }
    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.payload.get(at..at + N)?.try_into().ok()
    }
}

/// One end of a vfio-user connection.
pub struct Connection(pub OwnedFd);

impl Connection {
    /// The next request; `None` when QEMU has gone or speaks another protocol.
    pub fn receive(&self) -> Option<Request> {
        let mut header = [0u8; HEADER];
        let mut fds = Vec::new();
        self.fill(&mut header, &mut fds)?;
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let size = word(4) as usize;
        if !(HEADER..=LARGEST).contains(&size) {
            return None;
        }
        let mut payload = vec![0u8; size - HEADER];
        self.fill(&mut payload, &mut fds)?;
        Some(Request {
            command: u16::from_le_bytes([header[2], header[3]]),
            id: u16::from_le_bytes([header[0], header[1]]),
            wants_reply: word(8) & FLAG_NO_REPLY == 0,
            payload,
            fds,
        })
    }

    fn fill(&self, mut buffer: &mut [u8], fds: &mut Vec<OwnedFd>) -> Option<()> {
        while !buffer.is_empty() {
            let mut space = cmsg_space!([RawFd; 8]);
            let mut iov = [IoSliceMut::new(buffer)];
            let got = match recvmsg::<()>(self.0.as_raw_fd(), &mut iov, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC) {
                Ok(message) => {
                    for control in message.cmsgs().ok()? {
                        if let ControlMessageOwned::ScmRights(list) = control {
                            // SAFETY: descriptors just received: ours alone.
                            fds.extend(list.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
                        }
                    }
                    message.bytes
                }
                Err(nix::errno::Errno::EINTR) => continue,
                Err(_) => return None,
            };
            if got == 0 {
                return None;
            }
            buffer = &mut buffer[got..];
        }
        Some(())
    }

    /// Answers `request`, with a file descriptor where QEMU is to map something.
    pub fn reply(&self, request: &Request, payload: &[u8], fd: Option<&OwnedFd>) -> Option<()> {
        self.answer(request, FLAG_REPLY, 0, payload, fd)
    }

    /// Answers that there is no such thing. Never for an access: those are ignored.
    pub fn refuse(&self, request: &Request) -> Option<()> {
        self.answer(request, FLAG_REPLY | FLAG_ERROR, libc::EINVAL as u32, &[], None)
    }

    fn answer(&self, request: &Request, flags: u32, error: u32, payload: &[u8], fd: Option<&OwnedFd>) -> Option<()> {
        if !request.wants_reply {
            return Some(());
        }
        let mut header = [0u8; HEADER];
        header[..2].copy_from_slice(&request.id.to_le_bytes());
        header[2..4].copy_from_slice(&request.command.to_le_bytes());
        header[4..8].copy_from_slice(&((HEADER + payload.len()) as u32).to_le_bytes());
        header[8..12].copy_from_slice(&flags.to_le_bytes());
        header[12..16].copy_from_slice(&error.to_le_bytes());
        let mut message = Vec::with_capacity(HEADER + payload.len());
        message.extend_from_slice(&header);
        message.extend_from_slice(payload);
        let raw = fd.map(|fd| [fd.as_raw_fd()]);
        let rights: Vec<ControlMessage<'_>> = raw.iter().map(|fds| ControlMessage::ScmRights(fds)).collect();
        let mut sent = 0;
        while sent < message.len() {
            let control = if sent == 0 { &rights[..] } else { &[] };
            match sendmsg::<()>(
                self.0.as_raw_fd(),
                &[IoSlice::new(&message[sent..])],
                control,
                MsgFlags::MSG_NOSIGNAL,
                None,
            ) {
                Ok(n) => sent += n,
                Err(nix::errno::Errno::EINTR) => {}
                Err(_) => return None,
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn pair() -> (UnixStream, Connection) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (ours, Connection(theirs.into()))
    }

    fn message(id: u16, command: u16, size: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
        let mut m = Vec::new();
        m.extend_from_slice(&id.to_le_bytes());
        m.extend_from_slice(&command.to_le_bytes());
        m.extend_from_slice(&size.to_le_bytes());
        m.extend_from_slice(&flags.to_le_bytes());
        m.extend_from_slice(&[0; 4]);
        m.extend_from_slice(payload);
        m
    }

    #[test]
    fn a_request_in_pieces_and_its_answer() {
        let (mut qemu, connection) = pair();
        let sent = message(7, REGION_READ, 28, 0, &[1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0x80]);
        let writer = std::thread::spawn(move || {
            for byte in sent {
                qemu.write_all(&[byte]).unwrap();
            }
            qemu
        });
        let request = connection.receive().unwrap();
        let mut qemu = writer.join().unwrap();
        assert_eq!((request.command, request.wants_reply, request.payload.len()), (REGION_READ, true, 12));
        assert_eq!((request.u32(0), request.u64(4), request.u32(9), request.u64(8)), (1, 0x8000_0000_0000_0002, 0, 0));
        connection.reply(&request, &[9, 8], None).unwrap();
        connection.refuse(&request).unwrap();
        let mut answers = [0; 18 + 16];
        qemu.read_exact(&mut answers).unwrap();
        assert_eq!(answers[..4], [7, 0, 9, 0]);
        assert_eq!(answers[4..8], 18u32.to_le_bytes());
        assert_eq!(answers[8..12], FLAG_REPLY.to_le_bytes());
        assert_eq!(answers[16..18], [9, 8]);
        assert_eq!(answers[18 + 8..18 + 12], (FLAG_REPLY | FLAG_ERROR).to_le_bytes());
        assert_eq!(answers[18 + 12..], (libc::EINVAL as u32).to_le_bytes());
    }

    #[test]
    fn descriptors_come_along() {
        let (qemu, connection) = pair();
        let file = std::fs::File::open("/dev/null").unwrap();
        let bytes = message(1, DMA_MAP, 16, FLAG_NO_REPLY, &[]);
        let fds = [file.as_raw_fd(), file.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&fds)];
        sendmsg::<()>(qemu.as_raw_fd(), &[IoSlice::new(&bytes)], &rights, MsgFlags::empty(), None).unwrap();
        let request = connection.receive().unwrap();
        assert_eq!((request.fds.len(), request.wants_reply), (2, false));
        connection.reply(&request, &[1], None).unwrap();
        drop((connection, request));
        let mut rest = Vec::new();
        (&qemu).read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty(), "nobody asked for an answer");
    }

    #[test]
    fn what_is_no_message_ends_the_connection() {
        for size in [0, 15, LARGEST as u32 + 1, u32::MAX] {
            let (mut qemu, connection) = pair();
            qemu.write_all(&message(1, VERSION, size, 0, &[])).unwrap();
            assert!(connection.receive().is_none(), "{size}");
        }
        for cut in [0, 3, 15, 16, 19] {
            let (mut qemu, connection) = pair();
            qemu.write_all(&message(1, VERSION, 20, 0, &[1, 2, 3, 4])[..cut]).unwrap();
            drop(qemu);
            assert!(connection.receive().is_none(), "after {cut} bytes");
        }
    }
}
