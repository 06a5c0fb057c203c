"""Archives that need no building: what is in them, and what is refused."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import wiretime
from wiretime import __version__, paths
from wiretime.errors import WiretimeError
from wiretime.setup import bundle, store


def test_a_release_has_what_is_built_its_licences_and_a_checksum(tmp_path: Path) -> None:
    if not (paths.REPOSITORY / ".git").exists():
        pytest.skip("an unpacked archive: git does not say what belongs to it")
    archive = tmp_path / "wiretime-x.tar"
    done = wiretime("setup", "--release", str(archive))
    assert done.returncode == 0, done.stderr
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert digest in done.stdout
    assert archive.with_name("wiretime-x.tar.sha256").read_text() == f"{digest}  wiretime-x.tar\n"
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        read = {n: (tar.extractfile(f"wiretime-x/bundle/{n}") or archive.open("rb")).read() for n in ("manifest.json",)}
        licences = (tar.extractfile("wiretime-x/bundle/licences.txt") or archive.open("rb")).read().decode()
    assert {"wiretime-x/run", "wiretime-x/bundle/libwiretime_engine.so", "wiretime-x/bundle/_native.abi3.so"} <= {
        *names
    }
    assert not any("/.git/" in name or "/wheels" in name for name in names)
    about = json.loads(read["manifest.json"])
    assert (about["wiretime"], about["machine"], about["python"]) == (__version__, platform.machine(), None)
    assert "crate hdrhistogram " in licences and "python typer " in licences
    assert sorted(p.name for p in tmp_path.iterdir()) == ["wiretime-x.tar", "wiretime-x.tar.sha256"]


def test_a_wheel_runs_without_a_checkout(tmp_path: Path) -> None:
    """Installed elsewhere, it finds its own data and engine, and the guest that this checkout has made."""
    if not (paths.REPOSITORY / ".git").exists():
        pytest.skip("an unpacked archive: git does not say what belongs to it")
    done = wiretime("setup", "--wheel", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run(["sha256sum", "--check", f"{wheel.name}.sha256"], cwd=tmp_path, check=True)
    with zipfile.ZipFile(wheel) as packed:
        (named,) = (name for name in packed.namelist() if name.endswith("/licenses/licences.txt"))
        assert b"crate serde " in packed.read(named)
    assert wheel.name.startswith(f"wiretime-{__version__}-") and str(wheel) in done.stdout.replace("\n", "")
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*pip, str(wheel)], check=True)
    environment = {n: v for n, v in os.environ.items() if n != "WIRETIME_ENGINE"} | {"PYTHONPATH": str(site)}

    def command(*words: str) -> str:
        done = subprocess.run(words, cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    says = "import wiretime.paths as p; print(p.REPOSITORY, p.engine(), sep='\\n')"
    tree = site / "wiretime" / paths.TREE.name
    assert command(sys.executable, "-c", says).split() == [str(tree), str(tree / "libwiretime_engine.so")]
    main = (sys.executable, "-m", "wiretime")
    command(*main, "setup")
    assert "256 B at 5 Gb/s" in command(*main, "run", "testpmd", "--packet-size", "256", "--rate", "5Gbps")
    assert "cargo" not in command(*main, "doctor")
    assert not any(elsewhere.iterdir())


def test_a_wheel_that_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    if not (paths.REPOSITORY / ".git").exists():
        pytest.skip("an unpacked archive: git does not say what belongs to it")
    done = wiretime("setup", "--wheel", str(tmp_path / "nowhere"))
    assert done.returncode == 2 and "nowhere/wiretime-" in done.stderr and "No such file or directory" in done.stderr


def test_a_name_that_says_no_kind_of_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WiretimeError, match=r"must end in \.tar, \.tar\.gz or \.tar\.xz"):
        bundle.write(tmp_path / "wiretime.zip", whole=False)


def test_devices_and_pipes_are_left_out(tmp_path: Path) -> None:
    """Copied, some have no end."""
    source = tmp_path / "source"
    (source / "dev").mkdir(parents=True)
    os.mkfifo(source / "dev/pipe")
    (source / "dev/file").write_text("x")
    (source / "dev/link").symlink_to("pipe")
    store.copy(source, tmp_path / "target")
    assert sorted(p.name for p in (tmp_path / "target/dev").iterdir()) == ["file", "link"]


def test_a_disk_that_is_full_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path, to: Path, **__: object) -> None:
        raise shutil.Error([("from", f"{to}/file", f"[Errno {errno.ENOSPC}] No space left on device: 'file'")])

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(OSError, match="No space left on device") as found:
        store.copy(tmp_path, tmp_path / "target")
    assert found.value.errno == errno.ENOSPC and found.value.filename == f"{tmp_path}/target/file"


def test_a_bundle_for_another_processor_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "folder", lambda: tmp_path)
    assert not bundle.unpack()
    (tmp_path / paths.engine().name).touch()
    (tmp_path / "manifest.json").write_text('{"machine": "vax"}')
    with pytest.raises(WiretimeError, match="is for vax, this is "):
        bundle.unpack()


def test_a_damaged_part_of_a_bundle_is_not_taken(tmp_path: Path) -> None:
    part, work = tmp_path / "part", tmp_path / "work"
    part.mkdir()
    work.mkdir()
    (part / "file").write_text("whole")
    size, digest = 5, store.file_digest(part / "file")
    (part / "manifest.json").write_text(json.dumps({"about": {"a": 1}, "files": {"file": [size, 0, digest]}}))
    assert bundle._copied(part, work) == {"a": 1}
    assert (work / "file").read_text() == "whole"
    (part / "file").write_text("other")
    with pytest.raises(WiretimeError, match="is damaged: unpack the archive anew"):
        bundle._copied(part, work)


SPAWNS = """
import multiprocessing

def nothing():
    pass

def main():
    process = multiprocessing.get_context("spawn").Process(target=nothing)
    process.start()
    process.join()
    print("ended with", process.exitcode)
"""


def test_the_command_of_a_bundle_can_start_processes(tmp_path: Path) -> None:
    """They read the script again, which must not do its work again: sweeps, explanations and the lab start some."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "_native.abi3.so").write_bytes(b"")
    package = tmp_path / "python" / "wiretime"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(SPAWNS)
    script = f". {paths.REPOSITORY}/scripts/prepare.sh; bundled_extension"
    subprocess.run(["sh", "-ec", script], cwd=tmp_path, check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(tmp_path / ".venv/bin/wiretime")], capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.stdout == "ended with 0\n", done.stderr
