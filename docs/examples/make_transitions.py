"""The example transitions: `python docs/examples/make_transitions.py` writes them again.

Fifty shops sell one good for forty weeks. On Monday a shop has some stock; customers ask for about as much as in the
week before, and what is not there is not sold. When fewer than 20 are left, the shop orders up to 60, at a price for
each and one for the delivery. That rule is the policy; how much profit will it make from here on?
"""

from __future__ import annotations

import numpy as np

from dualembed.data import write_table
from dualembed.examples import TRANSITIONS

SHOPS, WEEKS = 50, 40
DISCOUNT = 0.95

FEW, FULL = 20.0, 60.0  # stock below which the rule orders, and up to which
USUAL, MEMORY, SURPRISE = 20.0, 0.6, 8.0  # the demand: its mean, how much of last week's stays, and what is new
PRICE, STORAGE, PURCHASE, DELIVERY = 5.0, 0.5, 2.0, 15.0


def openings(rng: np.random.Generator, shops: int) -> tuple[np.ndarray, np.ndarray]:
    """(stock, last demand) with which shops begin."""
    return np.round(rng.uniform(FEW, FULL, shops)), np.maximum(0.0, np.round(USUAL + 10 * rng.normal(size=shops)))


def week(rng: np.random.Generator, stock: np.ndarray, demand: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(profit, next stock, this week's demand) of shops that reorder by the rule."""
    expected = USUAL + MEMORY * (demand - USUAL)
    asked = np.maximum(0.0, np.round(expected + SURPRISE * rng.normal(size=stock.shape)))
    sold = np.minimum(stock, asked)
    left = stock - sold
    order = np.where(left < FEW, FULL - left, 0.0)
    profit = PRICE * sold - STORAGE * left - PURCHASE * order - DELIVERY * (order > 0)
    return profit, left + order, asked


def transitions(seed: int = 0) -> dict[str, np.ndarray]:
    """The columns of the table, week after week of one shop after the other."""
    rng = np.random.default_rng(seed)
    stock, demand = openings(rng, SHOPS)
    rows = []
    for number in range(WEEKS):
        profit, next_stock, next_demand = week(rng, stock, demand)
        shop, date = np.arange(SHOPS), np.full(SHOPS, number)
        rows.append((shop, date, stock, demand, profit, next_stock, next_demand))
        stock, demand = next_stock, next_demand
    names = ("shop", "week", "stock", "demand", "profit", "next_stock", "next_demand")
    return {name: np.stack(parts, axis=1).ravel() for name, parts in zip(names, zip(*rows, strict=True), strict=True)}


def true_value(shops: int = 200_000, seed: int = 1) -> tuple[float, float]:
    """(mean, standard error) of the discounted profit from the opening on, by simulating many shops for long."""
    rng = np.random.default_rng(seed)
    stock, demand = openings(rng, shops)
    total = np.zeros(shops)
    for number in range(250):  # after which 3 millionths of a profit count
        profit, stock, demand = week(rng, stock, demand)
        total += DISCOUNT**number * profit
    return float(total.mean()), float(total.std() / np.sqrt(shops))


if __name__ == "__main__":
    write_table(transitions(), TRANSITIONS)
    print("Wrote {}; the rule is worth {:.1f} ± {:.1f} at discount {}.".format(TRANSITIONS, *true_value(), DISCOUNT))
