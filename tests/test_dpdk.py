"""DPDK built from sources: what is taken for sources, what is built, what a run says of it."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import balanced, wiretime
from wiretime import apps, runs
from wiretime.apps import Own
from wiretime.errors import WiretimeError
from wiretime.setup import added, debian, dpdk, guest, store
from wiretime.study import plan, point

# Sources of DPDK for the tests that need real ones; nothing of the package registries has them.
SOURCE = "WIRETIME_DPDK_SOURCE"
MESON = """project('DPDK', 'c', version: '1.2.3', meson_version: '>= 0.57')
executable('dpdk-testpmd', 'app.c', install: true)
lib = shared_library('rte_net_null', 'drivers/net/null/null.c', version: '9.9', install: true,
    install_dir: get_option('libdir') / 'dpdk/pmds-9.9')
if import('fs').exists('drivers/net/qdma/qdma.c')
    shared_library('rte_net_qdma', 'drivers/net/qdma/qdma.c', version: '9.9', install: true,
        install_dir: get_option('libdir') / 'dpdk/pmds-9.9')
endif
"""
OPTIONS = """option('platform', type: 'string')
option('enable_apps', type: 'string')
option('enable_drivers', type: 'string')
option('max_numa_nodes', type: 'integer', value: 0)
option('tests', type: 'boolean')
"""
RECIPE = {
    "suite": "trixie",
    "architecture": "arm64",
    "packages": ["linux-image-arm64", "busybox-static", "libc6", "dpdk-dev"],
    "modules": ["uio"],
    "applets": ["sh"],
    "archives": {
        "base": {},
        "dpdk": {"programs": ["/usr/bin/dpdk-testpmd"], "drivers": ["net_null"]},
        "other": {"programs": ["/usr/bin/busybox"]},
    },
    "dpdk": {"apps": ["test-pmd"], "platform": "altra"},
}


def sources(folder: Path) -> Path:
    """Sources that look like DPDK's, of one program and one driver."""
    for name, text in {
        "VERSION": "1.2.3\n",
        "meson.build": MESON,
        "meson_options.txt": OPTIONS,
        "app.c": 'int main(void) { return __builtin_strcmp(__FILE__, "app.c"); }\n',
        "drivers/net/meson.build": "drivers = [\n        'null',\n]\n",
        "drivers/net/null/meson.build": "",
        "drivers/net/null/null.c": "int rte_null(void) { return 1; }\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def driver(folder: Path) -> Path:
    """A driver beside DPDK's, of a name that is known to lack something."""
    folder.mkdir()
    (folder / "meson.build").write_text("sources = files('qdma.c')\n")
    (folder / "qdma.c").write_text("int rte_qdma(void) { return 2; }\n")
    return folder


def unpacked(archive: Path, folder: Path) -> set[str]:
    folder.mkdir()
    command = ["cpio", "--extract", "--make-directories", "--quiet"]
    subprocess.run(command, input=archive.read_bytes(), cwd=folder, check=True)
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir()}


def test_a_build_takes_the_place_of_debians(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built once from what the sources hold, for the guest's processor; only archives with DPDK in them are its own."""
    monkeypatch.setenv("WIRETIME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(guest, "recipe", lambda: RECIPE)
    tree, mine = sources(tmp_path / "dpdk-1.2.3"), [driver(tmp_path / "qdma")]
    made, built = dpdk.make("mine", str(tree), mine)
    assert built and made.version == "1.2.3" and dpdk.names() == ["debian", "mine"]
    assert sorted(p.name for p in made.folder.iterdir()) == ["dpdk.cpio", store.MANIFEST]
    names = unpacked(made.folder / "dpdk.cpio", tmp_path / "inside")
    drivers = "usr/lib/aarch64-linux-gnu/dpdk/pmds-9.9"
    wanted = {"usr/bin/dpdk-testpmd", f"{drivers}/librte_net_null.so.9.9", f"{drivers}/librte_net_qdma.so.9.9"}
    assert wanted <= names
    assert not any("librte_eal" in name for name in names), "Debian's are in the way"
    program = (tmp_path / "inside/usr/bin/dpdk-testpmd").read_bytes()
    assert program[18:20] == b"\xb7\x00", "no program for AArch64"
    assert str(tmp_path).encode() not in program
    assert dpdk.archive("dpdk", "mine") == made.folder / "dpdk.cpio"

    # Xilinx's driver makes a QDMA one of testpmd's NICs; it is left to the driver before the program starts.
    testpmd = apps.find("testpmd", Own(), "mine")
    assert "qdma" in testpmd.interfaces and "qdma" not in apps.get("testpmd").interfaces
    assert "!= 0x10ee ] || echo uio_pci_generic >$d/driver_override" in testpmd.preparation(["qdma"])
    assert testpmd.preparation(["82599"]) == apps.get("testpmd").preparation(["qdma"]) == ""
    assert [p["name"] for p in made.packages] == ["dpdk", "net_qdma"]

    # The same sources in a tar archive are the same build; other ones are another.
    with tarfile.open(tmp_path / "a.tar.xz", "w:xz") as tar:
        tar.add(tree, "dpdk-1.2.3")
    assert dpdk.make("mine", str(tmp_path / "a.tar.xz"), mine) == (made, False)
    alone = dpdk._digest(tree, dpdk._listed(tree))
    assert alone == made.sources
    (tree / "app.c").write_text("int main(void) { return 1; }\n")
    assert dpdk._digest(tree, dpdk._listed(tree)) != alone
    assert dpdk._key(alone, {}) != dpdk._key(alone, made.drivers) != dpdk._key(alone, {"net_qdma": "other"})

    # For another guest it is no longer the right one; damaged, none.
    monkeypatch.setattr(guest, "recipe", lambda: {**RECIPE, "modules": ["e1000"], "dpdk": {**RECIPE["dpdk"], "x": 1}})
    with pytest.raises(WiretimeError, match=r"--dpdk mine: was built for another guest: make it .* and `--driver`"):
        dpdk.variant("mine")
    (made.folder / "dpdk.cpio").write_bytes(b"")
    with pytest.raises(WiretimeError, match=r"--dpdk mine: .* is damaged"):
        dpdk.variant("mine")
    (made.folder / store.MANIFEST).write_text("{")
    with pytest.raises(WiretimeError, match=r"--dpdk mine: .* is damaged"):
        dpdk.variant("mine")


def test_what_a_driver_lacks_is_beside_it(tmp_path: Path) -> None:
    """Its own files stay; one that lacks nothing is left as it is, and one that DPDK has already is refused."""

    def as_listed(folder: Path) -> added.Driver:
        return added.Driver(folder.name, folder, dpdk._listed(folder))

    tree, qdma, other = sources(tmp_path / "tree"), driver(tmp_path / "qdma"), driver(tmp_path / "other")
    (qdma / "qdma_rxtx_vec_sse.c").write_text("uint16_t qdma_recv_pkts_vec(void *queue)\n")
    added.add(tree, [as_listed(qdma), as_listed(other)])
    there = tree / "drivers/net"
    assert (there / "qdma/qdma.c").read_bytes() == (qdma / "qdma.c").read_bytes()
    made = (there / "qdma/meson.build").read_text()
    assert made.startswith((qdma / "meson.build").read_text())
    assert "sources += files('qdma_vectors.c')" in made and "'-include', 'rte_vect.h'" in made
    assert (there / "qdma/qdma_vectors.c").is_file()
    assert (there / "other/meson.build").read_text() == (other / "meson.build").read_text()
    assert re.findall(r"'(\w+)'", (there / "meson.build").read_text()) == ["other", "qdma", "null"]
    with pytest.raises(WiretimeError, match="have a driver net_qdma already"):
        added.add(tree, [as_listed(qdma)])
    # One that has the functions for this processor.
    (qdma / "qdma_rxtx_vec_neon.c").write_text("uint16_t qdma_recv_pkts_vec(void *queue)\n")
    whole = sources(tmp_path / "whole")
    added.add(whole, [as_listed(qdma)])
    assert (whole / "drivers/net/qdma/meson.build").read_text() == (qdma / "meson.build").read_text()
    (whole / "drivers/net/meson.build").write_text("")
    with pytest.raises(WiretimeError, match=r"list no drivers in drivers/net/meson\.build"):
        added.add(whole, [as_listed(other)])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--driver", "{tmp}"), "--driver: with one --dpdk NAME=SOURCE, which it is built with"),
        (("--dpdk", "x={tmp}", "--dpdk", "y={tmp}", "--driver", "{tmp}"), "--driver: with one --dpdk NAME=SOURCE"),
        (("--dpdk", "x={tmp}", "--driver", "{tmp}"), "--driver {tmp}: no folder with a driver's meson.build"),
        (("--dpdk", "x={tmp}", "--driver", "{tmp}/A-b"), "'A-b', which is its name, must be small letters"),
        (("--dpdk", "x={tmp}", "--driver", "{tmp}/a/nic", "--driver", "{tmp}/nic"), "there is another one called nic"),
    ],
)
def test_no_drivers_are_refused(tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    (tmp_path / "a").mkdir()
    for name in ("A-b", "nic", "a/nic"):
        driver(tmp_path / name)
    done = wiretime("setup", *(arg.format(tmp=tmp_path) for arg in args))
    assert done.returncode == 2
    assert message.format(tmp=tmp_path) in " ".join(done.stderr.split())


def test_a_build_that_fails_says_where(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text("rule no\n  command = echo error: no such thing; false\nbuild x: no\n")
    with pytest.raises(WiretimeError, match=r"DPDK cannot be built: ninja x: .*error: no such thing"):
        dpdk._run(tmp_path, "ninja", "x")


def test_sources_are_what_git_knows_and_no_build(tmp_path: Path) -> None:
    tree = sources(tmp_path / "tree")
    plain = dpdk._listed(tree)
    (tree / "build").mkdir()
    (tree / "build/build.ninja").write_text("")
    (tree / "build/app.o").write_text("")
    assert dpdk._listed(tree) == plain
    subprocess.run(["git", "init", "--quiet", str(tree)], check=True)
    (tree / ".gitignore").write_text("*.o\n")
    (tree / "new.o").write_text("")
    (tree / "new.c").write_text("")
    assert dpdk._listed(tree) == sorted([*plain, Path(".gitignore"), Path("new.c")])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        ("x", "--dpdk x: must be NAME=SOURCE"),
        ("x=", "--dpdk x=: must be NAME=SOURCE"),
        ("debian={tmp}", "--dpdk debian={tmp}: a name has small letters, digits, '.' and '_', and is not debian"),
        ("A-b={tmp}", "--dpdk A-b={tmp}: a name has small letters, digits, '.' and '_', and is not debian"),
        ("x={tmp}", "--dpdk {tmp}: no sources of DPDK: a folder or tar archive of them, or 'debian' for Debian's"),
        ("x={tmp}/none", "--dpdk {tmp}/none: no sources of DPDK"),
        ("x={tmp}/text", "--dpdk {tmp}/text: no tar archive that can be read"),
    ],
)
def test_no_sources_are_refused(tmp_path: Path, build: str, message: str) -> None:
    (tmp_path / "text").write_text("no archive")
    done = wiretime("setup", "--dpdk", build.format(tmp=tmp_path))
    assert done.returncode == 2
    assert message.format(tmp=tmp_path) in " ".join(done.stderr.split())


def test_sources_need_the_drivers_of_the_recipe(tmp_path: Path) -> None:
    with pytest.raises(WiretimeError, match="these sources of DPDK have no driver net_mlx5"):
        dpdk._meson_names(sources(tmp_path), ["net_null", "net_mlx5"])


def test_drivers_are_found_where_releases_have_them(tmp_path: Path) -> None:
    """Since 25.03 Intel's are in a folder of their own."""
    tree = sources(tmp_path)
    (tree / "drivers/net/intel/ixgbe").mkdir(parents=True)
    (tree / "drivers/net/intel/ixgbe/meson.build").write_text("")
    assert dpdk._meson_names(tree, ["net_ixgbe", "net_null"]) == ["net/intel/ixgbe", "net/null"]


def test_a_run_asks_for_a_build_that_is_there() -> None:
    with pytest.raises(WiretimeError, match=r"unknown build of DPDK 'no'.*make it with `wiretime setup --dpdk no="):
        runs.check(runs.Request(dpdk="no"))
    with pytest.raises(WiretimeError, match=r"unknown build of DPDK '\.\./x'"):
        runs.check(runs.Request(dpdk="../x"))
    with pytest.raises(WiretimeError, match="--dpdk x: iperf3 uses the kernel's stack, and no DPDK"):
        runs.check(runs.Request(app="iperf3", dpdk="x"))
    with pytest.raises(WiretimeError, match="--dpdk: of a guest, which --engine packet has none of"):
        variant = dpdk.Variant("x", Path("x"), "1", "2")
        with pytest.MonkeyPatch.context() as m:
            m.setattr(dpdk, "variant", lambda name: variant)
            runs.check(runs.Request(engine="packet", dpdk="x"))


def test_points_of_different_builds_are_different(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what was built, not by its name."""

    def key(**settings: Any) -> str:
        table: Mapping[str, Any] = {
            "study": {"name": "x"},
            "metrics": ["loss_percent"],
            "fixed": settings,
            "axes": {"seed": [1]},
        }
        one = plan.points(plan.parse(table, "x"), "x")[0]
        return point.key(one, runs.machine(one.request()))

    def known(text: str) -> None:
        monkeypatch.setattr(dpdk, "variant", lambda name: dpdk.Variant(name, Path(text), "1", "2"))

    usual = key()
    known("a")
    first = key(dpdk="mine")
    known("b")
    assert len({usual, first, key(dpdk="mine")}) == 3


def test_debians_sources_are_fetched_and_patched_by_its_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From an archive of the test's own, of a package that has a patch."""
    archive = tmp_path / "archive"
    tree = sources(tmp_path / "dpdk-1.2.3")
    with tarfile.open(tmp_path / "dpdk_1.2.3.orig.tar.xz", "w:xz") as tar:
        tar.add(tree, tree.name)
    for name, text in {
        "source/format": "3.0 (quilt)\n",
        "control": "Source: dpdk\nMaintainer: A <a@b.c>\n\nPackage: dpdk\nArchitecture: all\nDescription: x\n",
        "changelog": "dpdk (1.2.3-1) trixie; urgency=low\n\n  * x.\n\n -- A <a@b.c>  Mon, 01 Jan 2024 00:00:00 +0000\n",
        "patches/series": "one\n",
        "patches/one": "--- a/VERSION\n+++ b/VERSION\n@@ -1 +1 @@\n-1.2.3\n+1.2.3-patched\n",
    }.items():
        (tree / "debian" / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / "debian" / name).write_text(text)
    build = ["dpkg-source", "--no-preparation", "--before-build", str(tree)]
    subprocess.run(build, check=True, capture_output=True, cwd=tmp_path)
    subprocess.run(["dpkg-source", "--build", str(tree)], check=True, capture_output=True, cwd=tmp_path)
    pool, lists = archive / "pool", archive / "dists/trixie/main/source"
    pool.mkdir(parents=True)
    lists.mkdir(parents=True)
    for path in tmp_path.glob("dpdk_*"):
        path.rename(pool / path.name)
    scanned = subprocess.run(["dpkg-scansources", "pool"], check=True, capture_output=True, cwd=archive)
    (lists / "Sources").write_bytes(scanned.stdout)
    (archive / "dists/trixie/Release").write_text("Suite: trixie\nCodename: trixie\nComponents: main\n")
    # Nobody has signed it.
    (tmp_path / "apt.conf").write_text(
        'Acquire::AllowInsecureRepositories "true";\nAPT::Get::AllowUnauthenticated "true";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    monkeypatch.setattr(debian, "archive", lambda: archive.as_uri())
    (tmp_path / "work").mkdir()
    found = debian.source("dpdk", "trixie", tmp_path / "work", "1.2.3-1")
    assert (found / "VERSION").read_text() == "1.2.3-patched\n" and (found / "drivers/net/meson.build").exists()
    (tmp_path / "again").mkdir()
    with pytest.raises(WiretimeError, match=r"apt-get source \(dpdk=9, sources of trixie\): E: "):
        debian.source("dpdk", "trixie", tmp_path / "again", "9")


def test_a_native_build_runs_faster_than_debians(tmp_path: Path) -> None:
    """With completions of 64 bytes instead of 128 a ConnectX touches half the lines; the result says what ran."""
    if dpdk.missing("native"):
        source = os.environ.get(SOURCE)
        if source is None:
            pytest.skip(f"no registry has DPDK's sources: set {SOURCE} to build it, or `wiretime setup --dpdk native=`")
        dpdk.make("native", source)
    asked = ("testpmd", "--nic", "connectx-6dx", "--packet-size", "64", "--rate", "100%", "--duration", "500us")
    native = balanced(tmp_path / "a", *asked, "--dpdk", "native")
    usual = balanced(tmp_path / "b", *asked)
    assert native["versions"]["packages"]["dpdk"] == dpdk.variant("native").packages
    assert "dpdk" not in usual["versions"]["packages"]
    forwarded = [r["total"]["forwarded"] for r in (native, usual)]
    assert forwarded[0] > 1.1 * forwarded[1]
    assert apps.find("testpmd", Own(), "native").dpdk == "native"
