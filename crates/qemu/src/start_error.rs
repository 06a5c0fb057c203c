//! Why a run cannot begin: the one line that a user gets.

use std::io;
use std::path::PathBuf;
use wiretime_base::Invalid;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("this QEMU offers plugin API {found}, Wiretime needs {needed}")]
    OtherApi { found: i32, needed: i32 },
    #[error("only qemu-system-{driven} can be driven, this is {found}")]
    OtherTarget { driven: &'static str, found: String },
    #[error("it has no register {0}")]
    NoRegister(&'static str),
    /// What Wiretime takes hold of inside QEMU.
    #[error("{0}")]
    OtherInside(&'static str),
    #[error("plugin argument {0}= is missing (start runs with the wiretime command)")]
    NoArgument(String),
    #[error("plugin argument {0}= is not a descriptor")]
    NoDescriptor(String),
    #[error("plugin argument keep= is neither kernel nor ready")]
    NoMoment,
    #[error("configuration: {0}")]
    Unreadable(io::Error),
    #[error("configuration: {0}")]
    NoConfiguration(#[from] serde_json::Error),
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("{}: {cause}", path.display())]
    NoTrace { path: PathBuf, cause: io::Error },
    #[error("cannot {what} shared memory: {cause}")]
    NoMemory { what: &'static str, cause: nix::errno::Errno },
    #[error("cannot start the {device} device's thread: {cause}")]
    NoThread { device: String, cause: io::Error },
}
