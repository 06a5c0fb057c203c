"""The command line's words and errors; nothing here boots a guest."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from conftest import WIRETIME, wiretime
from rich.console import Console
from wiretime import explain, paths, platforms
from wiretime.cli.help import SECTIONS
from wiretime.cli.request import request_of
from wiretime.errors import WiretimeError
from wiretime.request import Request
from wiretime.setup import store
from wiretime.tables import of_numbers

BAD = [
    (["run", "testpmd", "--platform", "amper-altra"], "unknown platform 'amper-altra'; did you mean ampere-altra?"),
    (["run", "tespmd"], "unknown application 'tespmd'; did you mean testpmd?"),
    (
        ["run", "testpmd", "--set", "core.rob_entris=3"],
        "unknown parameter 'core.rob_entris'; did you mean core.rob_entries?",
    ),
    (["run", "testpmd", "--set", "core.rob_entries"], "--set core.rob_entries: must be key=value"),
    (["run", "testpmd", "--set", "core.rob_entries=many"], "must be a whole number from 4 to 1024 instructions"),
    (["run", "testpmd", "--set", "core.rob_entries=1"], "core.rob_entries is 1: must be from 4 to 1024 instructions"),
    (["run", "testpmd", "--set", "llc.dca_ways=17"], "llc.dca_ways is 17: at most llc.ways, 16"),
    (["run", "testpmd", "--set", "l2.size=32KiB"], "it includes the L1D"),
    (["run", "testpmd", "--set", "l2.size=1000KiB"], "needs a power-of-two number of sets"),
    (["run", "testpmd", "--set", "llc.hashed=true", "--set", "llc.size=1000001B"], "needs a whole number of sets"),
    (["run", "testpmd", "--set", "l1d.mshrs=0"], "l1d.mshrs is 0: must be from 1 to 1024 misses"),
    (["run", "testpmd", "--set", "core.frequency=3"], "has no unit; allowed: Hz, kHz, MHz, GHz"),
    (["run", "testpmd", "--set", "core.frequency=3GB"], "unknown unit"),
    (["run", "testpmd", "--set", "dram.channels=3"], "dram.channels is 3: must be a power of two"),
    (["run", "testpmd", "--set", "system.quantum=2ms"], "system.quantum is 2ms: allowed are 1ns to 1ms"),
    (["run", "testpmd", "--set", "core.kind=outoforder"], "unknown core.kind 'outoforder'; did you mean out-of-order?"),
    (["run", "testpmd", "--set", "iommu.enabled=yes"], "--set iommu.enabled=yes: must be true or false"),
    (["run", "testpmd", "--set", "l2.inclusion=exclusive"], "must be inclusive or non-inclusive of the L1D"),
    (["run", "testpmd", "--set", "llc.size=512KiB", "--set", "llc.inclusion=inclusive"], "it includes the L2"),
    (["run", "testpmd", "--set", "core.predictor.btb_entries=6000"], "needs a power-of-two number of sets"),
    (["run", "testpmd", "--set", "core.tlb.l2_ways=3"], "core.tlb.l2_entries is 1280"),
    (["run", "testpmd", "--set", "core.timing.load.unit=vector"], "loads execute in the load unit"),
    (["run", "testpmd", "--set", "core.timing.store.unit=load"], "stores execute in the store unit"),
    (["run", "testpmd", "--set", "l1d.prefetcher.degree=8"], "at most l1d.prefetcher.distance, 4"),
    (["run", "testpmd", "--set", "l1i.prefetcher.kind=stride"], "instructions have none"),
    (["run", "testpmd", "--set", "l1i.prefetcher.kind=spatial"], "instructions have none"),
    (["run", "testpmd", "--set", "l2.prefetcher.entries=300"], "at most 256 streams"),
    (["run", "testpmd", "--platform", "in-order", "--set", "l2.prefetcher.kind=spatial"], "at least 2 lines"),
    (["run", "testpmd", "--set", "l2.prefetcher.1.kind=spatial"], "there are 1, counted from 0"),
    (["run", "testpmd", "--set", "dram.bank_groups=32"], "must be from 1 to 16 groups"),
    (["run", "testpmd", "--set", "dram.banks=2"], "dram.bank_groups is 4: at most dram.banks, 2"),
    (["run", "testpmd", "--set", "dram=ddr5-4801"], "unknown DRAM grade 'ddr5-4801'; did you mean ddr5-4800?"),
    (["run", "testpmd", "--set", "dram.bus_width=12"], "must be a multiple of 8 bits"),
    (["run", "testpmd", "--set", "dram.t_rfc=8us"], "must be below dram.t_refi"),
    (["run", "testpmd", "--set", "dram.row_size=3KiB"], "dram.row_size is 3KiB: must be a power of two"),
    (["run", "testpmd", "--set", "iommu.second_iotlb_entries=12"], "must be below 8 or a multiple of its 8 ways"),
    (["run", "testpmd", "--set", "pcie.posted_data=8"], "must hold pcie.max_payload"),
    (["run", "testpmd", "--set", "slot.lanes=3"], "slot.lanes is 3: must be a power of two"),
    (["run", "testpmd", "--set", "nic.descriptor_prefetch=65"], "at most nic.descriptor_cache, 64"),
    (["run", "testpmd", "--set", "nic.rx_fifo=8KiB"], "nic.rx_fifo is 8KiB: at least 16KiB"),
    (
        ["run", "testpmd", "--set", "io.mmio_write_latency=0ns", "--set", "pcie.latency=0ns"],
        "would reach the NIC in no time",
    ),
    (["run", "testpmd", "--set", "system.memory=100MiB"], "at least 128MiB"),
    (["run", "testpmd", "--set", "system.boot_instruction_time=1ps"], "at least 10ps"),
    (["run", "testpmd", "--interval", "1ns"], "more than 10000 steps"),
    (["run", "testpmd", "--interval", "10us"], "--interval: needs --out DIR or --json"),
    (["run", "testpmd", "--ports", "0"], "--ports 0: must be from 1 to "),
    (["run", "testpmd", "--set", "nic.qdma.queues=4"], "this machine has no qdma: it is of another card"),
    (["run", "testpmd", "--set", "core.fetch_width=5"], "core.fetch_width is 5: must be a power of two"),
    (["run", "testpmd", "--engine", "packet", "--nic", "82599", "--boot"], "--boot: of a guest"),
    (["msb", "testpmd", "--ndr-pdr", "--loss", "5"], "--loss: not with --ndr-pdr"),
    (["advise", "testpmd", "--loss", "-1"], "--loss -1: allowed are 0 to below 100 %"),
    (["msb", "testpmd", "--arrivals", "ramp:10%:1ms"], "--arrivals ramp:10%:1ms: not of a search, whose loads last"),
    (["run", "memcached", "--packet-size", "1500"], "--packet-size: not with memcached, whose requests have lengths"),
    (["advise", "memcached_dpdk"], "advise: memcached_dpdk answers requests of a store that has to be filled first"),
    (["model", "rxptx", "--app-args=--interval=200"], "a model of a program: unknown argument '--interval'"),
    (["model", "testpmd", "--set", "core.frequency=2GHz"], "core as its file has it, not another: core.frequency"),
    (["model", "testpmd", "--kernel-args", "quiet"], "--kernel-args: of a guest"),
    (["sweep", "experiments/dca.toml", "--cluster-set", "a=1"], "--cluster-set: only with --cluster"),
    (["sweep", "experiments/dca.toml", "--cluster", "local", "--jobs", "2"], "--jobs: not with --cluster local"),
    (["uncertainty", "experiments/dca.toml", "--seed", "-1"], "--seed -1: at least 0"),
    (["stats", "/proc/nothing"], "/proc/nothing"),
    (["run", "testpmd", "--profile"], "--profile: needs --out DIR"),
    (["profile", "/proc/nothing"], "no profile there"),
    (["diff", "/etc/hostname", "/etc/hostname"], "/etc/hostname: is not JSON"),
    (["platforms", "diff", "ampere-altra", "altra"], "unknown platform 'altra'"),
    (["run", "testpmd", "--set", "system.cores=1"], "testpmd needs at least 2"),
    (["run", "testpmd", "--packet-size", "63"], "--packet-size 63: allowed are 64 to 9000 B"),
    (["run", "testpmd", "--packet-size", "9001"], "--packet-size 9001: allowed are 64 to 9000 B"),
    (["run", "testpmd", "--rate", "0Gbps"], '--rate: rate "0Gbps" must be above zero'),
    (["run", "testpmd", "--rate=-1Gbps"], '--rate: rate "-1Gbps"'),
    (["run", "testpmd", "--cores", "2", "--set", "system.cores=8"], "--cores 2: not with --set system.cores"),
    (["run", "testpmd", "--engine", "packet", "--model", "nofile.toml"], "nofile.toml: no such file"),
    (["run", "testpmd", "--rate", ""], "--rate: is empty"),
    (["run", "testpmd", "--duration", ""], "--duration: is empty"),
    (["run", "testpmd", "--replay", "/dev/null"], "--replay /dev/null: is no regular file"),
    (["run", "iperf3", "--packet-size", "64"], "--packet-size: not with iperf3"),
    (["run", "iperf3", "--arrivals", "poisson"], "--arrivals: not with iperf3"),
    (["msb", "testpmd", "--json", "-"], "--json -: name a file"),
    (
        ["advise", "testpmd", "--engine", "packet", "--nic", "82599", "--app-args=--forward-mode=txonly"],
        "advise: testpmd sends by itself here",
    ),
    (["stats", "x" * 300], "File name too long"),
    (["run", "testpmd", "--rate", "40"], '--rate: rate "40" has no unit'),
    (["run", "testpmd", "--rate", "101Gbps"], "--rate 101Gbps: above the link's 100Gbps"),
    (["run", "testpmd", "--duration", "0ms"], "--duration 0: must be above zero"),
    (["run", "testpmd", "--duration", "fast"], '--duration: duration "fast"'),
    (["run", "testpmd", "--timestamp-offset", "50"], None),
    (
        ["run", "testpmd", "--packet-size", "64", "--timestamp-offset", "43"],
        "--timestamp-offset 43: allowed are 42 to 42",
    ),
    (["run", "testpmd", "--seed=-1"], "--seed -1"),
    (["run", "testpmd", "--app-args", "'"], "--app-args"),
    (["run", "testpmd", "--out", "/proc/nothing"], "--out /proc/nothing"),
    (["platforms", "show", "altra"], "unknown platform 'altra'"),
]


@pytest.mark.parametrize(("args", "message"), [case for case in BAD if case[1]])
def test_bad_input_is_one_line_and_status_2(args: list[str], message: str) -> None:
    done = wiretime(*args)
    assert done.returncode == 2, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert message in lines[0]
    assert done.stdout == ""


def test_platform_files_are_checked(tmp_path: Path) -> None:
    text = platforms.commented("ampere-altra")
    for change, message in [
        (("rob_entries = 128", "rob_entrys = 128"), "core.rob_entrys"),
        (("rob_entries = 128", ""), "parameter core.rob_entries is missing"),
        (("rob_entries = 128", 'rob_entries = "128"'), "core.rob_entries is '128': must be a whole number"),
        (('frequency = "3GHz"', "frequency = 3"), "core.frequency is 3: must be text with a unit"),
        (('frequency = "3GHz"', 'frequency = "3 gigahertz"'), "core.frequency: "),
        (("rob_entries = 128", "rob_entries = "), "ampere.toml"),
        (('name = "ampere-altra"', "name = 5"), "name is 5: must be text with a unit"),
        (("[[link]]", "[link]"), "link must be a list of tables: [[link]]"),
    ]:
        path = tmp_path / "ampere.toml"
        path.write_text(text.replace(*change, 1))
        done = wiretime("run", "testpmd", "--platform", str(path))
        assert done.returncode == 2
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


# Together they have every parameter: platforms, and what is changed of them.
MACHINES = {"ampere-altra": (), "xeon-8168": (), "neoverse-n1": ("nic=connectx-6dx",)}


def test_every_parameter_can_be_set_and_has_unit_and_meaning() -> None:
    bases = {name: platforms.load(name, changes) for name, changes in MACHINES.items()}
    values = {name: dict(platforms.flatten(base)) for name, base in bases.items()}
    for key, node in platforms.parameters():
        name = next(name for name in MACHINES if key in values[name])
        value = values[name][key]
        word = str(value).lower() if isinstance(value, bool) else value
        assert platforms.load(name, [*MACHINES[name], f"{key}={word}"]) == bases[name]
        assert node.get("description"), key
        if node.get("type") == "integer":
            assert {"unit", "minimum", "maximum"} <= set(node), key


def test_a_dram_grade_replaces_all_timings() -> None:
    for grade in platforms.grades():
        changed = platforms.load("ampere-altra", [f"dram={grade}", "dram.channels=4"])["dram"]
        assert changed["channels"] == 4
    assert changed["bus_width"] == 16
    assert platforms.load("ampere-altra", ["dram=ddr4-3200"]) == platforms.load("ampere-altra")


def test_every_value_of_a_platform_names_its_source() -> None:
    for name in (*platforms.names(), *platforms.card_names()):
        section_comment = False
        for line in platforms.commented(name).splitlines():
            if line.startswith("["):
                section_comment = "#" in line
            elif "=" in line and not line.startswith("#"):
                key = line.split("=")[0].strip()
                assert "#" in line or section_comment or key in {"name", "description", "rate", "cores", "memory"}, line


def test_show_prints_the_whole_machine() -> None:
    shown = [wiretime("platforms", "show", name) for name in ("ampere-altra", "xeon-8168", *platforms.card_names())]
    assert all(done.returncode == 0 for done in shown)
    for key, _ in platforms.parameters():
        assert any(key.split(".")[-1] in done.stdout for done in shown)
    assert "ampere-altra" in wiretime("platforms").stdout


def test_a_damaged_cache_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    done = wiretime("run", "testpmd", env={"WIRETIME_CACHE": str(folder), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 2
    assert "run `wiretime setup`" in done.stderr


def test_damage_of_equal_size_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIRETIME_CACHE", str(tmp_path))
    made = []

    def make(folder: Path) -> dict[str, Any]:
        (folder / "part").write_bytes(b"sound")
        made.append(folder)
        return {}

    part = store.entry("thing", "0123", make) / "part"
    store.entry("thing", "0123", make)
    os.utime(part)
    store.entry("thing", "0123", make)
    assert len(made) == 1, "touched, but what it was"
    part.write_bytes(b"wrong")
    with pytest.raises(WiretimeError, match="damaged"):
        store.entry("thing", "0123", make, make_missing=False)
    assert (store.entry("thing", "0123", make) / "part").read_bytes() == b"sound"
    assert len(made) == 2


def test_what_other_checkouts_use_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two versions that share a cache do not make each other's guest anew in turn; what nobody uses goes."""
    monkeypatch.setenv("WIRETIME_CACHE", str(tmp_path))
    for at, key in enumerate(("old", "mine", "theirs", "next")):
        folder = store.entry("thing", key, lambda _: {})
        os.utime(folder / store.MANIFEST, (at, at))
    store.entry("thing", "mine", lambda _: {}, make_missing=False)
    store.entry("thing", "newest", lambda _: {})
    assert {p.name for p in tmp_path.glob("thing-*")} == {"thing-mine", "thing-next", "thing-newest"}


def test_the_schema_fits_the_platforms() -> None:
    import jsonschema

    for name in platforms.names():
        jsonschema.validate(json.loads(json.dumps(platforms.load(name))), dict(platforms.schema()))


def test_options_have_the_defaults_of_a_request() -> None:
    assert request_of("testpmd") == Request()


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((paths.REPOSITORY / "pyproject.toml").read_text())["project"]
    done = wiretime("--version")
    assert done.returncode == 0 and done.stdout == f"wiretime {project['version']}\n"


def test_help_has_every_option_once_and_by_what_it_is_about() -> None:
    parts: dict[str, list[str]] = {}
    for line in wiretime("run", "--help").stdout.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            part = parts.setdefault(line[:-1], [])
        elif line.startswith("  --"):
            part.append(line.split()[0])
    assert list(parts) == ["Arguments", *SECTIONS], "run has no option of no section"
    shown = [option for part in parts.values() for option in part]
    assert len(shown) == len(set(shown)) == sum(map(len, SECTIONS.values()))
    assert "--packet-size" in parts["Load"] and "--set" in parts["Machine"] and "--help" in parts["Other"]
    own = wiretime("msb", "--help").stdout.split("Load:")[0]
    assert "--loss" in own and "--packet-sizes" in own and "--arrivals" not in own


RUN = ("run", "testpmd", "--engine", "packet", "--nic", "82599", "--packet-size", "64", "--duration", "200us")


def test_a_folder_that_no_run_has_left_is_not_cleared(tmp_path: Path) -> None:
    mine = tmp_path / "trace.json"
    mine.write_text("{}")
    done = wiretime(*RUN, "--out", str(tmp_path))
    assert done.returncode == 2 and f"--out {tmp_path}: holds trace.json and no result.json" in done.stderr
    assert mine.read_text() == "{}"


def test_the_trace_that_is_played_is_not_removed(tmp_path: Path) -> None:
    done = wiretime(*RUN, "--rate", "1Gbps", "--capture", "all", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    trace = tmp_path / "wire.pcapng"
    again = (*RUN[:6], "--replay", str(trace), "--out")
    done = wiretime(*again, str(tmp_path))
    assert done.returncode == 2 and "holds wire.pcapng, which is to be played" in done.stderr and trace.is_file()
    done = wiretime(*again, str(tmp_path / "played"))
    assert done.returncode == 0, done.stderr


def test_what_only_rings_took_in_is_told_beside_what_is_forwarded(tmp_path: Path) -> None:
    """A FIFO of 1 MiB takes in more than the cores do for as long as a run lasts: all of it leaves, later."""
    done = wiretime(*RUN, "--rate", "24Gbps", "--warmup", "100us")
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "left within the measurement; the others waited at its end" in rows["in"]
    done = wiretime(*RUN, "--rate", "10Gbps")
    assert "left within" not in done.stdout


def test_closed_streams_narrow_screens_and_other_locales(tmp_path: Path) -> None:
    assert wiretime(*RUN, "--rate", "10Gbps", "--out", str(tmp_path)).returncode == 0
    words = " ".join([*WIRETIME, "stats", str(tmp_path)])
    for command in (f"{words} >&-", f"COLUMNS=40 {words}", f"PYTHONIOENCODING=latin-1 {words}"):
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, encoding="latin-1", check=False)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    # Explanations give way on a narrow screen, figures do not.
    table = of_numbers("", "name", "figure", "what it is")
    table.add_row("l1_dcache_load_misses", "1565001234", "a long explanation of what it is that has been counted")
    told = Console(width=40, file=StringIO())
    told.print(table)
    assert isinstance(told.file, StringIO) and "1565001234" in told.file.getvalue()
    # An explanation takes the file as the other commands do; fewer rows than one are refused.
    assert wiretime("explain", "--counters", str(tmp_path / "result.json")).returncode == 0
    assert explain.asked(tmp_path / "result.json") == explain.asked(tmp_path)
    assert wiretime("diff", str(tmp_path), str(tmp_path), "--rows=-5").returncode == 2


def test_a_chart_has_no_colours_in_a_pipe() -> None:
    done = wiretime("msb", *RUN[1:6], "--packet-sizes", "1518")
    assert done.returncode == 0 and "\x1b" not in done.stdout, done.stderr
