"""Guests that mean harm (guest/tests/hostile.c): a device counts errors as hardware would, and the process stays."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import wiretime
from wiretime import paths
from wiretime.setup.guest import compile_c

# A program forwards; once it does, another breaks what it can reach: registers, doorbells, rings, buffers.
BESIDE = """#!/bin/sh
dpdk-testpmd "$@" -- --forward-mode=io --auto-start --nb-cores=1 >/tmp/said 2>&1 </dev/null &
pid=$!
until grep -q "io packet forwarding" /tmp/said; do sleep 0.001; done
seed=1
while [ $seed -lt 1000 ]; do
    hostile 5000 $seed $pid
    seed=$((seed + 1))
done
"""

# Nobody drives the device: what the kernel's driver left there is broken.
ALONE = """#!/bin/sh
for device in /sys/bus/pci/drivers/mlx5_core/0*; do
    [ -e "$device" ] && echo "${device##*/}" >/sys/bus/pci/drivers/mlx5_core/unbind
done
hostile 20000 1
wtctl mark 1
seed=2
while [ $seed -lt 1000 ]; do
    hostile 5000 $seed
    seed=$((seed + 1))
done
"""

# How a run may end: with a result, or with a word about the guest.
GUEST = r"no port was enabled|has not enabled|ended with status|not ready"


@pytest.mark.parametrize(
    ("nic", "script", "more"),
    [
        ("8254x", BESIDE, ("--app-args", "{eal}")),
        ("82599", BESIDE, ("--app-args", "{eal}")),
        ("qdma", ALONE, ()),
        ("connectx-6dx", ALONE, ("--kernel",)),
    ],
)
def test_random_words_everywhere_break_the_guest_at_most(
    nic: str, script: str, more: tuple[str, ...], tmp_path: Path
) -> None:
    program, start, out = tmp_path / "hostile", tmp_path / "start.sh", tmp_path / "out"
    compile_c(paths.GUEST / "tests/hostile.c", program)
    start.write_text(script)
    start.chmod(0o755)
    done = wiretime(
        "run", str(start), "--files", str(program), "--role", "consumes", "--nic", nic, "--rate", "1Gbps",
        "--warmup", "3ms", "--duration", "2ms", "--out", str(out), *more,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert "panicked" not in said and "by signal" not in said, said
    assert done.returncode == 0 or re.search(GUEST, said), said
    if done.returncode == 0:
        said += (out / "console.log").read_text()
        assert json.loads((out / "result.json").read_text())["total"]["offered"] > 0
    # It has found what to break, memory too where a program drives the device.
    if script == BESIDE and "Bus error" not in said:
        assert re.search(r"hostile: \d+ words, and [1-9]\d* into memory", said), said
    assert re.search(r"hostile: [1-9] BARs", said) and re.search(r"hostile: \d+ words|Bus error", said), said
