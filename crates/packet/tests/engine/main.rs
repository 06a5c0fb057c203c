//! Runs of the packet-level engine, in one program: of several, each would compile every device anew.

mod common;
mod connectx;
mod intel;
mod perturb;
mod qdma;
