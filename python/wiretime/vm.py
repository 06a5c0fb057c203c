"""One QEMU process with the engine inside: started, listened to, and never left behind.

Configuration, initramfs, the run's own files and console are anonymous memory, passed by descriptor. The devices'
sockets have names only until QEMU has connected to them, a fraction of a second. So nothing stays behind whatever ends
the run.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import wiretime._native as _native
from wiretime import boots, memory, paths, platforms, scratch
from wiretime.errors import GuestError, WiretimeError
from wiretime.setup import dpdk as builds
from wiretime.setup import guest, qemu
from wiretime.setup.architecture import BOARD, REPEATABLE
from wiretime.setup.parts import GUEST, QEMU

# Guests of this process that run now; whether all of them are being ended, and none is to be started.
_running: set[subprocess.Popen[bytes]] = set()
_ending = threading.Event()
# Looked up before any thread is there: a process that has been forked off may not load anything.
_prctl = ctypes.CDLL(None).prctl

Item = TypeVar("Item")
Made = TypeVar("Made")
Progress = Callable[[Mapping[str, Any]], None]

# The result of a trial to the next one's settings, or None where none follows.
NextTrial = Callable[[dict[str, Any]], dict[str, Any] | None]

# Of no use to what runs in the guest, and long: self-tests of random numbers, keys, tracing, BPF.
UNWANTED = (
    "jent_mod_init",
    "init_kprobe_trace",
    "load_system_certificate_list",
    "bpf_tcp_ca_kfunc_init",
    "bpf_dummy_struct_ops_init",
    "blake2s_mod_init",
)
KERNEL_ARGUMENTS = (
    "console=ttyAMA0",
    "nokaslr",
    "norandmaps",
    "quiet",
    "loglevel=4",
    "cryptomgr.notests",
    "initcall_blacklist=" + ",".join(UNWANTED),
)
CONSOLE_TAIL = 25
PR_SET_PDEATHSIG = 1


@dataclass
class Guest:
    """What runs in the guest: settings of ``/run.conf``, texts and files by path, kernel arguments.

    ``preparation`` is what its shell does first.

    ``archives`` are those of the image that it needs beside the base, ``dpdk`` the build of DPDK that is in them.
    """

    settings: Mapping[str, str]
    texts: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    kernel_arguments: Sequence[str] = ()
    archives: Sequence[str] = ()
    dpdk: str = builds.DEBIAN
    preparation: str = ""

    @property
    def images(self) -> list[Path]:
        """The files of the archives that it is made of."""
        return [builds.archive(name, self.dpdk) for name in ("base", *self.archives)]

    @cached_property
    def initramfs(self) -> bytes:
        """The archives that it is made of."""
        return b"".join(image.read_bytes() for image in self.images)

    @cached_property
    def own(self) -> bytes:
        """The run's own archive: its settings, texts and files."""
        with scratch.folder() as folder:
            stage = Path(folder)
            text = "".join(f"{key}={quote(value)}\n" for key, value in self.settings.items())
            (stage / "run.conf").write_text(text + self.preparation)
            for target, content in self.texts.items():
                (stage / target).write_text(content)
            for target, source in self.files.items():
                place = stage / target.lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, place)
            return guest.archive(stage)

    @property
    def command_line(self) -> str:
        """What its kernel is told."""
        return " ".join([*KERNEL_ARGUMENTS, *self.kernel_arguments])


@dataclass
class Outcome:
    """How a run ended: the engine's last message, and the console."""

    message: dict[str, Any]
    console: str


def anonymous(name: str, data: bytes = b"") -> int:
    """Return a descriptor of anonymous memory that holds ``data``."""
    fd = os.memfd_create(name)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def quote(text: str) -> str:
    """Quote for the guest's shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def die_with_parent(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel end this process when its parent ends, however it ends; at once where that has ended already."""
    _prctl(PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:
        os._exit(1)


def tail(text: str) -> str:
    """Return the end of a console."""
    return "\n".join(text.replace("\r", "").splitlines()[-CONSOLE_TAIL:])


def misfit(stderr: str) -> str:
    """Return the one line that says why QEMU or the engine did not start."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    for line in lines:
        if "wiretime: " in line:
            return line.split("wiretime: ", 1)[1]
        if "undefined symbol: " in line:
            return f"this QEMU cannot be driven: it has no {line.split('undefined symbol: ', 1)[1]}"
    return lines[-1] if lines else "QEMU ended without a word"


@contextlib.contextmanager
def ending_all() -> Iterator[None]:
    """End every guest of this process; none starts inside."""
    _ending.set()
    try:
        for process in list(_running):
            process.kill()
        yield
    finally:
        _ending.clear()


def at_once(do: Callable[[Item], Made], items: Sequence[Item], jobs: int | None = None) -> Iterator[Made]:
    """Do something with guests for each of ``items``, so many at once; yields what comes of it, in their order.

    ``jobs`` is the host's cores where it is not said. Whatever ends one ends all.
    """
    count = jobs if jobs is not None else os.cpu_count() or 1
    with ThreadPoolExecutor(max(1, min(len(items), count))) as pool:
        try:
            yield from pool.map(do, items)
        except BaseException:
            with ending_all():
                pool.shutdown(cancel_futures=True)
            raise


def check_ledger(problems: Sequence[str], console: str = "") -> None:
    """Raise where packets are unaccounted for."""
    if problems:
        raise GuestError("the ledger does not balance: " + "; ".join(problems), console)


def listen(lines: Iterable[str], progress: Progress | None, on_trial: NextTrial | None, trials: int) -> dict[str, Any]:
    """Hear an engine to its end, or until its state is to be kept; returns its last message.

    Between trials, asks ``on_trial`` for the next one and tells it by descriptor ``trials``.
    """
    last: dict[str, Any] = {}
    for line in lines:
        message = json.loads(line)
        if "progress" in message:
            if progress:
                progress(message["progress"])
        elif "trial" in message:
            check_ledger(message["trial"]["ledger_violations"])
            following = on_trial(message["trial"]) if on_trial else None
            os.write(trials, (json.dumps(following) + "\n").encode())
        elif "keep" in message:
            return dict(message)
        elif "refused" in message:
            raise WiretimeError(f"a trial was refused: {message['refused']}")
        else:
            last = message
    return last


class Machine:
    """A QEMU command line and its descriptors."""

    def __init__(
        self,
        platform: Mapping[str, Any],
        run: Mapping[str, Any],
        g: Guest,
        *,
        interactive: bool = False,
        kernel: Path | None = None,
        accel: str = "",
        trials: bool = False,
        capture: Path | None = None,
        far: int | None = None,
        boot: boots.Boot | None = None,
        keeps: tuple[boots.Boot, str] | None = None,
        every_turn: bool = False,
    ):
        """``boot`` is the state that the guest goes on from, ``keeps`` what keeps one that it comes to, and when."""
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._fds: list[int] = []
        self.output = self.input = -1
        self.keeps = keeps[0] if keeps else None
        self.monitor: boots.Monitor | None = None
        self._folder = scratch.folder()
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            system = platform["system"]
            self.qemu_root = QEMU.folder() / "root"
            image = GUEST.folder()
            engine = paths.built_engine()
            config = json.dumps({"platform": platform, "run": dict(run)}).encode()
            self.config = self._keep(anonymous("wiretime-config", config))
            self.initrd = self._keep(anonymous("wiretime-initrd", g.initramfs))
            files = self._keep(anonymous("wiretime-files", g.own))
            self.console = self._keep(anonymous("wiretime-console", boot.console() if boot else b""))
            size = _native.parse_size(system["memory"])
            self.memory = self._keep(memory.make(size))
            if boot:
                boot.fill(self.memory)
            self.monitor = boots.Monitor(self.memory) if self.keeps else None
            self.capture = self._file(capture) if capture else -1
            # What is at the far end of the wire; its owner is this machine from here on.
            outside = [] if far is None else [f"far={self._keep(far)}"]
            if interactive:
                # Nobody listens, and a pipe that is full would stop the guest.
                output = os.open(os.devnull, os.O_WRONLY)
            else:
                self.output, output = os.pipe()
            self._keep(output)
            # Trials of one boot are asked for here.
            if trials:
                asked, self.input = os.pipe()
                self._keep(asked)
            devices = []
            sockets = {}
            nics = [f"nic{i}" for i in range(platforms.ports(platform))]
            for name in (*nics, "control"):
                # QEMU connects by path only. The engine removes socket and folder as soon as QEMU has.
                listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                address = str(Path(self._folder.name) / name)
                try:
                    listener.bind(address)
                except OSError as e:
                    listener.close()
                    raise WiretimeError(f"{address}: {e.strerror or e} (TMPDIR says where sockets are)") from None
                listener.listen(1)
                sockets[name] = self._keep(listener.detach())
                # "x-msg-timeout": a stopped process must not lose its devices.
                device = {
                    "driver": "vfio-user-pci",
                    "id": f"{name}0",
                    "socket": {"type": "unix", "path": address},
                    "x-msg-timeout": 1_000_000_000,
                    # A posted write would be seen at a host-dependent time.
                    "x-no-posted-writes": True,
                    "rombar": 0,
                }
                devices += ["-device", json.dumps(device)]
            frequency = _native.parse_frequency(system["counter_frequency"])
            plugin = ",".join(
                [
                    str(engine),
                    f"config=/proc/self/fd/{self.config}",
                    *[f"{name}={fd}" for name, fd in sockets.items()],
                    f"files={files}",
                    f"output={output}",
                    *([f"input={asked}"] if trials else []),
                    *([f"capture={self.capture}"] if capture else []),
                    *([f"keep={keeps[1]}"] if keeps else []),
                    *(["every_turn=1"] if every_turn else []),
                    *([f"state={boot.path / 'engine.json'}"] if boot else []),
                    *outside,
                ]
            )
            # What the guest had printed when its state was kept stays before what it prints.
            console = f"file,id=console,path=/proc/self/fd/{self.console},append=on"
            serial = ["-serial", "mon:stdio"] if interactive else ["-chardev", console, "-serial", "chardev:console"]
            # A state has no memory in it: that is kept and brought back beside it.
            state = ["-global", "migration.x-ignore-shared=on"]
            if self.monitor:
                # QEMU's alone once it runs: its end is our end of file.
                theirs = self._keep(self.monitor.theirs.detach())
                # Whoever continues is to run, though this one stands still meanwhile.
                running = ["-global", "migration.store-global-state=off"]
                state += ["-chardev", f"socket,id=state,fd={theirs}", "-mon", "chardev=state,mode=control", *running]
            if boot:
                state += ["-incoming", f"file:{boot.path / 'qemu'}"]
            self.command = [
                *qemu.command(self.qemu_root),
                "-M",
                f"{BOARD},{REPEATABLE},memory-backend=mem",
                "-object",
                f"memory-backend-file,id=mem,size={size},mem-path=/proc/self/fd/{self.memory},share=on",
                "-m",
                str(size >> 20),
                "-cpu",
                f"{system['cpu']},cntfrq={frequency}",
                "-smp",
                str(system["cores"]),
                "-accel",
                # MiB: each vCPU has translations of its own.
                f"tcg,thread=single,tb-size={min(2048, 192 + 64 * system['cores'])}" + accel,
                "-rtc",
                "base=2025-01-01,clock=vm",
                "-seed",
                str(run["load"]["seed"]),
                "-kernel",
                str(kernel or image / "kernel"),
                "-initrd",
                f"/proc/self/fd/{self.initrd}",
                "-append",
                g.command_line,
                "-display",
                "none",
                "-nic",
                "none",
                "-no-reboot",
                *([] if interactive else ["-monitor", "none"]),
                *serial,
                *state,
                *devices,
                "-plugin",
                plugin,
            ]
            undo.pop_all()

    def _file(self, path: Path) -> int:
        try:
            return self._keep(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
        except OSError as e:
            raise WiretimeError(f"{path}: {e.strerror}") from None

    def _keep(self, fd: int) -> int:
        os.set_inheritable(fd, True)
        self._fds.append(fd)
        return fd

    def close(self) -> None:
        """Close what is still open on our side."""
        for fd in [*self._fds, *(fd for fd in (self.output, self.input) if fd >= 0)]:
            with contextlib.suppress(OSError):
                os.close(fd)
        self._fds.clear()
        self._folder.cleanup()
        if self.monitor:
            self.monitor.close()

    def console_text(self) -> str:
        """Return what the guest has printed."""
        size = os.fstat(self.console).st_size
        return os.pread(self.console, size, 0).decode(errors="replace")

    @contextlib.contextmanager
    def started(self, *, terminal: bool, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
        """Run QEMU; on the way out it is gone. Unless it has the terminal, Ctrl-C is ours alone to handle."""
        if _ending.is_set() or self._killed:
            raise WiretimeError("ended")
        process = subprocess.Popen(
            self.command,
            pass_fds=self._fds,
            preexec_fn=partial(die_with_parent, os.getpid()),
            start_new_session=not terminal,
            **options,
        )
        _running.add(process)
        self._process = process
        if _ending.is_set() or self._killed:
            process.kill()
        try:
            yield process
        finally:
            _running.discard(process)
            if process.poll() is None:
                process.kill()
            process.wait()

    def kill(self) -> None:
        """End QEMU, and start it no more."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    def run(
        self,
        progress: Progress | None = None,
        on_start: Callable[[int], None] | None = None,
        on_trial: NextTrial | None = None,
    ) -> Outcome:
        """Run to the end and return the engine's last message; between trials, ask ``on_trial`` for the next one.

        Raises ``GuestError`` where the guest failed, ``WiretimeError`` where QEMU or the engine did not start.
        """
        errors = self._keep(anonymous("wiretime-errors"))
        last: dict[str, Any] = {}
        try:
            quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": errors}
            with self.started(terminal=False, **quiet) as process:
                if on_start:
                    on_start(process.pid)
                # The output's write end is QEMU's alone from here on: its end is our end of file.
                kept = {self.console, errors} | ({self.memory} if self.monitor else set())
                for fd in [fd for fd in self._fds if fd not in kept]:
                    os.close(fd)
                    self._fds.remove(fd)
                with open(self.output, closefd=False) as lines:
                    last = listen(lines, progress, on_trial, self.input)
                if "keep" in last:
                    if self.keeps and self.monitor:
                        self.keeps.keep(last["keep"], self.console_text().encode(), self.monitor)
                    return Outcome(last, self.console_text())
                status = process.wait()
            console = self.console_text()
            stderr = os.pread(errors, os.fstat(errors).st_size, 0).decode(errors="replace")
        finally:
            self.close()
        if "failed" in last:
            raise GuestError(str(last["failed"]["reason"]), tail(console))
        if not last or status != 0:
            if status < 0:
                raise WiretimeError(f"QEMU was ended by signal {-status}: {misfit(stderr)}")
            raise WiretimeError(misfit(stderr))
        return Outcome(last, console)
