//! What comes in: the configuration, and descriptors that the caller passed; no file is named or left behind.

use crate::kept::{Boot, Moment};
use crate::start_error::StartError;
use serde::Deserialize;
use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use wiretime_experiment::RunSettings;
use wiretime_hw::params::Platform;

/// A run, as the command line describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    platform: Platform,
    run: RunSettings,
}

/// All that the engine is told.
pub struct Config {
    pub platform: Platform,
    pub run: RunSettings,
    pub nic_fds: Vec<OwnedFd>,
    pub control_fd: OwnedFd,
    pub output: OwnedFd,
    /// Where the next trial is asked for, where there are several in one boot.
    pub input: Option<OwnedFd>,
    /// Where the capture of the wire goes.
    pub capture: Option<OwnedFd>,
    /// The far end of the wire.
    pub far: Option<OwnedFd>,
    /// What the guest runs, as an archive, which it asks for once its kernel runs.
    pub files: File,
    /// Whether the boot is to be kept, or one that was kept goes on.
    pub boot: Boot,
    /// Whether turns of loops that repeat are taken at once.
    pub repeats: bool,
}

impl Config {
    /// From the plugin's arguments: `config=FILE`, `nic0=FD` and so on, `control=FD`, `files=FD`, `output=FD`, and where
    /// wanted `input=FD`, `capture=FD` and `far=FD`; `keep=kernel` or `keep=ready` where the boot is to be kept then,
    /// `state=FILE` where one goes on; `every_turn=1` where every turn of a loop is executed, and every block of a boot
    /// calls.
    pub fn load(args: &[String]) -> Result<Self, StartError> {
        let value = |key: &str| {
            args.iter()
                .find_map(|a| a.strip_prefix(key)?.strip_prefix('='))
                .ok_or_else(|| StartError::NoArgument(key.to_owned()))
        };
        let text = std::fs::read_to_string(value("config")?).map_err(StartError::Unreadable)?;
        let settings: Settings = serde_json::from_str(&text)?;
        settings.platform.check()?;
        let fd = |key: &str| -> Result<OwnedFd, StartError> {
            let raw: RawFd = value(key)?.parse().map_err(|_| StartError::NoDescriptor(key.to_owned()))?;
            // SAFETY: the caller opened it for us; nobody else in this process uses it.
            Ok(unsafe { OwnedFd::from_raw_fd(raw) })
        };
        let nic_fds: Result<_, _> = (0..settings.platform.link.len()).map(|i| fd(&format!("nic{i}"))).collect();
        Ok(Self {
            platform: settings.platform,
            run: settings.run,
            nic_fds: nic_fds?,
            control_fd: fd("control")?,
            output: fd("output")?,
            input: if value("input").is_ok() { Some(fd("input")?) } else { None },
            capture: if value("capture").is_ok() { Some(fd("capture")?) } else { None },
            far: if value("far").is_ok() { Some(fd("far")?) } else { None },
            repeats: value("every_turn").is_err(),
            files: fd("files")?.into(),
            boot: Boot {
                continues: match value("state") {
                    Ok(path) => {
                        let text = std::fs::read_to_string(path).map_err(StartError::Unreadable)?;
                        Some(serde_json::from_str(&text)?)
                    }
                    Err(_) => None,
                },
                keeps: match value("keep") {
                    Ok(moment) => Some(Moment::named(moment).ok_or(StartError::NoMoment)?),
                    Err(_) => None,
                },
            },
        })
    }
}
