"""The experiments that `dualembed reproduce` runs, one module each.

A module `dualembed.experiments.<name>` has

    run(*, trials: int, seed: int, quick: bool, progress: Track) -> Report

with `Report` from `base` and `Track` from `dualembed.progress`. Naming an experiment here imports
nothing of it, so that the command line can list them at once.
"""

from __future__ import annotations

NAMES: dict[str, str] = {
    "illustration": "recover a random function from noisy values of its local averages",
    "noisy": "recover a function from inputs measured with noise",
}
"""Every experiment's name with one line about it, in the order in which they are listed."""
