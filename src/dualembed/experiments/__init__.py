"""The experiments that `dualembed reproduce` runs, one module each, and simulators behind them.

A module `dualembed.experiments.<name>` has an `EXPERIMENT`, an `experiment.Experiment`. Naming it here imports nothing
of it, so that the command line can list them at once.
"""

from __future__ import annotations

NAMES: dict[str, str] = {
    "illustration": "recover a random function from noisy values of its local averages",
    "noisy": "recover a function from inputs measured with noise",
    "quantum": "atomisation energies of molecules, whatever the order of their atoms",
    "navigation": "value of walking in a room",
    "cartpole": "cost of a linear policy on a cart with a rod hinged to it",
    "puma": "cost of a linear policy on a robot arm with six joints",
    "complexity": "beyond the paper: error against samples, and against the radius of the balls",
}
"""Every experiment's name with one line about it, in the order in which they are listed."""
