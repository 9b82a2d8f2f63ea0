"""The Open Bandit data: what Thompson sampling is worth by the log of a policy that chose at random.

Of how likely Thompson sampling shows an item in a place the logged propensities of its own log say nothing exact: they
change from batch to batch, and their means by item and place do not sum to one. But its prior when the data were
gathered is beside them, from which the chances of the three highest of eighty Beta variables follow by quadrature.
"""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

import dualembed as de

ITEMS, PLACES = 80, 3
NODES = 1500
HOME = Path(__file__).parents[2] / "build" / "open-bandit"


def wheel() -> Path:
    """The wheel of obp that holds the data."""
    named = os.environ.get("DUALEMBED_OPEN_BANDIT")
    found = [Path(named)] if named else sorted(HOME.glob("obp-0.4.1-*.whl"))
    if not found or not found[0].exists():
        pytest.skip("the Open Bandit data are not here: `make bandit`, or DUALEMBED_OPEN_BANDIT=the wheel of obp")
    return found[0]


@pytest.fixture(scope="module")
def data() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """(the log of random choices, the probabilities of Thompson sampling at its rows)."""
    with zipfile.ZipFile(wheel()) as archive:
        text = archive.read("obp/dataset/obd/random/all/all.csv").decode()
        prior = archive.read("obp/policy/conf/prior_bts.yaml").decode()
    names = text[: text.index("\n")].strip().split(",")
    wanted = ("item_id", "position", "click", "propensity_score")
    places = [names.index(name) for name in wanted]
    item, place, click, chance = np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1, usecols=places).T
    log = {
        "states": {"position": place.astype(int).astype(str)},
        "actions": item.astype(int),
        "rewards": click,
        "propensities": chance,
    }
    return log, highest(*parameters(prior))[:, place.astype(int) - 1].T


def parameters(text: str) -> tuple[np.ndarray, np.ndarray]:
    """alpha and beta of the campaign "all"."""
    campaign = text[text.index("all:") : text.index("men:")]
    alpha, rest = campaign.split("beta:")
    first, second = ([float(line.strip(" -")) for line in part.splitlines() if "- " in line] for part in (alpha, rest))
    return np.array(first), np.array(second)


def highest(alpha: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The chances (items, places) of each of the Beta variables to be the first, second or third highest.

    The chance that so many others are above x is that of a sum of coins, by products of polynomials from both ends.
    """
    node, weight = np.polynomial.legendre.leggauss(NODES)
    x, weight = ((node + 1) / 2) ** 2, weight / 2 * (node + 1)  # most of them near 0, as the variables are
    above, density = beta.sf(x[:, None], alpha, other), beta.pdf(x[:, None], alpha, other)

    def times(chances: np.ndarray, q: np.ndarray) -> np.ndarray:
        more = np.pad(chances[:, :-1], ((0, 0), (1, 0)))
        return chances * (1 - q[:, None]) + more * q[:, None]

    none = np.eye(PLACES)[:1].repeat(NODES, axis=0)
    before, after = [none], [none]
    for item in range(len(alpha) - 1):
        before.append(times(before[-1], above[:, item]))
        after.append(times(after[-1], above[:, -1 - item]))
    found = np.zeros((len(alpha), PLACES))
    for item, (left, right) in enumerate(zip(before, reversed(after), strict=True)):
        for place in range(PLACES):
            both = np.sum(left[:, : place + 1] * right[:, place::-1], axis=1)
            found[item, place] = np.sum(weight * density[:, item] * both)
    return found / found.sum(axis=0)


def test_the_chances_are_those_of_draws() -> None:
    rng = np.random.default_rng(0)
    alpha, other = rng.uniform(1, 5, size=6), rng.uniform(1, 5, size=6)
    order = np.argsort(-rng.beta(alpha, other, size=(200_000, 6)), axis=1)[:, :PLACES]
    drawn = np.stack([np.bincount(column, minlength=6) for column in order.T], axis=1) / 200_000
    np.testing.assert_allclose(highest(alpha, other), drawn, atol=0.004)


def test_thompson_sampling_is_worth_what_the_formulas_say_and_ours_is_as_sure(data: Any) -> None:
    log, chances = data
    found = de.compare(log, {"thompson": chances, "logged": None})
    weights = chances[np.arange(len(chances)), log["actions"]] / log["propensities"]
    paid = weights * log["rewards"]
    others, ours = found.estimates["thompson"], found.values["thompson"]
    assert others["IPW"].value == pytest.approx(paid.mean(), abs=1e-10)
    assert others["self-normalised IPW"].value == pytest.approx(paid.sum() / weights.sum(), abs=1e-10)
    assert others["IPW"].value == pytest.approx(0.004553, abs=2e-5)  # obp's own page, by draws of the chances
    assert ours.stderr == pytest.approx(0.0021, abs=2e-4)
    assert abs(ours.value - others["IPW"].value) < 0.5 * ours.stderr
    assert found.estimates["logged"]["mean of rewards"].value == pytest.approx(0.0038)
