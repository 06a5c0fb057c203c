"""Set-up: QEMU, the guest image and our own libraries, into a cache keyed by content."""
