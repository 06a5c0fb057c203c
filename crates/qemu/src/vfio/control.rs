//! The page through which guest programs and the engine talk.

use super::PciDevice;
use crate::memory::GuestRam;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use wiretime_hw::memory::GuestMemory;
use wiretime_hw::nic::Place;
use wiretime_hw::pci::{Bar, ConfigSpace, Identity};

/// What the guest sees of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum GuestPhase {
    /// Boot, or the application runs.
    #[default]
    Run = 0,
    /// The application shall end.
    Stop = 1,
}

/// The control page: words at fixed offsets of BAR0.
///
/// | offset | write | read |
/// |---|---|---|
/// | 0x0 | mark N | last mark |
/// | 0x4 | - | phase: 0 run, 1 stop |
/// | 0x8 | exit status of the application, plus 1 | 0 |
/// | 0xc | a figure that the application reports | 0 |
/// | 0x10 | the kernel runs: asks for the run's files | their bytes, 0 before they may be had |
/// | 0x14 | number of a 4 KiB frame of memory, where their next bytes go | 0 |
pub struct ControlDevice {
    pub config: ConfigSpace,
    pub mark: u32,
    pub phase: GuestPhase,
    pub exit: Option<u32>,
    pub figures: Vec<u32>,
    files: Files,
    ram: GuestRam,
}

/// What the guest is to run.
struct Files {
    archive: File,
    asked: bool,
    /// Their bytes, once they may be had.
    length: u32,
    /// How many it has had.
    read: u64,
}

/// The vendor ID of QEMU's own devices, and a device ID that it does not use: "wt".
const CONTROL_VENDOR: u16 = 0x1234;
const CONTROL_DEVICE: u16 = 0x7774;
const UNCLASSIFIED: u32 = 0xff_0000;
const CONTROL_SIZE: u64 = 4096;
const FIGURES_MAX: usize = 65_536;
/// Bytes of a frame of guest memory.
const FRAME: usize = 4096;

impl ControlDevice {
    /// With the run's files, as an archive.
    pub fn new(archive: File) -> Self {
        let files = Files { archive, asked: false, length: 0, read: 0 };
        let config = ConfigSpace::new(&Identity {
            vendor: CONTROL_VENDOR,
            device: CONTROL_DEVICE,
            class: UNCLASSIFIED,
            revision: 1,
            bars: vec![Bar::new(0, CONTROL_SIZE)],
            ..Identity::default()
        });
        let ram = GuestRam::default();
        Self { config, mark: 0, phase: GuestPhase::Run, exit: None, figures: Vec::new(), files, ram }
    }

    /// Whether the guest waits for the run's files.
    pub fn asked(&self) -> bool {
        self.files.asked && self.files.length == 0
    }

    /// It does, or does not.
    pub fn set_asked(&mut self, asked: bool) {
        self.files.asked = asked;
    }

    /// At the start of a window: files that were asked for may be had.
    pub fn answer(&mut self) {
        if self.asked() {
            let length = self.files.archive.metadata().map_or(0, |m| m.len());
            self.files.length = u32::try_from(length).unwrap_or(u32::MAX);
        }
    }

    /// The next bytes of the files go into this frame of memory.
    fn copy(&mut self, frame: u32) {
        let mut bytes = [0; FRAME];
        let left = u64::from(self.files.length).saturating_sub(self.files.read);
        let length = usize::try_from(left).map_or(FRAME, |left| left.min(FRAME));
        if self.files.archive.read_exact_at(&mut bytes[..length], self.files.read).is_ok() {
            // Beyond memory nothing is written, as a device's writes there would be.
            self.ram.write(u64::from(frame) * FRAME as u64, &bytes[..length]);
            self.files.read += length as u64;
        }
    }
}

impl PciDevice for ControlDevice {
    fn config(&mut self) -> &mut ConfigSpace {
        &mut self.config
    }
    fn read(&mut self, place: Place, data: &mut [u8]) {
        let word = match place.offset {
            0 => self.mark,
            4 => self.phase as u32,
            0x10 => self.files.length,
            _ => 0,
        };
        data.fill(0);
        for (d, b) in data.iter_mut().zip(word.to_le_bytes()) {
            *d = b;
        }
    }
    fn write(&mut self, place: Place, data: &[u8]) {
        let mut word = [0; 4];
        for (w, d) in word.iter_mut().zip(data) {
            *w = *d;
        }
        let word = u32::from_le_bytes(word);
        match place.offset {
            0 => self.mark = word,
            8 => self.exit = word.checked_sub(1),
            12 if self.figures.len() < FIGURES_MAX => self.figures.push(word),
            0x10 => self.files.asked = true,
            0x14 => self.copy(word),
            _ => {}
        }
    }
    fn reset(&mut self) {}
    fn map_memory(&mut self, address: u64, size: u64, fd: OwnedFd, offset: u64) {
        self.ram.map(address, size, &fd, offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::ram;
    use std::io::Write;

    fn device(archive: &[u8]) -> ControlDevice {
        let fd = nix::sys::memfd::memfd_create(c"wiretime-test", nix::sys::memfd::MFdFlags::MFD_CLOEXEC);
        let mut file = File::from(fd.expect("memory"));
        file.write_all(archive).expect("room");
        let mut device = ControlDevice::new(file);
        device.ram = ram(0x4000_0000, 4 * FRAME as u64);
        device
    }

    fn word(device: &mut ControlDevice, offset: u64) -> u32 {
        let mut data = [0; 4];
        device.read(Place { bar: 0, offset }, &mut data);
        u32::from_le_bytes(data)
    }

    fn write(device: &mut ControlDevice, offset: u64, value: u32) {
        device.write(Place { bar: 0, offset }, &value.to_le_bytes());
    }

    #[test]
    fn files_come_once_they_were_asked_for_and_a_window_has_begun() {
        let archive: Vec<u8> = (0..FRAME + 3).map(|i| (i % 251) as u8).collect();
        let mut d = device(&archive);
        d.answer();
        assert!(!d.asked() && word(&mut d, 0x10) == 0, "nobody has asked");
        write(&mut d, 0x10, 1);
        assert!(d.asked() && word(&mut d, 0x10) == 0, "not in the same window");
        d.answer();
        assert!(!d.asked(), "answered");
        assert_eq!(word(&mut d, 0x10), FRAME as u32 + 3);
        let mut page = [0xee; FRAME];
        for (frame, expected) in [(0x4_0002, &archive[..FRAME]), (0x4_0000, &archive[FRAME..])] {
            write(&mut d, 0x14, frame);
            assert!(d.ram.read(u64::from(frame) * FRAME as u64, &mut page));
            assert_eq!(&page[..expected.len()], expected);
        }
        write(&mut d, 0x14, 0x4_0001);
        assert!(d.ram.read(0x4000_1000, &mut page) && page == [0; FRAME], "there is no more");
    }

    #[test]
    fn frames_that_are_no_memory_are_written_to_by_nobody() {
        let mut d = device(&[7; FRAME]);
        write(&mut d, 0x10, 1);
        d.answer();
        let mut before = vec![0; 4 * FRAME];
        assert!(d.ram.read(0x4000_0000, &mut before));
        for frame in [0, 0x4_0004, u32::MAX] {
            write(&mut d, 0x14, frame);
        }
        let mut after = vec![1; 4 * FRAME];
        assert!(d.ram.read(0x4000_0000, &mut after) && after == before);
    }
}
