"""`wiretime build`: a program of the user's, from its sources to a run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import balanced, wiretime
from wiretime.errors import BuildError, WiretimeError
from wiretime.setup import build, program

SKELETON = build.EXAMPLES / "skeleton"


def test_an_example_of_dpdk_is_built_and_forwards(tmp_path: Path) -> None:
    """DPDK's skeleton, which is none of our applications, as a newcomer would have it."""
    folder = tmp_path / "skeleton"
    shutil.copytree(program.sysroot() / SKELETON, folder)
    done = wiretime("build", str(folder), "shared")
    assert done.returncode == 0, done.stderr
    binary = folder / "build/basicfwd-shared"
    assert done.stdout.splitlines()[0] == f"wiretime run {binary} --app-args '{{eal}} -- ...'"
    short = ("--duration", "200us", "--warmup", "100us", "--rate", "5Gbps")
    r = balanced(tmp_path / "out", str(binary), "--app-args", "{eal}", "--nic", "82599", "--ports", "2", *short)
    assert r["loss_percent"] == 0 and r["cohort"]["forwarded"] > 0


MIRROR = """
			for (uint16_t n = 0; n < nb_rx; n++) {
				struct rte_mbuf *twin = bufs[n];
				if (n % 2)
					rte_mbuf_refcnt_update(twin, 1);
				else
					twin = rte_pktmbuf_copy(twin, twin->pool, 0, UINT32_MAX);
				if (twin && rte_eth_tx_burst(n % 4 < 2 ? port : port ^ 1, 0, &twin, 1) == 0)
					rte_pktmbuf_free(twin);
			}
			const uint16_t nb_tx = """


def test_a_program_that_sends_every_packet_twice_balances(tmp_path: Path) -> None:
    """By copies and in the same buffer, before the packet itself and by either port."""
    folder = tmp_path / "mirror"
    shutil.copytree(program.sysroot() / SKELETON, folder)
    source = folder / "basicfwd.c"
    text = source.read_text()
    assert text.count("const uint16_t nb_tx = ") == 1
    source.write_text(text.replace("const uint16_t nb_tx = ", MIRROR))
    assert wiretime("build", str(folder), "shared").returncode == 0
    binary = folder / "build/basicfwd-shared"
    short = ("--duration", "200us", "--warmup", "100us", "--rate", "2Gbps")
    r = balanced(tmp_path / "out", str(binary), "--app-args", "{eal}", "--nic", "82599", "--ports", "2", *short)
    assert r["loss_percent"] == 0 and r["cohort"]["forwarded"] == r["cohort"]["offered"] > 0
    (said,) = [w for w in r["warnings"] if w.startswith("repeated packets: ")]
    # The load goes on before and behind the cohort.
    assert int(said.split()[2]) >= r["cohort"]["forwarded"]


def test_what_cannot_be_built_says_why(tmp_path: Path) -> None:
    with pytest.raises(WiretimeError, match="has no Makefile"):
        program.make(tmp_path)
    makefile = tmp_path / "Makefile"
    makefile.write_text("all:\n\t$(CC) -o mine mine.c\n")
    (tmp_path / "mine.c").write_text("int main(void) { return missing; }\n")
    with pytest.raises(BuildError, match=r"cannot be built: .*missing.* undeclared") as e:
        program.make(tmp_path)
    assert "mine.c:1:" in e.value.output
    done = wiretime("build", str(tmp_path))
    assert done.returncode == 2 and "mine.c:1:" in done.stderr and done.stderr.splitlines()[-1].startswith("wiretime: ")
    makefile.write_text("all:\n\t@true\n")
    with pytest.raises(WiretimeError, match="its Makefile has made no program"):
        program.make(tmp_path)
