"""A wheel that needs no checkout: the package, its extension and engine as they are built here, and what it reads.

What a checkout has beside the package (platforms, experiments, cost models, the guest's sources, the lock file) is in a
folder of the package, with the engine; `paths` finds it there. Its metadata are those of the environment's own
installation.
"""

from __future__ import annotations

import importlib.metadata
import tempfile
from pathlib import Path

from wheel.wheelfile import WheelFile

from wiretime import __version__, paths
from wiretime.errors import WiretimeError
from wiretime.setup.bundle import LICENCES, built, licences, sign, tracked

# Of a checkout, what the package reads.
READ = ("experiments/", "guest/", "models/", "platforms/", paths.LOCK_FILE.name)
PACKAGE = "python/wiretime/"


def _metadata() -> dict[str, str]:
    about = importlib.metadata.distribution("wiretime")
    found = {name: about.read_text(name) or "" for name in ("METADATA", "WHEEL", "entry_points.txt")}
    if "Tag: " not in found["WHEEL"]:
        raise WiretimeError("wheel: this environment has no installation of the package: run it in a checkout from git")
    return found


def write(folder: Path) -> Path:
    """Write the wheel into a folder, whole or not at all, and its checksum beside it; returns its path."""
    metadata = _metadata()
    tag = metadata["WHEEL"].partition("Tag: ")[2].split()[0]
    name = f"wiretime-{__version__}-{tag}.whl"
    engine, extension = built()
    tree = f"wiretime/{paths.TREE.name}"
    try:
        with tempfile.TemporaryDirectory(prefix=".wheel-", dir=folder) as part:
            with WheelFile(Path(part) / name, "w") as file:
                for source in tracked():
                    if source.startswith(PACKAGE):
                        file.write(paths.REPOSITORY / source, f"wiretime/{source.removeprefix(PACKAGE)}")
                    elif source.startswith(READ):
                        file.write(paths.REPOSITORY / source, f"{tree}/{source}")
                file.write(extension, f"wiretime/{extension.name}")
                file.write(engine, f"{tree}/{engine.name}")
                for entry, text in metadata.items():
                    file.writestr(f"{file.dist_info_path}/{entry}", text)
                file.write(paths.REPOSITORY / "LICENSE", f"{file.dist_info_path}/licenses/LICENSE")
                file.writestr(f"{file.dist_info_path}/licenses/{LICENCES}", licences())
            written = (Path(part) / name).rename(folder / name)
        sign(written)
        return written
    except OSError as e:
        raise WiretimeError(f"{folder / name}: {e.strerror}") from None
