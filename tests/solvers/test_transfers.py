"""The loop of steps is one program on the device: nothing goes to the host and back while it runs."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import dualembed as de
from dualembed import kernels, problems, schedules, solvers, sources, spaces
from dualembed.solvers import stochastic

SPACES = {
    "expansions": spaces.RKHS(kernels.Gaussian(0.3)),
    "waves": spaces.Fourier(kernels.Gaussian(0.3), size=32),
    "drawn again": spaces.DoublyStochastic(kernels.Gaussian(0.3), block=4),
}


@pytest.mark.parametrize("name", SPACES)
def test_steps_move_nothing_between_host_and_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    advance, runs = stochastic.advance, []

    def guarded(*given: Any) -> Any:
        on_device = jax.device_put(given)
        with jax.transfer_guard("disallow"):
            runs.append(advance(*on_device))
        return runs[-1]

    x = np.random.default_rng(0).uniform(-1, 1, 200)
    saddle = de.Saddle(problems.Invariance(sources.Dataset(x=x, z=x, y=x)), SPACES[name], SPACES[name])
    monkeypatch.setattr(stochastic, "advance", guarded)
    result = de.solve(0, saddle, solvers.EmbeddingSGD(60, 10, schedules.InverseSqrt(0.5)))
    assert runs
    assert result.finite


def test_the_guard_notices_what_is_moved() -> None:
    add = jax.jit(lambda a, b: a + b)
    with jax.transfer_guard("disallow"), pytest.raises(Exception, match=r"[Dd]isallowed"):
        add(np.ones(3), np.ones(3))
