"""Tests of the tests: breaks a model in one place at a time, and wants a test to fail.

Needs a clean tree; restores every file. Not part of ``./test``: each mutation builds the engine anew.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
GUEST = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/test_machine.py", "-k"]
MODELS = ["cargo", "test", "-q", "-p", "wiretime-hw", "--lib"]


@dataclass(frozen=True)
class Mutation:
    """What is broken: a text in a file, what stands there instead, and the tests that must notice."""

    what: str
    file: str
    old: str
    new: str
    tests: list[str]


MUTATIONS = (
    Mutation(
        "the L2's latency is halved",
        "crates/hw/src/memory/mod.rs",
        "l2_latency: p.l2.latency.into()",
        "l2_latency: u64::from(p.l2.latency) / 2",
        [*GUEST, "closed_forms and ampere-altra-"],
    ),
    Mutation(
        "PRFM is ignored",
        "crates/qemu/src/run/hidden.rs",
        "    Some((address, MemKind::Prefetch))",
        "    let _ = address;\n    None",
        [*GUEST, "software_prefetches"],
    ),
    Mutation(
        "PCIe writes have no header",
        "crates/hw/src/io/pcie.rs",
        "piece + u64::from(self.p.write_overhead), host.stats",
        "piece, host.stats",
        MODELS,
    ),
    Mutation(
        "a register read is charged twice",
        "crates/hw/src/core/access.rs",
        "let done = t + self.device_read;",
        "let done = t + 2 * self.device_read;",
        [*GUEST, "closed_forms and ampere-altra-"],
    ),
    Mutation(
        "a row hit costs as much as a row miss",
        "crates/hw/src/memory/dram.rs",
        "if open && bank.row == place.row {",
        "if open && bank.row == place.row && false {",
        MODELS,
    ),
    Mutation(
        "a mispredicted branch costs nothing",
        "crates/hw/src/core/frontend.rs",
        "self.redirect(complete + self.mispredict, Cause::Mispredict);",
        "",
        [*GUEST, "branches_cost"],
    ),
    Mutation(
        "page walks are free",
        "crates/hw/src/core/tlb.rs",
        "        self.second.insert(address, bits);\n        (bits, at - t)",
        "        self.second.insert(address, bits);\n        (bits, (at - t) * 0)",
        [*GUEST, "closed_forms and ampere-altra-"],
    ),
)


def run(command: list[str]) -> bool:
    """Return whether a command succeeds."""
    return subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 0


def caught(m: Mutation) -> str:
    """Break, build, test, restore; say what happened."""
    path = ROOT / m.file
    text = path.read_text()
    if text.count(m.old) != 1:
        return "the place to break is not there"
    path.write_text(text.replace(m.old, m.new))
    try:
        if m.tests != MODELS and not run(["cargo", "build", "--release", "-q", "-p", "wiretime-qemu"]):
            return "does not build"
        return "NOT CAUGHT" if run(m.tests) else "caught"
    finally:
        path.write_text(text)


def main() -> int:
    """Try every mutation."""
    results = []
    for m in MUTATIONS:
        results.append(caught(m))
        print(f"{results[-1]}: {m.what} ({m.file})", flush=True)
    run(["cargo", "build", "--release", "-q", "-p", "wiretime-qemu"])
    return int(any(result != "caught" for result in results))


if __name__ == "__main__":
    sys.exit(main())
