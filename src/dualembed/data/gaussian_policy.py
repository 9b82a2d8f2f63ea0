"""A policy with normal actions, by a few actions with weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.data.probabilities import check_callable, numbers


class GaussianPolicy:
    """A policy with normal actions around a mean.

    `actions` gives a few actions with weights such that means of smooth functions come out right: five
    Gauss-Hermite nodes for one number, their products for two, and for more numbers two nodes along each of them.

    Parameters
    ----------
    mean : callable
        States -> mean actions (n,) or (n, a).
    deviation : float, array of shape (a,) or callable
        Standard deviations of the actions, or a function of states that gives them.

    Examples
    --------
    >>> actions, shares = GaussianPolicy(lambda s: 2 * s[:, 0], 0.5).actions(np.array([[1.0]]))
    >>> [round(float(np.sum(shares * actions[:, :, 0] ** power)), 3) for power in (1, 2)]  # 2, and 2² + 0.5²
    [2.0, 4.25]
    """

    def __init__(self, mean: Callable[[Any], Any], deviation: Any) -> None:
        check_callable("the mean of a Gaussian policy", mean, "states to actions (n,) or (n, a)")
        if not callable(deviation):
            checks.not_negative("deviation", deviation)
        self.mean, self.deviation = mean, deviation

    def actions(self, states: Any) -> tuple[np.ndarray, np.ndarray]:
        """A few actions at each state, with weights.

        Parameters
        ----------
        states : array-like of shape (n, d)
            States.

        Returns
        -------
        actions : array of shape (n, J, a)
            Actions.
        weights : array of shape (n, J)
            Weights, which sum to one in each row.
        """
        mean, deviation = self._moments(states)
        nodes, shares = _nodes(mean.shape[1])
        return mean[:, None] + deviation[:, None] * nodes, np.tile(shares, (len(mean), 1))

    def density(self, states: Any, actions: Any) -> np.ndarray:
        """The density of the policy at an action in each state.

        Parameters
        ----------
        states : array-like of shape (n, d)
            States.
        actions : array-like of shape (n,) or (n, a)
            Actions.

        Returns
        -------
        array of shape (n,)
            Densities.

        Raises
        ------
        InputError
            If the policy takes one action alone in some state, so that there is none.

        Examples
        --------
        >>> GaussianPolicy(lambda s: s[:, 0], 0.5).density(np.array([[1.0]]), [1.0]).round(3).tolist()
        [0.798]
        """
        mean, deviation = self._moments(states)
        given = numbers("actions", actions)
        given = given[:, None] if given.ndim == 1 else given
        if given.shape != mean.shape:
            raise checks.InputError(
                f"actions must have the shape of the policy's, {mean.shape}, but have {given.shape}"
            )
        if not np.all(deviation > 0):
            raise checks.InputError("a policy without deviation has no density; give it a deviation above 0")
        each = np.exp(-(((given - mean) / deviation) ** 2) / 2) / (deviation * np.sqrt(2 * np.pi))
        return np.asarray(np.prod(each, axis=1))

    def spreads(self, states: Any) -> bool:
        """Tell whether actions vary in all of these states, so that they have densities.

        Parameters
        ----------
        states : array-like of shape (n, d)
            States.

        Returns
        -------
        bool
            Whether they do.
        """
        return bool(np.all(self._moments(states)[1] > 0))

    def _moments(self, states: Any) -> tuple[np.ndarray, np.ndarray]:
        """(mean actions (n, a), their standard deviations (n, a))."""
        mean = numbers("what the mean of the policy gives", self.mean(states))
        mean = mean[:, None] if mean.ndim == 1 else mean
        given = self.deviation(states) if callable(self.deviation) else self.deviation
        deviation = numbers("the deviation of the policy", given)
        if deviation.ndim == 1 and callable(self.deviation):  # one for each state
            deviation = deviation[:, None]
        return mean, np.broadcast_to(deviation, mean.shape)


def _nodes(width: int) -> tuple[np.ndarray, np.ndarray]:
    """(nodes (J, width), weights (J,)) of a standard normal vector."""
    if width > 2:  # exact for polynomials of the third degree
        nodes = np.sqrt(width) * np.concatenate([np.eye(width), -np.eye(width)])
        return nodes, np.full(2 * width, 0.5 / width)
    places, weights = np.polynomial.hermite_e.hermegauss(5)
    weights = weights / weights.sum()
    if width == 1:
        return places[:, None], weights
    first, second = (each.ravel() for each in np.meshgrid(places, places))
    return np.stack([first, second], axis=1), np.outer(weights, weights).ravel()
