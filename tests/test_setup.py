"""Set-up on other machines than this one: what it asks for, what it finds, and what a failure leaves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from wiretime import apps, doctor, paths, platforms
from wiretime.errors import WiretimeError
from wiretime.setup import build, debian, guest, parts, rust, store

PREPARE = paths.REPOSITORY / "scripts/prepare.sh"


def test_an_update_of_the_lock_file_that_fails_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What had been made by it stays in use."""
    lock = tmp_path / "wiretime.lock"
    lock.write_text(json.dumps({"qemu": {"qemu": ["1", "x"]}}))
    monkeypatch.setattr(debian, "LOCK_FILE", lock)
    monkeypatch.setenv("WIRETIME_CACHE", str(tmp_path / "cache"))
    fails = True

    def make(folder: Path, *, update_lock: bool) -> dict[str, Any]:
        debian.check("qemu", [debian.Package("qemu", "2", "y")], update=update_lock)
        if fails and update_lock:
            raise WiretimeError("it is another QEMU")
        return {}

    part = parts.Part("qemu", "a part", lambda: store.digest(lock.read_text()), make)
    was = part.folder(make_missing=True)
    with pytest.raises(WiretimeError, match="another QEMU"):
        part.folder(make_missing=True, update_lock=True)
    assert debian.lock()["qemu"]["qemu"] == ["1", "x"] and part.folder() == was
    fails = False
    now = part.folder(make_missing=True, update_lock=True)
    assert debian.lock()["qemu"]["qemu"] == ["2", "y"] and part.folder() == now != was


def test_a_package_that_is_another_under_the_same_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "wiretime.lock"
    lock.write_text(json.dumps({"qemu": {"qemu": ["1", "x"]}}))
    monkeypatch.setattr(debian, "LOCK_FILE", lock)
    with pytest.raises(WiretimeError, match="qemu: qemu 1 is not the package that the lock file means"):
        debian.check("qemu", [debian.Package("qemu", "1", "y")], update=False)
    assert debian.check("qemu", [debian.Package("qemu", "2", "y")], update=False) == [
        "qemu: qemu is 2, the lock file has 1"
    ]


def test_the_guest_is_what_it_is_built_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an editor has open, and what was built for a real machine, is no other guest."""
    shutil.copytree(paths.GUEST, tmp_path / "guest")
    monkeypatch.setattr(guest, "GUEST", tmp_path / "guest")
    before = guest.key()
    (tmp_path / "guest/apps/.port.c.swp").touch()
    (tmp_path / "guest/apps/build").mkdir()
    (tmp_path / "guest/apps/build/touchfwd").touch()
    assert guest.key() == before
    (tmp_path / "guest/apps/port.c").write_text("")
    assert guest.key() != before


def test_sources_that_were_changed_do_not_run_on_a_releases_engine(tmp_path: Path) -> None:
    for name in ("Cargo.toml", "Cargo.lock", "pyproject.toml", "crates/a.rs"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle/_native.abi3.so").touch()
    key = _shell("sources_key", tmp_path).stdout.strip()
    (tmp_path / "bundle/manifest.json").write_text(json.dumps({"sources": key}))
    said = "the sources were changed, and the engine in bundle/ was built from them as they were"
    key = "$({ cat requirements.lock; pwd -P; python3 -V; } | sha256sum | cut -c1-16)"
    made = f"touch requirements.lock; mkdir .venv; touch .venv/.requirements-{key}"
    prepared = f"{made}; bundled_extension() {{ echo taken; }}; python_environment"
    done = _shell(prepared, tmp_path)
    assert done.returncode == 0 and done.stdout == "taken\n", done.stderr
    shutil.rmtree(tmp_path / ".venv")
    (tmp_path / "crates/a.rs").write_text("another")
    done = _shell(prepared, tmp_path)
    assert done.returncode == 2 and said in done.stderr


def test_a_relative_cache_is_where_the_command_began(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WIRETIME_CACHE", "here")
    assert paths.cache() == tmp_path / "here"


def _command(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_an_archive_of_somebody_else_is_not_debians(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says = r"'Oracle http://example.org/virtualbox/debian\nUbuntu http://example.org/ubuntu\n'"
    _command(tmp_path, "apt-get", f"printf {says}")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv(debian.VARIABLE, raising=False)
    debian._of_apt.cache_clear()
    try:
        assert debian.archive() == debian.ARCHIVE
        _command(tmp_path, "apt-get", f"printf {says}; echo Debian http://mirror.example.org/debian/")
        debian._of_apt.cache_clear()
        assert debian.archive() == "http://mirror.example.org/debian"
    finally:
        debian._of_apt.cache_clear()


def _rust(folder: Path, minor: int) -> Path:
    _command(folder, "rustc", f"echo 'rustc 1.{minor}.0 (00000000 2026-01-01)'")
    _command(folder, "cargo", "exit 0")
    return folder


def test_a_rust_beside_an_old_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    oldest = rust.oldest()
    minimum = next(line for line in PREPARE.read_text().splitlines() if line.startswith("RUST_MINIMUM="))
    assert minimum == f"RUST_MINIMUM={oldest}"
    own = _rust(tmp_path / "own", oldest - 10)
    monkeypatch.setenv("PATH", str(own))
    monkeypatch.setattr(rust, "BESIDE", tmp_path / "lib")
    with pytest.raises(WiretimeError, match=rf"Rust 1\.{oldest} or newer is needed, 1\.{oldest - 10} is too old"):
        rust.search_path()
    for minor in (oldest - 1, oldest + 3, oldest + 1):
        _rust(tmp_path / f"lib/rust-1.{minor}/bin", minor)
    assert rust.search_path() == f"{tmp_path}/lib/rust-1.{oldest + 1}/bin{os.pathsep}{own}"
    _rust(own, oldest)
    assert rust.search_path() == str(own)
    (own / "cargo").unlink()
    shutil.rmtree(tmp_path / "lib")
    with pytest.raises(WiretimeError, match="it is missing"):
        rust.search_path()


def test_the_doctor_names_what_set_up_still_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it where nothing is there; where all has been made, as in a container, only what runs need."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("WIRETIME_ENGINE", str(PREPARE))
    assert {name for name, ok, _ in doctor._tools(()) if not ok} == {"cpio"}
    monkeypatch.setenv("WIRETIME_ENGINE", str(tmp_path / "none.so"))
    every = [part.name for part in parts.PARTS]
    notes = {name: note for name, ok, note in doctor._tools(every) if not ok}
    assert {"cpio", "mmdebstrap", "make", "pkg-config", "cargo", "cc"} <= set(notes)
    assert notes["pkg-config"] == "missing: apt-get install pkgconf"


def test_a_path_with_a_blank_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "my programs"
    folder.mkdir()
    with pytest.raises(WiretimeError, match="my programs: a path with a blank in it"):
        build.make(tmp_path, folder)


def _shell(script: str, folder: Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path or os.environ["PATH"]}
    words = ["/bin/sh", "-ec", f". {PREPARE}; {script}"]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def test_preparing_refuses_what_cannot_work(tmp_path: Path) -> None:
    blank = tmp_path / "a folder"
    blank.mkdir()
    done = _shell("prepare", blank)
    assert done.returncode == 2 and "a path with a blank in it" in done.stderr
    _command(tmp_path / "bin", "uname", "echo sparc64")
    done = _shell("prepare", tmp_path, f"{tmp_path}/bin:{os.environ['PATH']}")
    assert done.returncode == 2 and "needs an amd64 host, this is sparc64" in done.stderr


def test_without_root_it_says_what_to_ask_for(tmp_path: Path) -> None:
    """Nothing but what the script itself calls is there: no sudo."""
    there = tmp_path / "bin"
    _command(there, "id", "echo 1000")
    _command(there, "apt-get", "exit 1")
    for name in ("tr", "grep", "sed", "sort"):
        (there / name).symlink_to(str(shutil.which(name)))
    done = _shell("system_packages", tmp_path, str(there))
    assert done.returncode == 2 and "needs root or sudo, or somebody who installs: python3" in done.stderr
    assert "mmdebstrap" in done.stderr and "cpio" in done.stderr


def test_an_environment_that_was_copied_is_made_anew(tmp_path: Path) -> None:
    """It holds its own path: copied, it would run the code of the folder that it comes from."""
    for name in ("one", "two"):
        (tmp_path / name / "scripts").mkdir(parents=True)
        (tmp_path / name / "requirements.lock").write_text("")
        (tmp_path / name / "bundle").mkdir()
        (tmp_path / name / "bundle/_native.abi3.so").write_text("x")
        (tmp_path / name / "bundle/manifest.json").write_text('{"sources": "k"}')
        (tmp_path / name / "python/wiretime").mkdir(parents=True)
    # Nothing is to be installed: the environment's own pip is not asked.
    made = f"{PREPARE.read_text()}\n"
    (tmp_path / "prepare.sh").write_text(made.replace(".venv/bin/pip install", "true"))
    script = ["/bin/sh", "-ec", f". {tmp_path}/prepare.sh; sources_key() {{ echo k; }}; python_environment"]

    def run(folder: Path) -> str:
        return subprocess.run(script, cwd=folder, check=True, capture_output=True, text=True).stderr

    one, two = tmp_path / "one", tmp_path / "two"
    assert "making the Python environment" in run(one) and run(one) == ""
    shutil.rmtree(two)
    shutil.copytree(one, two, symlinks=True)
    assert "making the Python environment" in run(two) and run(two) == ""
    assert (two / ".venv/bin/wiretime").read_text().startswith(f"#!{two}/.venv/bin/python\n")


def test_an_extension_that_runs_is_replaced_and_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    package = tmp_path / "python/wiretime"
    package.mkdir(parents=True)
    subprocess.run(["python3", "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)
    inodes = []
    for text in ("one", "one", "two"):
        (tmp_path / "bundle/_native.abi3.so").write_text(text)
        assert _shell("bundled_extension", tmp_path).returncode == 0
        assert (package / "_native.abi3.so").read_text() == text
        inodes.append((package / "_native.abi3.so").stat().st_ino)
    assert inodes[0] == inodes[1] != inodes[2] and len(list(package.iterdir())) == 1


def test_a_store_gets_the_memory_that_its_items_take() -> None:
    app = apps.get("memcached_dpdk")
    least = 200_000 * 4096 >> 20

    def memory(*words: str) -> int:
        return app.memory(apps.Setup(platforms.load("ampere-altra"), 1, 64, {}, words))

    assert memory() == memory("--items=65536", "--item-size=2048") == memory("--items=many")
    assert memory("--items", "200000", "--item-size=4096") > least > memory()
    # Each core may be replacing some.
    many = apps.Setup(platforms.load("ampere-altra", ["system.cores=17"]), 16, 64, {}, ("--item-size=8192",))
    assert app.memory(many) > 1200


def test_more_queues_than_a_program_takes_are_refused_before_it_starts() -> None:
    p = platforms.load("epyc-9654", ["nic.qdma.queues=128"])
    app = apps.get("qdmafwd")
    assert apps.queues(app, p, 64) == 64 and apps.queues(app, p, 128, modelled=True) == 128
    with pytest.raises(WiretimeError, match="--queues 128: qdmafwd takes 64 at most"):
        apps.queues(app, p, 128)
