"""Who may know whom: what belongs to one layer is named nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from wiretime import paths

CRATES = paths.REPOSITORY / "crates"


def lines(crate: str) -> list[tuple[Path, str]]:
    files = sorted((CRATES / crate).rglob("*.rs"))
    assert files
    return [(file, line) for file in files for line in file.read_text().splitlines()]


AARCH64 = re.compile(
    r"arm64|aarch64|\b(ttbr|tcr|sctlr|tlbi|prfm|zva|cnt[vp]ct|cntfrq|mrs|msr|wfe|wfi|eret|svc)(\b|_el)|_el[01]\b", re.I
)


@pytest.mark.parametrize("crate", ["base", "hw", "qemu", "capture", "experiment", "packet", "py"])
def test_only_one_crate_knows_the_instruction_set(crate: str) -> None:
    """The engine says once which it drives."""
    found = [line.strip() for _, line in lines(crate) if AARCH64.search(line)]
    named = ["use wiretime_isa::{AArch64, Isa, Registers};", "pub type Guest = AArch64;"]
    assert found == (named if crate == "qemu" else [])


def test_one_module_names_its_packages_and_tools() -> None:
    files = (paths.REPOSITORY / "python").rglob("*.py")
    found = {f.name for f in files if re.search(r"aarch64|arm64|gic-version|qemu-system-arm", f.read_text())}
    assert found == {"architecture.py"}


@pytest.mark.parametrize(
    ("crate", "allowed"),
    [
        ("base", set()),
        ("hw", {"base"}),
        ("isa", {"base", "hw"}),
        ("capture", {"base", "hw"}),
        ("experiment", {"base", "hw", "capture"}),
        ("packet", {"base", "hw", "capture", "experiment"}),
    ],
)
def test_lower_layers_know_no_higher_one(crate: str, allowed: set[str]) -> None:
    used = {name for _, line in lines(crate) for name in re.findall(r"\bwiretime_(\w+?)\b(?=::|;)", line)}
    assert used - {crate} <= allowed


def test_one_word_for_one_thing() -> None:
    """No two types share one of these names: what each is of is in its name."""
    words = ["Account", "Cause", "Class", "Control", "Engine", "Port", "Ring", "Shared", "Verdict"]
    defined = [
        match[1]
        for crate in ("base", "hw", "isa", "qemu", "capture", "experiment", "packet", "py")
        for _, line in lines(crate)
        if (match := re.match(r"\s*(?:pub(?:\(\w+\))? )?(?:struct|enum|trait|type) (\w+)", line))
    ]
    assert not [word for word in words if defined.count(word) > 1]


INTEL = re.compile(r"intel|e1000|ixgbe|82540|82599|8254x|\bRDT\b|\bTDT\b", re.I)
# A bench and what is told of DPDK's programs by the name of a NIC say which they have.
NAMED = {"loopback.rs", "pci.rs", "testing.rs"}


def test_no_word_of_a_family_of_nics_outside_its_folder() -> None:
    hw = CRATES / "hw" / "src"
    found = {
        f"{file.relative_to(hw)}: {line.strip()}"
        for file, line in lines("hw/src")
        if INTEL.search(line)
        and not line.strip().startswith("//")
        and "devices" not in file.parts
        and file.name not in NAMED
        and "params" not in file.parts
    }
    assert not found


def test_paths_keep_no_books() -> None:
    """Devices, blocks and the MAC tell; they name nothing of who listens."""
    folder = CRATES / "hw" / "src" / "nic"
    told = [*sorted((folder / "devices" / "intel").rglob("*.rs")), *sorted((folder / "blocks").glob("*.rs"))]
    told += [folder / "device.rs", folder / "mac.rs", folder / "notice.rs"]
    words = re.compile(r"\bbooks::|\bLedger\b|\bJourneys\b|\bTracer\b|\bTap\b|\bDropClass")
    assert not [f"{f.name}: {line}" for f in told for line in f.read_text().splitlines() if words.search(line)]


ARCHITECTURE = (paths.REPOSITORY / "docs" / "architecture.md").read_text()


def test_files_and_functions_of_the_architecture_exist() -> None:
    named = re.findall(r"`((?:crates|tests|docs)/[\w/.]+)`(?: `(\w+)`)?", ARCHITECTURE)
    assert len(named) > 30
    for file, function in named:
        path = paths.REPOSITORY / file
        assert path.exists(), file
        if function:
            assert re.search(rf"\bfn {function}\b", path.read_text()), f"{file} has no {function}"


def test_types_of_the_architecture_exist() -> None:
    defined = {
        match[1]
        for crate in ("base", "hw", "isa", "qemu", "experiment", "packet")
        for _, line in lines(crate)
        if (match := re.match(r"\s*(?:pub(?:\([\w: ]+\))? )?(?:struct|enum|trait|type) (\w+)", line))
    }
    types = set(re.findall(r"`([A-Z][a-z]\w+)`", ARCHITECTURE)) - {"RefCell", "Ordered"}
    notices = (CRATES / "hw/src/nic/notice.rs").read_text()
    assert not {name for name in types - defined if not re.search(rf"^    {name}\b", notices, re.M)}
