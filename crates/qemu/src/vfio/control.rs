//! The page through which guest programs and the engine talk.

use super::PciDevice;
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
pub struct ControlDevice {
    pub config: ConfigSpace,
    pub mark: u32,
    pub phase: GuestPhase,
    pub exit: Option<u32>,
    pub figures: Vec<u32>,
}

/// The vendor ID of QEMU's own devices, and a device ID that it does not use: "wt".
const CONTROL_VENDOR: u16 = 0x1234;
const CONTROL_DEVICE: u16 = 0x7774;
const UNCLASSIFIED: u32 = 0xff_0000;
const CONTROL_SIZE: u64 = 4096;
const FIGURES_MAX: usize = 65_536;

impl Default for ControlDevice {
    fn default() -> Self {
        let config = ConfigSpace::new(&Identity {
            vendor: CONTROL_VENDOR,
            device: CONTROL_DEVICE,
            class: UNCLASSIFIED,
            revision: 1,
            bars: vec![Bar::new(0, CONTROL_SIZE)],
            ..Identity::default()
        });
        Self { config, mark: 0, phase: GuestPhase::Run, exit: None, figures: Vec::new() }
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
            _ => {}
        }
    }
    fn reset(&mut self) {}
}
