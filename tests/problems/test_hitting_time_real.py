"""Hitting times of real processes: walks along links between articles, and a molecule that folds."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import csgraph
from tests.problems.hitting_times import committor, hitting, solved
from tests.recorded import DATA, skip_without_data

import dualembed as de
from dualembed import kernels, problems, solvers, sources, spaces

LINKS, TORSIONS = DATA / "markov" / "wikispeedia_links.tsv.gz", DATA / "markov" / "ala2_phipsi_3x20ns.npz"

# Random walks on the links between articles.


def strong_part(links: np.ndarray) -> np.ndarray:
    """The links within the largest set of articles that all reach each other, numbered anew."""
    size = links.max() + 1
    graph = sparse.csr_array((np.ones(len(links)), links.T), shape=(size, size))
    label = csgraph.connected_components(graph, connection="strong")[1]
    inside = label == np.bincount(label).argmax()
    return (np.cumsum(inside) - 1)[links[inside[links].all(axis=1)]]


@pytest.fixture(scope="module")
def articles() -> np.ndarray:
    skip_without_data()
    with gzip.open(LINKS, "rt", encoding="utf-8") as file:
        rows = [line.split() for line in file if line.strip() and not line.startswith("#")]
    return np.unique(np.array(rows), return_inverse=True)[1].reshape(-1, 2)


def walk(links: np.ndarray) -> sparse.csr_array:
    """P of the walk that follows each link of a page equally often."""
    size = links.max() + 1
    graph = sparse.csr_array((np.ones(len(links)), links.T), shape=(size, size))
    return sparse.csr_array(sparse.diags_array(1 / graph.sum(axis=1)) @ graph)


def times_to(chain: sparse.csr_array, target: int) -> np.ndarray:
    """h(·, t) = (D_tt - D_st + 1{s = t}) / π(t) with D = Σ_k (P^k - 1πᵀ): sums, and no system solved."""
    stationary = np.full(chain.shape[0], 1.0 / chain.shape[0])
    for _ in range(2000):
        stationary = stationary @ chain
    column = np.zeros(chain.shape[0])
    column[target] = 1.0
    total = np.zeros_like(column)
    for _ in range(2000):
        total += column - stationary[target]
        column = chain @ column
    return (total[target] - total + (np.arange(len(total)) == target)) / stationary[target]


@pytest.mark.slow
def test_on_a_web_of_articles_walks_to_one_of_them_take_as_long_as_they_must(articles: np.ndarray) -> None:
    links = strong_part(articles)
    chain = walk(links)
    assert chain.shape[0] > 4000
    exact = times_to(chain, 10)
    found = solved(hitting(*links.T.astype(float), [10]), np.arange(len(exact)))
    np.testing.assert_allclose(found, exact, rtol=1e-8)


def test_on_part_of_the_web_walks_to_a_sample_of_articles_take_as_long_as_they_must(articles: np.ndarray) -> None:
    links = strong_part(articles[(articles % 3 == 0).all(axis=1)])
    chain = walk(links)
    assert chain.shape[0] > 500
    targets = np.random.default_rng(0).choice(chain.shape[0], 4, replace=False)
    problem = problems.HittingTime(sources.Dataset(**problems.pairs(links[:, 0], links[:, 1], targets)))
    every = np.arange(chain.shape[0])
    points = [np.stack([every, np.full(len(every), target)], axis=1) for target in targets]
    exact = np.concatenate([times_to(chain, target) for target in targets])
    np.testing.assert_allclose(solved(problem, np.concatenate(points)), exact, rtol=1e-8)


@pytest.mark.slow
def test_a_walk_on_part_of_the_web_tells_how_long_walks_take(articles: np.ndarray) -> None:
    """100,000 steps enter the most linked article 2,171 times: times 4 % off on average, 9 % root mean square."""
    chain = walk(strong_part(articles[(articles % 3 == 0).all(axis=1)]))
    target = int(np.argmax(chain.sum(axis=0)))
    rng = np.random.default_rng(0)
    pages = [chain.indices[chain.indptr[page] : chain.indptr[page + 1]] for page in range(chain.shape[0])]
    path, choices = [target], rng.uniform(size=100_000)
    for choice in choices:
        path.append(pages[path[-1]][int(choice * len(pages[path[-1]]))])
    trail = np.array(path[: len(path) - path[::-1].index(target)], dtype=float)  # ends where its last page has exits
    seen = np.unique(trail[:-1]).astype(int)
    found, exact = solved(hitting(trail[:-1], trail[1:], [target]), seen), times_to(chain, target)[seen]
    assert len(seen) > 0.95 * chain.shape[0]
    assert abs(np.mean(found) / np.mean(exact) - 1) < 0.06
    assert np.sqrt(np.mean((found / exact - 1) ** 2)) < 0.12


# Alanine dipeptide: the torsions (φ, ψ) in degrees, and two of its conformations as boxes of them.

CELL = 15  # degrees, of the grid that the rival counts transitions on; the boxes are made of such cells


def extended(angles: np.ndarray) -> np.ndarray:
    return (angles[:, 0] < -90) & (angles[:, 1] >= 120)


def helical(angles: np.ndarray) -> np.ndarray:
    return (angles[:, 0] >= -120) & (angles[:, 0] < -30) & (angles[:, 1] >= -90) & (angles[:, 1] < 0)


@pytest.fixture(scope="module")
def torsions() -> list[np.ndarray]:
    skip_without_data()
    with np.load(TORSIONS) as file:
        return [np.degrees(file[name].astype(float)) for name in file.files]


def lagged(paths: list[np.ndarray], lag: int) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([path[:-lag] for path in paths]), np.concatenate([path[lag:] for path in paths])


def cells(angles: np.ndarray) -> np.ndarray:
    """The number of the grid cell of each row."""
    across = 360 // CELL
    column, row = (np.floor((angles + 180) / CELL).astype(int) % across).T
    return column * across + row


def counted(paths: list[np.ndarray], lag: int) -> tuple[object, list[np.ndarray]]:
    """(the rival's Markov model of the grid cells, its states within each of the two boxes)."""
    msm = pytest.importorskip("deeptime.markov.msm", reason="deeptime, the rival, is not installed")
    markov = pytest.importorskip("deeptime.markov")
    tally = markov.TransitionCountEstimator(lag, "sliding").fit_fetch([cells(path) for path in paths])
    model = msm.MaximumLikelihoodMSM(lagtime=lag).fit_fetch(tally.submodel_largest())
    symbols, across = model.count_model.state_symbols, 360 // CELL
    centres = np.stack([symbols // across, symbols % across], axis=1) * CELL - 180 + CELL / 2
    return model, [np.flatnonzero(box(centres)) for box in (extended, helical)]


def periodic(problem: problems.Problem, **penalties: float) -> solvers.Result:
    space = spaces.Nystrom(kernels.Periodic(360.0, 1.0), size=120)
    return de.solve(0, de.Saddle(problem, space, space, **penalties), solvers.ClosedForm())


def seen_passages(paths: list[np.ndarray], lag: int) -> float:
    """The mean time from frames of the extended box to the first of the helical one, every lag-th frame looked at."""
    waits = []
    for path in (path[start::lag] for path in paths for start in range(lag)):
        hits, starts = np.flatnonzero(helical(path)), np.flatnonzero(extended(path))
        following = np.searchsorted(hits, starts, side="right")
        kept = following < len(hits)
        waits.append((hits[following[kept]] - starts[kept]) * lag)
    return float(np.mean(np.concatenate(waits)))


def test_a_molecule_folds_as_fast_as_its_counted_model_says_and_as_was_seen(torsions: list[np.ndarray]) -> None:
    """Mean passage to the helix at a lag of 10 ps: 186 ps here, 186 ps by the rival's counts, 184 ps as seen."""
    state, following = lagged(torsions, 10)
    problem = hitting(state, following, helical, duration=np.full(len(state), 10.0))
    result = periodic(problem, primal_penalty=1e-7, dual_penalty=1e-3)
    found = float(np.mean(np.asarray(result.primal(state[extended(state)]))))
    assert found == pytest.approx(seen_passages(torsions, 10), rel=0.05)
    model, boxes = counted(torsions, 10)
    assert found == pytest.approx(model.mfpt(*boxes), rel=0.05)


def test_a_molecule_commits_itself_as_its_counted_model_says(torsions: list[np.ndarray]) -> None:
    """At a lag of 1 ps; the probabilities spread by 0.16 over the states between, and the two differ by 0.02."""
    state, following = lagged(torsions, 1)
    between = ~(helical(state) | extended(state))
    problem = committor(state[between], following[between], extended, helical)
    result = periodic(problem, primal_penalty=1e-6, dual_penalty=1e-4)
    model, boxes = counted(torsions, 1)
    numbers = cells(state[between])
    found = np.bincount(numbers, np.asarray(result.primal(state[between]))) / np.maximum(np.bincount(numbers), 1)
    rest = np.setdiff1d(np.arange(model.n_states), np.concatenate(boxes))
    share = model.stationary_distribution[rest] / model.stationary_distribution[rest].sum()
    wanted = model.committor_forward(*boxes)[rest]
    difference = found[model.count_model.state_symbols[rest]] - wanted
    assert np.sqrt(share @ (wanted - share @ wanted) ** 2) > 0.15
    assert np.sqrt(share @ difference**2) < 0.035
    assert abs(share @ difference) < 0.01
