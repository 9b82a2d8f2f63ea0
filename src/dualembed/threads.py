"""Linear algebra on one thread, where matrices are small and threads would only wait for each other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS to one thread within the block.

    A fit is hundreds of factorisations of a few hundred rows. On two threads they are hardly faster where nothing else
    runs, and on a busy machine ten times as slow: threads that wait for one without a core spin.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def on_one_thread(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """The function with BLAS kept to one thread while it runs."""

    @functools.wraps(function)
    def limited(*arguments: Given.args, **options: Given.kwargs) -> Returned:
        with one_thread():
            return function(*arguments, **options)

    return limited
