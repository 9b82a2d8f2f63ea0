"""Fits and answers keep linear algebra to one thread, and leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import dualembed as de
from dualembed.threads import one_thread


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    with threadpool_limits(limits=2, user_api="blas"):
        yield


def test_a_block_has_one_thread_and_leaves_the_number_as_it_was() -> None:
    before = blas_threads()
    with one_thread():
        assert blas_threads() == {1}
    assert blas_threads() == before


def test_a_fit_has_one_thread() -> None:
    seen = []

    def policy(states: np.ndarray) -> np.ndarray:
        seen.append(blas_threads())
        return np.zeros(len(states), dtype=int)

    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=100), rng.integers(2, size=100)
    model = de.ActionValueEvaluator(0.5, policy).fit(states, actions, states, 0.5 * states, episodes=np.arange(100))
    assert seen
    assert all(threads == {1} for threads in seen)
    assert np.isfinite(model.value().value)
