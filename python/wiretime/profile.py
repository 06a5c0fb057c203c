"""Profiles: simulated cycles by symbol and by instruction of guest programs, libraries and kernel.

The engine charges each cycle to the oldest instruction that has not committed. A page of a program or library is told
by its content, which is that of a page of its file; the kernel's symbols are those that the guest's ``/proc/kallsyms``
shows, modules among them. Functions without a symbol (Debian strips static ones) go by file and offset, unless a debug
file with their build ID is found below ``/usr/lib/debug``.
"""

from __future__ import annotations

import base64
import bisect
import gzip
import html
import json
import subprocess
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, SymbolTableSection
from rich.markup import escape
from rich.table import Table

from wiretime import scratch
from wiretime.errors import WiretimeError, unknown
from wiretime.tables import of_numbers, plain

PAGE = 4096
HALF = PAGE // 2
KERNEL = 1 << 63
# Behind the last of its own text is what it has compiled itself: programs in its drivers, filters of sockets.
KERNEL_END, COMPILED = "__exittext_end", ("bpf", "compiled by the kernel")
# What is not a module's is of this file.
KERNEL_FILE = "kernel"
DEBUG = Path("/usr/lib/debug/.build-id")
BEGIN, END = "wiretime: symbols", "wiretime: end of symbols"


class Line(NamedTuple):
    """An instruction of a symbol: its address (in the file, as ``objdump`` has it), what it was charged, its text."""

    address: int
    cycles: int
    executed: int
    text: str
    # Whether it orders memory.
    barrier: bool = False


@dataclass(frozen=True)
class Entry:
    """Cycles and instructions of one symbol."""

    file: str
    symbol: str
    cycles: int
    instructions: int
    # By address, what was executed.
    code: tuple[Line, ...] = ()


class Symbols:
    """Symbols of one file or of the kernel, by address."""

    def __init__(self, pairs: Iterable[tuple[int, str]]) -> None:
        """Take addresses and names in any order."""
        self.pairs = sorted(pairs)
        self.addresses = [address for address, _ in self.pairs]

    def at(self, address: int) -> tuple[int, str] | None:
        """Return the last symbol at or before ``address``."""
        i = bisect.bisect_right(self.addresses, address) - 1
        return self.pairs[i] if i >= 0 else None


def kernel_symbols(console: str) -> Symbols:
    """Return the kernel's and its modules' symbols, as the guest has printed them."""
    text = console.replace("\r", "")
    if BEGIN not in text or END not in text:
        return Symbols([])
    packed = text.split(BEGIN, 1)[1].split(END, 1)[0]
    lines = gzip.decompress(base64.b64decode(packed)).decode(errors="replace").splitlines()
    pairs = []
    for line in lines:
        address, kind, name = line.split(maxsplit=2)
        if kind in "tTwW" and not name.startswith(("$", ".L")):
            module = name.split("\t")
            pairs.append((int(address, 16), module[0] + (f" {module[1]}" if len(module) > 1 else "")))
    return Symbols(pairs)


def without_symbols(console: str) -> str:
    """Return the console's text without the symbols that the guest printed for us."""
    if BEGIN not in console or END not in console:
        return console
    return console.split(BEGIN, 1)[0] + console.split(END, 1)[1].lstrip("\r\n")


def _unpack(archive: Path, folder: Path) -> None:
    done = subprocess.run(
        ["cpio", "--extract", "--quiet", "--no-absolute-filenames", "--make-directories", "--no-preserve-owner"],
        stdin=archive.open("rb"),
        cwd=folder,
        capture_output=True,
    )
    if done.returncode not in (0, 2):  # 2: device nodes need rights; nobody wants them here
        raise WiretimeError(f"cpio: {done.stderr.decode().strip()}")


class File:
    """One ELF file: where its pages are mapped, and its symbols."""

    def __init__(self, path: Path) -> None:
        """Read the file's segments, symbols and function boundaries."""
        self.name = path.name
        with path.open("rb") as f:
            elf = ELFFile(f)
            segments = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
            self.segments = [(s["p_offset"], s["p_filesz"], s["p_vaddr"]) for s in segments]
            pairs = dict(self._functions(elf))
            pairs.update(_table(elf))
            build = next((n["n_desc"] for n in _notes(elf) if n["n_type"] == "NT_GNU_BUILD_ID"), "")
        debug = DEBUG / build[:2] / f"{build[2:]}.debug"
        if build and debug.is_file():
            with debug.open("rb") as f:
                pairs.update(_table(ELFFile(f)))
        self.symbols = Symbols(pairs.items())

    def _functions(self, elf: Any) -> Iterator[tuple[int, str]]:
        """Yield where functions begin, as the unwind tables say: static ones have no other name."""
        info = elf.get_dwarf_info(relocate_dwarf_sections=False)
        if info.has_EH_CFI():
            for entry in info.EH_CFI_entries():
                if isinstance(entry, FDE):
                    address = entry.header["initial_location"]
                    yield address, f"{self.name}+{address:#x}"

    def symbol(self, offset: int) -> tuple[str, int]:
        """Return the symbol at an offset in the file, and the address of what is there."""
        for begin, size, address in self.segments:
            if begin <= offset < begin + size:
                at = offset - begin + address
                found = self.symbols.at(at)
                return (found[1] if found else f"{self.name}+{offset:#x}"), at
        return f"{self.name}+{offset:#x}", offset


def _table(elf: Any) -> Iterator[tuple[int, str]]:
    for section in elf.iter_sections():
        if isinstance(section, SymbolTableSection):
            for s in section.iter_symbols():
                if s["st_info"]["type"] == "STT_FUNC" and s["st_value"] and s.name:
                    yield s["st_value"], s.name


def _notes(elf: Any) -> Iterator[Any]:
    for section in elf.iter_sections():
        if isinstance(section, NoteSection):
            yield from section.iter_notes()


def _sums(page: bytes) -> str:
    page = page.ljust(PAGE, b"\0")
    return f"{zlib.crc32(page[:HALF]):08x}{zlib.crc32(page[HALF:]):08x}"


def _find_pages(wanted: set[str], files: Iterable[Path]) -> dict[str, tuple[Path, int]]:
    """Return file and offset of every wanted page, by content."""
    found: dict[str, tuple[Path, int]] = {}
    for path in files:
        data = path.read_bytes()
        if data[:4] != b"\x7fELF":
            continue
        for offset in range(0, len(data), PAGE):
            sums = _sums(data[offset : offset + PAGE])
            if sums in wanted:
                found.setdefault(sums, (path, offset))
    return found


def resolve(raw: Mapping[str, Any], console: str, archives: Sequence[Path], extra: Sequence[Path] = ()) -> list[Entry]:
    """Return cycles by symbol, most first.

    ``archives`` are those that the guest was made of, ``extra`` programs that the run added.
    """
    kernel = kernel_symbols(console)
    code: dict[tuple[str, str], dict[tuple[int, int], Line]] = defaultdict(dict)
    pages: Mapping[str, str] = raw["pages"]
    texts, barriers = raw["texts"], set(raw["barriers"])
    with scratch.folder() as folder:
        user = {
            pages[str(p & ~(PAGE - 1))]
            for v, p, *_ in raw["instructions"]
            if v < KERNEL and str(p & ~(PAGE - 1)) in pages
        }
        for archive in archives:
            _unpack(archive, Path(folder))
        unpacked = [p for p in sorted(Path(folder).rglob("*")) if p.is_file() and not p.is_symlink()]
        place = _find_pages(user, [*extra, *unpacked])
        files = {path: File(path) for path in {path for path, _ in place.values()}}
    for vaddr, paddr, cycles, executed, word in raw["instructions"]:
        address = vaddr
        if vaddr >= KERNEL:
            found = kernel.at(vaddr)
            name = found[1] if found else f"{vaddr:#x}"
            key = (name.split("[")[1].rstrip("]"), name.split()[0]) if "[" in name else (KERNEL_FILE, name)
            if name == KERNEL_END:
                key = COMPILED
        else:
            at = place.get(pages.get(str(paddr & ~(PAGE - 1)), ""))
            if at is None:
                key = ("unknown", f"{vaddr & (1 << 48) - 1:#x}")
            else:
                symbol, address = files[at[0]].symbol(at[1] + paddr % PAGE)
                key = (files[at[0]].name, symbol)
        # Of programs that run twice, and where a page has been replaced, one address is executed at two places.
        before = code[key].get((address, word))
        cycles, executed = (cycles + before.cycles, executed + before.executed) if before else (cycles, executed)
        code[key][address, word] = Line(address, cycles, executed, texts[str(word)], word in barriers)
    entries = [
        Entry(*key, sum(c.cycles for c in rows), sum(c.executed for c in rows), rows)
        for key, rows in ((key, tuple(sorted(lines.values()))) for key, lines in code.items())
    ]
    return sorted(entries, key=lambda e: (-e.cycles, e.file, e.symbol))


def folded(entries: Iterable[Entry]) -> str:
    """Return folded stacks, file above symbol, as flame graph tools take them."""
    return "".join(f"{e.file};{e.symbol} {e.cycles}\n" for e in entries if e.cycles)


WIDTH, ROW, TEXT = 1200, 20, 7


def flame(entries: Sequence[Entry]) -> str:
    """Return an SVG flame graph of two levels: files, and their symbols on top."""
    total = max(sum(e.cycles for e in entries), 1)
    by_file: dict[str, list[Entry]] = defaultdict(list)
    for e in entries:
        by_file[e.file].append(e)
    order = sorted(by_file, key=lambda f: -sum(e.cycles for e in by_file[f]))
    parts: list[str] = []

    def box_(x: float, row: int, cycles: int, name: str, hue: int) -> None:
        width = WIDTH * cycles / total
        if width < 0.3:
            return
        y = ROW * (3 - row)
        label = html.escape(name[: int(width / TEXT)]) if width > 3 * TEXT else ""
        title = html.escape(f"{name}: {cycles} cycles, {100 * cycles / total:.2f} %")
        parts.append(
            f'<g><title>{title}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 1}" '
            f'fill="hsl({hue},70%,65%)"/><text x="{x + 3:.1f}" y="{y + 14}">{label}</text></g>'
        )

    box_(0, 0, total, "all", 0)
    x = 0.0
    for i, file in enumerate(order):
        box_(x, 1, sum(e.cycles for e in by_file[file]), file, 30 + i * 47 % 180)
        at = x
        for e in by_file[file]:
            box_(at, 2, e.cycles, e.symbol, 20 + zlib.crc32(e.symbol.encode()) % 40)
            at += WIDTH * e.cycles / total
        x += WIDTH * sum(e.cycles for e in by_file[file]) / total
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {ROW * 4 + 4}" '
        f'font-family="monospace" font-size="12">' + "".join(parts) + "</svg>\n"
    )


def write(folder: Path, entries: Sequence[Entry]) -> None:
    """Write ``profile.folded``, ``profile.svg`` and ``profile.json``."""
    (folder / "profile.folded").write_text(folded(entries))
    (folder / "profile.svg").write_text(flame(entries))
    # A line of the file for each symbol.
    rows = ",\n".join(json.dumps(vars(e)) for e in entries)
    (folder / "profile.json").write_text(f"[\n{rows}\n]\n")


def load(folder: Path) -> list[Entry]:
    """Return a run's profile."""
    path = folder / "profile.json"
    try:
        return [Entry(**e | {"code": tuple(Line(*c) for c in e["code"])}) for e in json.loads(path.read_text())]
    except (OSError, ValueError, TypeError, KeyError):
        raise WiretimeError(f"{path}: no profile there: run with --profile and --out") from None


def show_code(folder: Path, symbol: str) -> Iterator[Table]:
    """Yield what each instruction of a symbol was charged, a table for each file that has one of that name."""
    entries = load(folder)
    found = [e for e in entries if e.symbol == symbol]
    if not found:
        raise unknown("symbol", symbol, (e.symbol for e in entries))
    for e in found:
        title = f"cycles by instruction of {symbol} ({e.file})"
        table = of_numbers(title, "address", "share", "cycles", "executed", "cycles each", "instruction")
        for c in e.code:
            share = f"{100 * c.cycles / e.cycles:.1f} %" if c.cycles else ""
            table.add_row(
                f"{c.address:x}", share, str(c.cycles), str(c.executed), f"{c.cycles / c.executed:.2f}", escape(c.text)
            )
        yield table


def show(folder: Path, rows: int) -> Table:
    """Return the top symbols of a run's profile as a table."""
    entries = load(folder)
    total = max(sum(e.cycles for e in entries), 1)
    table = plain("cycles by symbol")
    for name, justify in (
        ("share", "right"),
        ("cycles", "right"),
        ("IPC", "right"),
        ("symbol", "left"),
        ("file", "left"),
    ):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for e in entries[:rows]:
        ipc = f"{e.instructions / e.cycles:.2f}" if e.cycles else ""
        table.add_row(f"{100 * e.cycles / total:.1f} %", str(e.cycles), ipc, e.symbol, e.file)
    return table
