"""Searches within one boot: the load changes while the guest runs.

- ``trials``: one load, and what it showed; ``boot``: trials one after the other in one boot.
- ``maximum``: the highest load with at most so much loss; ``ratios``, ``mlr``: several loss ratios at once (MLRsearch).
- ``sweeps``: latency at fractions of it, a ramp; ``rfc2544``: the tests of that document.
- ``show``: tables, curves, plots.
"""

from wiretime.search.boot import STANDARD_SIZES, sizes_of, waking
from wiretime.search.maximum import Found, Spread, find, msb, over_seeds, share
from wiretime.search.ratios import Goal, Ratios, ndr_pdr
from wiretime.search.rfc2544 import Benchmarks, benchmarks
from wiretime.search.sweeps import latency, ramp, rates
from wiretime.search.trials import Length, Steps, Tell, Trial, read, silent

__all__ = [
    "STANDARD_SIZES", "Benchmarks", "Found", "Goal", "Length", "Ratios", "Spread", "Steps", "Tell", "Trial",
    "benchmarks", "find", "latency", "msb", "ndr_pdr", "over_seeds", "ramp", "rates", "read", "share", "silent",
    "sizes_of", "waking",
]  # fmt: skip
