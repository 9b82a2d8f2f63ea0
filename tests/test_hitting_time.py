"""Hitting times, return times and committors: exact on finite chains, and close to known answers on continuous ones."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import csgraph
from scipy.special import ndtr

import dualembed as de
from dualembed import kernels, problems, schedules, solvers, sources, spaces
from dualembed.checks import InputError

DATA = Path(os.environ.get("DUALEMBED_DATA", Path(__file__).parents[2] / "shared" / "data")) / "markov"
LINKS, TORSIONS = DATA / "wikispeedia_links.tsv.gz", DATA / "ala2_phipsi_3x20ns.npz"
STATES, TRIALS = 6, 12
EXACT = {"closed form": solvers.ClosedForm(folds=1), "sparse form": solvers.SparseForm()}
TABLE = spaces.Table()


def counts(seed: int) -> np.ndarray:
    """Transitions (6, 6) out of twelve from each state; a ring within makes every state reach every other."""
    rng = np.random.default_rng(seed)
    found = np.stack([rng.multinomial(TRIALS - 2, rng.dirichlet(np.full(STATES, 0.4))) for _ in range(STATES)])
    ring = np.roll(np.eye(STATES, dtype=int), 1, axis=1)
    return found + ring + ring.T


def transitions(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(s, s') with every pair as often as its number says: the frequencies are the chain's probabilities exactly."""
    state, following = np.nonzero(numbers)
    times = numbers[state, following]
    return np.repeat(state, times).astype(float), np.repeat(following, times).astype(float)


def solved(problem: problems.Problem, points: np.ndarray, solver: str = "sparse form") -> np.ndarray:
    """f at the points, in float64, with a table on either side."""
    with jax.enable_x64(True):
        return np.asarray(de.solve(0, de.Saddle(problem, TABLE, TABLE), EXACT[solver]).primal(points))


def hitting(state: np.ndarray, following: np.ndarray, target: object, **more: np.ndarray) -> problems.HittingTime:
    arrived = problems.arrivals(following, target)
    return problems.HittingTime(sources.Dataset(state=state, next_state=following, arrived=arrived, **more))


def killed(chain: np.ndarray, target: list[int] | int) -> np.ndarray:
    """I - P without the transitions into the target."""
    matrix = np.eye(len(chain)) - chain
    matrix[:, target] = np.eye(len(chain))[:, target]
    return matrix


@pytest.mark.parametrize("seed", range(20))
def test_on_a_finite_chain_the_time_to_a_set_is_that_of_linear_algebra(seed: int) -> None:
    numbers, target = counts(seed), [1, 4]
    exact = np.linalg.solve(killed(numbers / TRIALS, target), np.ones(STATES))
    problem = hitting(*transitions(numbers), target)
    for solver in EXACT:
        np.testing.assert_allclose(solved(problem, np.arange(STATES), solver), exact, rtol=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_all_pairs_of_states_at_once_and_return_times_are_one_over_stationary_probabilities(seed: int) -> None:
    numbers = counts(seed)
    chain = numbers / TRIALS
    exact = np.stack([np.linalg.solve(killed(chain, t), np.ones(STATES)) for t in range(STATES)], axis=1)
    problem = problems.HittingTime(sources.Dataset(**problems.pairs(*transitions(numbers), np.arange(STATES))))
    every = np.stack(np.meshgrid(np.arange(STATES), np.arange(STATES), indexing="ij"), axis=-1).reshape(-1, 2)
    values, vectors = np.linalg.eig(chain.T)
    stationary = np.real(vectors[:, np.argmax(values.real)])
    for solver in EXACT:
        found = solved(problem, every, solver).reshape(STATES, STATES)
        np.testing.assert_allclose(found, exact, rtol=1e-8)
        np.testing.assert_allclose(1 / np.diag(found), stationary / stationary.sum(), rtol=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_on_a_finite_chain_the_committor_is_that_of_linear_algebra(seed: int) -> None:
    """The states of A and B are never left in these data, and have no equation of their own."""
    numbers, inner = counts(seed), np.arange(1, STATES - 1)
    chain = numbers / TRIALS
    exact = np.linalg.solve(np.eye(STATES - 2) - chain[np.ix_(inner, inner)], chain[inner, -1])
    state, following = transitions(numbers)
    outside = np.isin(state, inner)
    problem = committor(state[outside], following[outside], [0], [STATES - 1])
    for solver in EXACT:
        np.testing.assert_allclose(solved(problem, inner, solver), exact, atol=1e-8)


def committor(state: np.ndarray, following: np.ndarray, back: object, there: object) -> problems.Committor:
    marks = {"arrived": problems.arrivals(following, there), "returned": problems.arrivals(following, back)}
    return problems.Committor(sources.Dataset(state=state, next_state=following, **marks))


def test_transitions_of_several_durations_give_times_and_not_steps() -> None:
    numbers = counts(0)
    state, following = transitions(numbers)
    duration = 1.0 + state
    exact = np.linalg.solve(killed(numbers / TRIALS, [2]), 1.0 + np.arange(STATES))
    np.testing.assert_allclose(
        solved(hitting(state, following, [2], duration=duration), np.arange(STATES)), exact, rtol=1e-8
    )


def test_embedding_sgd_approaches_the_exact_times() -> None:
    numbers = counts(0)
    exact = np.linalg.solve(killed(numbers / TRIALS, [1, 4]), np.ones(STATES))
    saddle = de.Saddle(hitting(*transitions(numbers), [1, 4]), TABLE, TABLE)
    errors = []
    for steps in (200, 20_000):
        run = de.solve(0, saddle, solvers.EmbeddingSGD(steps, 24, schedules.OffsetSqrt(5.0, 1.0)))
        errors.append([relative_error(f(np.arange(STATES)), exact) for f in (run.primal, run.last.primal)])
    assert errors[1][0] < 0.1  # the way from zero counts in the average
    assert errors[1][1] < 0.005
    assert errors[1][0] < 0.2 * errors[0][0]


def relative_error(found: jax.Array, exact: np.ndarray) -> float:
    return float(np.max(np.abs(np.asarray(found) / exact - 1)))


@pytest.mark.parametrize("solver", EXACT)
def test_a_birth_death_chain_has_the_times_of_its_formula(solver: str) -> None:
    """Up with probability u, down with d, at 0 it stays instead: t_j = 1/u + (d/u) t_(j-1) from j to j + 1.

    With r = d/u that is t_j = (1 + r + ... + r^j) / u, and h(k, N) = t_k + ... + t_(N-1).
    """
    up, down = 3, 5  # out of twelve; the rest stays
    state = np.repeat(np.arange(STATES), TRIALS).astype(float)
    moves = np.tile(np.r_[np.ones(up), -np.ones(down), np.zeros(TRIALS - up - down)], STATES)
    climb = np.cumsum((down / up) ** np.arange(STATES)) * TRIALS / up
    exact = np.cumsum(climb[::-1])[::-1]
    found = solved(hitting(state, np.maximum(state + moves, 0), [STATES]), np.arange(STATES), solver)
    np.testing.assert_allclose(found, exact, rtol=1e-8)


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
    if not LINKS.exists():
        pytest.skip(f"the links between articles are not there: {LINKS}")
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


# An Ornstein-Uhlenbeck process seen once a time unit: x' = x/2 + √(3/4) ξ.

PULL, NOISE = 0.5, np.sqrt(0.75)


def nodes(low: float, high: float) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Gauss-Legendre points y in an interval, and x -> p(y|x) times their weights."""
    y, weights = np.polynomial.legendre.leggauss(200)
    y, weights = (high - low) / 2 * y + (high + low) / 2, (high - low) / 2 * weights
    scale = NOISE * np.sqrt(2 * np.pi)
    return y, lambda x: np.exp(-0.5 * ((y - PULL * x[:, None]) / NOISE) ** 2) / scale * weights


def time_to_one(x: np.ndarray) -> np.ndarray:
    """h = 1 + ∫ p(x'|x) 1{x' < 1} h(x') dx' by quadrature."""
    y, density = nodes(-8.0, 1.0)
    return 1 + density(x) @ np.linalg.solve(np.eye(len(y)) - density(y), np.ones(len(y)))


def one_before_minus_one(x: np.ndarray) -> np.ndarray:
    """q = P(x' >= 1 | x) + ∫ p(x'|x) 1{-1 < x' < 1} q(x') dx' by quadrature."""
    y, density = nodes(-1.0, 1.0)

    def at_once(x: np.ndarray) -> np.ndarray:
        return ndtr((PULL * x - 1) / NOISE)

    return at_once(x) + density(x) @ np.linalg.solve(np.eye(len(y)) - density(y), at_once(y))


def steps(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    return x, PULL * x + NOISE * rng.normal(size=rows)


def above(states: np.ndarray) -> np.ndarray:
    return states[:, 0] >= 1


def below(states: np.ndarray) -> np.ndarray:
    return states[:, 0] <= -1


def test_a_continuous_process_is_as_far_from_a_set_as_quadrature_says() -> None:
    """Within 6 %: 2 % here, and 1 to 6 % over ten seeds, which is the chance in 20,000 steps."""
    smooth = spaces.Nystrom(kernels.Gaussian(1.5), size=40)
    saddle = de.Saddle(hitting(*steps(20_000), above), smooth, smooth, primal_penalty=1e-6, dual_penalty=1e-6)
    result = de.solve(0, saddle, solvers.ClosedForm())
    xs = np.linspace(-2, 2, 41)  # beyond 1 these are times of return
    assert relative_error(result.primal(xs), time_to_one(xs)) < 0.06


@pytest.mark.slow
def test_a_model_chosen_by_itself_is_as_far_from_a_set_as_quadrature_says() -> None:
    """Within 10 %, twice the standard error it states, on a fifth of those steps."""
    result = de.auto(0, hitting(*steps(4000, seed=3), above))
    xs = np.linspace(-2, 2, 41)
    exact = time_to_one(xs)
    assert relative_error(result.primal(xs), exact) < 0.1
    lower, upper = result.uncertainty.posterior.interval(xs)
    assert np.mean((lower <= exact) & (exact <= upper)) > 0.9
    assert 0.02 < np.mean((upper - lower) / exact) < 0.4


def test_the_committor_of_a_continuous_process_is_that_of_quadrature() -> None:
    """Within 0.025: 0.013 here, and 0.007 to 0.022 over ten seeds."""
    x, following = steps(40_000)
    between = np.flatnonzero(np.abs(x) < 1)[:20_000]
    smooth = spaces.Nystrom(kernels.Gaussian(2.0), size=30)
    problem = committor(x[between], following[between], below, above)
    result = de.solve(
        0, de.Saddle(problem, smooth, smooth, primal_penalty=1e-6, dual_penalty=1e-6), solvers.ClosedForm()
    )
    xs = np.linspace(-1, 1, 21)
    exact = one_before_minus_one(xs)
    assert np.ptp(exact) > 0.25
    np.testing.assert_allclose(result.primal(xs), exact, atol=0.025)


# Alanine dipeptide: the torsions (φ, ψ) in degrees, and two of its conformations as boxes of them.

CELL = 15  # degrees, of the grid that the rival counts transitions on; the boxes are made of such cells


def extended(angles: np.ndarray) -> np.ndarray:
    return (angles[:, 0] < -90) & (angles[:, 1] >= 120)


def helical(angles: np.ndarray) -> np.ndarray:
    return (angles[:, 0] >= -120) & (angles[:, 0] < -30) & (angles[:, 1] >= -90) & (angles[:, 1] < 0)


@pytest.fixture(scope="module")
def torsions() -> list[np.ndarray]:
    if not TORSIONS.exists():
        pytest.skip(f"the torsions of alanine dipeptide are not there: {TORSIONS}")
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


# What is refused.


def test_a_target_that_is_never_reached_is_named() -> None:
    with pytest.raises(InputError, match=r"no transition reaches the target \(arrived is 0 throughout\)"):
        hitting(np.arange(3.0), np.array([1.0, 2.0, 0.0]), [7])
    with pytest.raises(InputError, match=r"no transition reaches the target \[7.0\] \(1 of 2 targets\)"):
        problems.HittingTime(sources.Dataset(**problems.pairs([0, 1, 2], [1, 2, 0], [1, 7])))
    with pytest.raises(InputError, match=r"no transition reaches A \(returned is 0 throughout\)"):
        committor(np.arange(3.0), np.array([1.0, 2.0, 0.0]), [7], [0])


def test_a_committor_needs_two_sets_that_do_not_overlap() -> None:
    with pytest.raises(InputError, match="A and B must not overlap"):
        committor(np.arange(3.0), np.array([1.0, 2.0, 0.0]), [0, 1], [1])


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"arrived": None}, "arrived missing from"),
        ({"arrived": [0.0, 2.0]}, "arrived must be 0 or 1, not 2.0; mark with 1 where s' lies in the target"),
        ({"arrived": [[0.0], [1.0]]}, r"arrived must have shape \(2,\), but has \(2, 1\)"),
        ({"duration": [1.0, -1.0]}, "duration must not be negative, not -1.0"),
        ({"next_state": [[0.0, 0.0], [0.0, 0.0]]}, "state and next_state must have the same shape"),
    ],
)
def test_columns_that_will_not_do_are_named_in_one_sentence(columns: dict, sentence: str) -> None:
    given = {"state": [0.0, 1.0], "next_state": [1.0, 0.0], "arrived": [1.0, 0.0], **columns}
    with pytest.raises(InputError, match=sentence):
        problems.HittingTime(sources.Dataset(**{name: value for name, value in given.items() if value is not None}))


def test_targets_that_do_not_fit_the_states_are_refused() -> None:
    with pytest.raises(InputError, match=r"yes or no for each of 2 states, not \(2, 1\)"):
        problems.arrivals([0.0, 1.0], lambda states: states > 0)
    with pytest.raises(InputError, match=r"target states must have 1 coordinate\(s\), but have 2"):
        problems.arrivals([0.0, 1.0], [[0.0, 1.0]])
    with pytest.raises(InputError, match="target must be numbers, not <U4"):
        problems.arrivals([0.0, 1.0], "goal")
    with pytest.raises(InputError, match="what the target says must be 0 or 1, not nan"):
        problems.arrivals([0.0, 1.0], lambda states: states[:, 0] * np.nan)
    with pytest.raises(InputError, match="need equally many coordinates"):
        problems.pairs([0.0, 1.0], [1.0, 0.0], [[0.0, 1.0]])


def trapped() -> np.ndarray:
    """A chain whose states 0 and 1 are never left, and 3 never reached from them."""
    numbers = counts(0)
    numbers[:2] = 0
    numbers[:2, :2] = [[5, 7], [7, 5]]
    return numbers


def test_where_the_target_is_out_of_reach_the_sparse_form_refuses_and_the_witness_is_not_zero() -> None:
    problem = hitting(*transitions(trapped()), [3])
    with pytest.raises(InputError, match="no way to where it is known"):
        solved(problem, np.arange(STATES))
    result = de.solve(0, de.Saddle(problem, TABLE, TABLE), EXACT["closed form"])
    assert np.max(np.abs(np.asarray(result.dual(np.arange(STATES))))) > 0.1
    fine = de.solve(0, de.Saddle(hitting(*transitions(counts(0)), [3]), TABLE, TABLE), EXACT["closed form"])
    assert np.max(np.abs(np.asarray(fine.dual(np.arange(STATES))))) < 1e-6


def test_a_state_that_is_never_left_is_refused_unless_a_penalty_decides() -> None:
    """h(2) = 1 + h(2): the weights cancel, and least squares alone would drop the equation and say 0."""
    data = sources.Dataset(state=[0, 1, 2], next_state=[1, 9, 2], arrived=[0, 1, 0])
    with pytest.raises(InputError, match="no function fulfils the equations of 1 of the 3 contexts"):
        solved(problems.HittingTime(data), np.arange(3))
    saddle = de.Saddle(problems.HittingTime(data), TABLE, TABLE, primal_penalty=1e-9)
    np.testing.assert_allclose(de.solve(0, saddle, solvers.SparseForm()).primal([0, 1]), [2, 1], rtol=1e-5)


def test_with_penalties_the_sparse_form_is_the_closed_form() -> None:
    problem = hitting(*transitions(trapped()), [3])
    for penalties in ({"primal_penalty": 0.01}, {"primal_penalty": 0.01, "dual_penalty": 0.1}):
        saddle = de.Saddle(problem, TABLE, TABLE, **penalties)
        one, other = (de.solve(0, saddle, solver) for solver in EXACT.values())
        for pair in ((one.primal, other.primal), (one.dual, other.dual)):
            np.testing.assert_allclose(pair[0](np.arange(STATES)), pair[1](np.arange(STATES)), rtol=1e-5, atol=1e-6)


def test_a_table_of_its_own_points_is_refused_where_it_might_miss_some() -> None:
    pilot = np.arange(4096.0)[:, None]
    shown = {"steps": 1000, "batch": 10, "per_sample": 2}
    with pytest.raises(InputError, match=r"2048 samples shown before a run, of which .* 2049.*: Table\(points\)"):
        TABLE.feature_map(jax.random.key(0), spaces.Layout(pilot, capacity=2049, **shown))
    assert TABLE.feature_map(jax.random.key(0), spaces.Layout(pilot, capacity=2048, **shown)).size == 4096
    assert spaces.Table([3, 1]).feature_map(jax.random.key(0), spaces.Layout(pilot, capacity=9999, **shown)).size == 2
