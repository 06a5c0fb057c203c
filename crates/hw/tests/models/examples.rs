//! What the documentation shows runs.

#[path = "../../examples/forward.rs"]
mod forward;

/// It asserts that every packet is accounted for.
#[test]
fn packets_are_forwarded_without_qemu() {
    forward::main();
}
