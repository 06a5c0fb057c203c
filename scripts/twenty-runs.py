"""Twenty runs of one command must give one `result.json`: `.venv/bin/python scripts/twenty-runs.py`.

Two at a time, so that both cores are busy; some with a thread that kicks vCPUs at random, some stopped and continued
in the middle, some in another folder with another environment.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from wiretime import runs

REQUEST = runs.Request(duration="1ms")
COMMAND = [sys.executable, "-m", "wiretime", "run", "testpmd", "--duration", "1ms", "--json", "-"]


def stop_and_go(pid: int) -> None:
    """Stop and continue a process at random moments."""

    def work() -> None:
        for _ in range(5):
            time.sleep(random.uniform(0.3, 3))
            try:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(random.uniform(0.05, 1))
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                return

    threading.Thread(target=work, daemon=True).start()


def one(kind: str) -> str:
    """Run once in this way; return the digest of the result."""
    if kind == "elsewhere":
        env = {**os.environ, "FILLER": "x" * random.randrange(10_000)}
        done = subprocess.run(COMMAND, capture_output=True, text=True, check=True, cwd="/", env=env)
        text = done.stdout
    else:
        request = REQUEST if kind != "kicked" else runs.Request(duration="1ms", internals={"chaos": True})
        options = {"on_start": stop_and_go} if kind == "stopped" else {}
        result = runs.execute(request, **options)[0]
        result["configuration"]["run"]["chaos"] = False
        text = runs.dump(result)
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> int:
    """Run all twenty and say whether they are equal."""
    kinds = ["plain"] * 8 + ["kicked"] * 4 + ["stopped"] * 4 + ["elsewhere"] * 4
    random.shuffle(kinds)
    with ThreadPoolExecutor(2) as pool:
        hashes = list(pool.map(one, kinds))
    for (kind, digest), count in sorted(Counter(zip(kinds, hashes, strict=True)).items()):
        print(f"{count:3} {kind:10} {digest}")
    print("equal" if len(set(hashes)) == 1 else "DIFFERENT")
    return len(set(hashes)) - 1


if __name__ == "__main__":
    sys.exit(main())
