"""The benchmark `speed`: what a user waits for, beside what the machine could do and what else there is.

Times are processor seconds of one core, the least of a few runs of both sides in turn, so that a busy machine slows
both alike. A ratio is the other side's time over ours, at least `target` where the comparison holds. The other side is
the machine itself (bare matrix products, exponentials or cosines of the same size), another way to the same answer, or
a limit in seconds that was set for one core of 2026; only the last depends on the machine.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks, kernels, problems, schedules, solvers, sources, spaces
from dualembed.baselines import KernelIV
from dualembed.estimators import ActionValueEvaluator, HittingTimeRegressor, IVRegressor, PolicyEvaluator
from dualembed.linear import gather_moments
from dualembed.progress import Track
from dualembed.report import write_report
from dualembed.saddle import Saddle
from dualembed.solvers import solve
from dualembed.solvers.closed_form import feature_maps, solution_path
from dualembed.threads import one_thread

LIMIT = "a limit"
COLUMNS = 4
EPISODE = 50  # rows


class Comparison(NamedTuple):
    """What the other side took, in seconds, what we took, and the ratio that is wanted."""

    case: str
    peer: str
    theirs: float
    ours: float
    target: float
    more: dict[str, Any] = {}  # noqa: RUF012 - never changed

    def line(self) -> dict[str, Any]:
        """The line of the benchmark."""
        found = {"bench": "speed", "case": self.case, "peer": self.peer, "value": round(self.theirs, 6), "unit": "s"}
        return {
            **found,
            "ratio": round(self.theirs / self.ours, 3),
            "target": self.target,
            "ours": self.ours,
            **self.more,
        }


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def fastest(*works: Callable[[], object], rounds: int = 3) -> list[float]:
    """The least seconds of each, all of them in turn in every round."""
    return np.min([[seconds(work) for work in works] for _ in range(rounds)], axis=0).tolist()


def of_process(arguments: list[str]) -> float:
    """Processor seconds of a new process."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def transitions(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """So many rows of a process of four coordinates, with a reward."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(rows, COLUMNS))
    following = 0.8 * states + 0.5 * rng.normal(size=states.shape)
    rewards = np.sin(states[:, 0]) + 0.1 * rng.normal(size=rows)
    return {
        "states": states,
        "rewards": rewards,
        "next_states": following,
        "episodes": np.arange(rows) // EPISODE,
    }


def market(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """So many rows of a treatment with an instrument and three controls."""
    rng = np.random.default_rng(seed)
    z, u, *w = rng.normal(size=(5, rows))
    return {"X": (z + u)[:, None], "y": np.sin(z + u) + u + w[0] ** 2, "instruments": z, "controls": np.stack(w).T}


def fits(rows: int) -> dict[str, Callable[[], Any]]:
    """A default fit of each of the largest tasks to so many rows."""
    moves, trade = transitions(rows), market(rows)
    steps = {"states": moves["states"], "next_states": moves["next_states"], "episodes": moves["episodes"]}
    actions = np.arange(rows) % 2
    return {
        "values": lambda: PolicyEvaluator(0.9).fit(**moves),
        "action values": lambda: ActionValueEvaluator(0.9, _even).fit(**moves, actions=actions),
        "hitting times": lambda: HittingTimeRegressor(_far).fit(**steps),
        "instruments": lambda: IVRegressor().fit(**trade),
    }


def _even(states: Any) -> np.ndarray:
    return np.full((len(states), 2), 0.5)


def _far(states: Any) -> np.ndarray:
    return np.asarray(states)[:, 0] > 1


def start(quick: bool) -> Iterator[Comparison]:
    """Until the help is there, and until a small fit is, in a new process; and a second fit in the same."""
    yield Comparison("import dualembed", LIMIT, 0.3, of_process(["-c", "import dualembed"]), 1.0)
    yield Comparison("--help", LIMIT, 0.3, of_process(["-m", "dualembed", "--help"]), 1.0)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "log.csv"
        moves = transitions(2000)
        names = [f"{name}{i}" for name in ("s", "n") for i in range(COLUMNS)]
        columns = np.column_stack([moves["states"], moves["next_states"], moves["rewards"], moves["episodes"]])
        np.savetxt(table, columns, delimiter=",", header=",".join([*names, "r", "run"]), comments="")
        roles = ["--state", "s*", "--next-state", "n*", "--episode", "run"]
        tasks = {"policy-evaluation": ["--reward", "r", "--discount", "0.9"], "hitting-time": ["--target", "s0 > 1"]}
        for task, more in tasks.items():
            found = of_process(["-m", "dualembed", "fit", task, str(table), *roles, *more])
            yield Comparison(f"fit {task} of 2,000 x 4 in a new process", LIMIT, 3.0, found, 1.0)
    for name, fit in fits(2000).items():
        fit()
        yield Comparison(f"a second fit of {name}, 2,000 x 4", LIMIT, 1.5, fastest(fit)[0], 1.0)


def selection(quick: bool) -> Iterator[Comparison]:
    """A default fit against one closed form of 500 features a side on the same rows."""
    rows = 10_000
    trade = market(rows)
    x = np.column_stack([trade["X"], trade["controls"]])
    z = np.column_stack([trade["instruments"], trade["controls"]])
    problem = problems.InstrumentalVariables(sources.Dataset(x=x, y=trade["y"], z=z))
    space = spaces.Nystrom(kernels.Gaussian(2.0), 500)
    saddle = Saddle(problem, space, space, primal_penalty=1e-3, dual_penalty=1e-3)

    def once() -> Any:
        with one_thread():
            return solve(0, saddle, solvers.ClosedForm(folds=2))

    for name, fit in fits(rows).items():
        theirs, ours = fastest(once, fit, rounds=1 if quick else 3)
        yield Comparison(f"a default fit of {name}, 10,000 x 4", "25 closed forms", 25 * theirs, ours, 1.0)


def rows(quick: bool) -> Iterator[Comparison]:
    """Many rows, and whether twice as many take twice as long."""
    sizes = (50_000, 100_000) if quick else (100_000, 200_000, 400_000, 800_000)
    taken = {}
    for size in sizes:
        moves = transitions(size)
        taken[size] = seconds(functools.partial(PolicyEvaluator(0.9).fit, **moves))
    yield Comparison("values, 100,000 x 4", LIMIT, 20.0, taken[100_000], 1.0)
    for size in sizes[1:]:
        limit = 2.1 * taken[size // 2]
        yield Comparison(f"values, {size:,} x 4", "2.1 times half as many", limit, taken[size], 1.0)
    if not quick:
        moves = transitions(1_000_000)
        found = seconds(lambda: PolicyEvaluator(0.9).fit(**moves))
        yield Comparison("values, 1,000,000 x 4", LIMIT, 120.0, found, 1.0)


def closed_form(quick: bool) -> Iterator[Comparison]:
    """The pass over the data with its features against bare products, and a path of penalties against the pass."""
    count, size, tile = (40_000, 512, 20_000) if quick else (200_000, 1024, 20_000)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, count)
    z, y = x + 0.3 * rng.normal(size=count), np.sin(3 * x) + 0.1 * rng.normal(size=count)
    problem = problems.Invariance(sources.Dataset(x=x, y=y, z=z))
    space = spaces.Fourier(kernels.Gaussian(0.3), size=size)
    maps = feature_maps(jax.random.key(0), Saddle(problem, space, space))
    phi, g = rng.normal(size=(2, tile, size))

    def bare() -> None:
        for _ in range(count // tile):
            phi.T @ g, phi.T @ phi, g.T @ g

    with one_thread():
        products, ours = fastest(bare, lambda: gather_moments(problem, *maps))
        name = f"{count:,} rows, {size:,} features a side"
        yield Comparison(f"a pass over {name}", "three float64 products", products, ours, 0.6)
        sums = gather_moments(problem, *maps)
        penalties = np.logspace(-8, 1, 10).tolist()
        path = fastest(lambda: solution_path(sums, penalties, penalties), rounds=1)[0]
        yield Comparison(f"10 x 10 penalties, {size:,} features a side", "a fifth of that pass", ours / 5, path, 1.0)


def stochastic(quick: bool) -> Iterator[Comparison]:
    """Expansions against bare exponentials, cosines, features drawn again, steps of small problems, many trials."""
    centres, batch = (20_000 if quick else 100_000), 50
    rng = np.random.default_rng(0)
    for dimension in (1, 4, 12):
        points = jnp.asarray(rng.normal(size=(centres, dimension)))
        given = points[:batch], points, jnp.asarray(rng.normal(size=centres))
        ours, bare = _compiled(_expansion, *given), _compiled(_exponentials, *given)
        mine, theirs = fastest(_repeat(ours, 20), _repeat(bare, 20), rounds=4)
        case = f"a batch of {batch} on {centres:,} centres, d = {dimension}"
        yield Comparison(case, "bare exponentials of products", theirs, mine, 0.6)
    yield from _features(quick)
    yield from _steps()


def _expansion(points: jax.Array, centres: jax.Array, weights: jax.Array) -> Any:
    return kernels.Gaussian(1.0).gram(points, centres) @ weights


def _exponentials(points: jax.Array, centres: jax.Array, weights: jax.Array) -> jax.Array:
    return jnp.exp(-jnp.abs(points @ centres.T)) @ weights


def _compiled(function: Callable[..., Any], *arguments: jax.Array) -> Callable[[], object]:
    """The function of these arguments, until it is done."""
    compiled = jax.jit(function)
    return lambda: compiled(*arguments).block_until_ready()


def _features(quick: bool) -> Iterator[Comparison]:
    """Cosines of random features, and features that are drawn again at every step."""
    rng = np.random.default_rng(0)
    angles = jnp.asarray(30 * rng.normal(size=(2000, 1000)))
    from dualembed.spaces.fourier import cosine

    theirs, ours = fastest(*(_repeat(_compiled(work, angles), 5) for work in (jnp.cos, cosine)), rounds=4)
    error = float(jnp.max(jnp.abs(cosine(angles) - np.cos(np.asarray(angles, dtype=np.float64)))))
    yield Comparison("2,000,000 cosines", "jnp.cos", theirs, ours, 4.0, {"largest error": error})
    steps, batch, block = (500 if quick else 1500), 20, 8
    x = rng.uniform(-1, 1, 5000)
    data = sources.Dataset(x=x, z=x + 0.1 * rng.normal(size=5000), y=np.sin(3 * x))
    solver = solvers.EmbeddingSGD(steps, batch, schedules.InverseSqrt(0.5))
    stored = spaces.Fourier(kernels.Gaussian(0.3), size=steps * block)
    drawn = spaces.DoublyStochastic(kernels.Gaussian(0.3), block=block)
    runs = [_solving(problems.Invariance(data), each, solver) for each in (stored, drawn)]
    theirs, ours = fastest(*runs, rounds=3)
    case = f"doubly stochastic features, {steps} steps of {block}"
    yield Comparison(case, "as many stored ones, all from the start", theirs, ours, 1 / 1.3)


def _steps() -> Iterator[Comparison]:
    """Steps of a small problem beside their arithmetic, and ten trials at once beside ten one by one."""
    rng = np.random.default_rng(0)
    steps, batch, size = 20_000, 20, 256
    x = rng.uniform(-1, 1, 5000)
    data = sources.Dataset(x=x, z=x + 0.1 * rng.normal(size=5000), y=np.sin(3 * x))
    space = spaces.Fourier(kernels.Gaussian(0.3), size=size)
    saddle = Saddle(problems.Invariance(data), space, space)
    solver = solvers.EmbeddingSGD(steps, batch, schedules.InverseSqrt(0.5))
    run = _solving(saddle.problem, space, solver)
    points = jnp.asarray(rng.normal(size=(2, batch, size)))

    @jax.jit
    def arithmetic(weights: jax.Array) -> jax.Array:
        def step(_: int, both: jax.Array) -> jax.Array:
            waves = jnp.cos(points + both[:, None])
            values = jnp.einsum("kbs,ks->kb", waves, both)
            return both - 1e-3 * jnp.einsum("kbs,kb->ks", waves, values)

        return jax.lax.fori_loop(0, steps, step, weights)

    first = jnp.zeros((2, size))
    bare, ours = fastest(lambda: arithmetic(first).block_until_ready(), run, rounds=3)
    over = (ours - bare) / steps
    case = f"overhead of a step, batch {batch}, {size} features"
    yield Comparison(case, LIMIT, 15e-6, max(over, 1e-9), 1.0, {"seconds of a step": ours / steps})
    short = solvers.EmbeddingSGD(2000, batch, schedules.InverseSqrt(0.5))
    once = jax.jit(lambda key: short.solve(key, saddle, None).primal(jnp.zeros((1, 1))))
    keys = jax.random.split(jax.random.key(0), 10)
    many = jax.jit(jax.vmap(once))
    theirs, ours = fastest(
        lambda: [once(key).block_until_ready() for key in keys], lambda: many(keys).block_until_ready(), rounds=3
    )
    yield Comparison("ten trials at once", "ten trials", theirs, ours, 1.0)


def _solving(problem: Any, space: Any, solver: Any) -> Callable[[], object]:
    """A run that has been compiled before."""
    saddle = Saddle(problem, space, space)
    return lambda: np.asarray(solve(0, saddle, solver).primal(np.zeros((1, 1))))


def _repeat(work: Callable[[], object], times: int) -> Callable[[], None]:
    def repeated() -> None:
        for _ in range(times):
            work()

    return repeated


def prediction(quick: bool) -> Iterator[Comparison]:
    """Values at many points, and their standard errors."""
    count = 50_000 if quick else 1_000_000
    model = PolicyEvaluator(0.9).fit(**transitions(2000))
    points = np.random.default_rng(1).normal(size=(count, COLUMNS))
    fitted: Any = model.paths_
    centres = [np.asarray(path.features.landmarks) for path in fitted.candidates.paths]

    def bare() -> None:
        for start in range(0, count, 2000):
            tile = points[start : start + 2000]
            for each in centres:
                np.exp(-np.abs(tile @ each.T)) @ np.ones((len(each), 1))

    with one_thread():
        asked = [functools.partial(model.predict, points, return_std=each) for each in (False, True)]
        theirs, ours, errors = fastest(bare, *asked, rounds=1 if quick else 2)
    peer = "products and exponentials of as many centres"
    yield Comparison(f"predictions at {count:,} points", peer, theirs, ours, 0.6)
    yield Comparison(f"standard errors at {count:,} points", "three times predictions", 3 * ours, errors, 1.0)


def report(quick: bool) -> Iterator[Comparison]:
    """The page of a fit with 14 columns."""
    rng = np.random.default_rng(0)
    count = 2000
    z, u = rng.normal(size=(2, count))
    w = rng.normal(size=(count, 13))
    model = IVRegressor().fit((z + u)[:, None], z + 2 * u + w[:, 0], instruments=z, controls=w)
    with tempfile.TemporaryDirectory() as folder:
        found = seconds(lambda: write_report(model, Path(folder) / "page.html"))
    yield Comparison("a report with 14 columns", LIMIT, 10.0, found, 1.0)


def threads(quick: bool) -> Iterator[Comparison]:
    """Two fits at once, in threads of one process, against two in turn: processor time that is spent on waiting."""
    fit = fits(2000)["values"]
    fit()

    def at_once() -> None:
        workers = [threading.Thread(target=fit) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    in_turn, together = fastest(_repeat(fit, 2), at_once, rounds=2)
    yield Comparison("two fits at once", "two fits in turn", in_turn, together, 1 / 1.2)


def alternatives(quick: bool) -> Iterator[Comparison]:
    """What else there is, on the same rows: at equal or lower error."""
    yield from _kernel_iv(1500 if quick else 5000)
    yield from _nystroem_ridge(2000)
    yield from _rbf_lstd(2000)
    yield from _linear_iv(30_000 if quick else 330_000)


def _kernel_iv(count: int) -> Iterator[Comparison]:
    """Kernel instrumental variables with all rows for centres, its penalties chosen on rows left out."""
    rng = np.random.default_rng(0)
    z, u, own, noise = rng.normal(size=(4, count))
    x = 1.2 * z + 0.8 * u + 0.1 * own
    y = np.abs(x) + 2 * u + 0.1 * noise
    found: dict[str, Any] = {}
    with one_thread():
        theirs = seconds(lambda: found.update(rival=KernelIV().fit(x, y, z)))
        ours = seconds(lambda: found.update(ours=IVRegressor().fit(x[:, None], y, instruments=z)))
    errors = {
        "error": float(np.mean((found["ours"].predict(x[:, None]) - np.abs(x)) ** 2)),
        "rival's error": float(np.mean((np.asarray(found["rival"].primal(x[:, None])) - np.abs(x)) ** 2)),
    }
    yield Comparison(f"|x| by an instrument, {count:,} rows", "kernel IV, exact", theirs, ours, 10.0, errors)


def _nystroem_ridge(count: int) -> Iterator[Comparison]:
    """Plain regression: no noise in x, so that f is the conditional mean itself."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 2))
    truth = np.sin(2 * x[:, 0]) * x[:, 1]
    y = truth + 0.3 * rng.normal(size=count)
    grid = {"nystroem__gamma": np.logspace(-2, 1, 7), "ridge__alpha": np.logspace(-4, 2, 7)}
    search = GridSearchCV(make_pipeline(Nystroem(n_components=300, random_state=0), Ridge()), grid)
    found: dict[str, Any] = {}
    with one_thread():
        theirs = seconds(lambda: search.fit(x, y))
        ours = seconds(lambda: found.update(ours=IVRegressor().fit(x, y)))
    errors = {
        "error": float(np.mean((found["ours"].predict(x) - truth) ** 2)),
        "rival's error": float(np.mean((search.predict(x) - truth) ** 2)),
    }
    peer = "Nystroem and Ridge by cross-validation, 7 x 7"
    yield Comparison(f"plain regression, {count:,} x 2", peer, theirs, ours, 1 / 1.5, errors)


def _rbf_lstd(count: int) -> Iterator[Comparison]:
    """LSTD on 300 radial functions, bandwidth and ridge by the projected Bellman error on rows left out."""
    from dualembed.experiments import navigation

    rng = np.random.default_rng(0)
    states = np.sqrt(navigation.STATE_VARIANCE) * rng.normal(size=(count, 2))
    means, rewards = (np.asarray(each(jnp.asarray(states))) for each in (navigation.next_mean, navigation.reward))
    following = means + np.sqrt(navigation.NOISE_VARIANCE) * rng.normal(size=(count, 2))
    found: dict[str, Any] = {}

    places = states[rng.permutation(count)[:300]]
    typical = float(np.median(np.linalg.norm(places[:, None] - places[None], axis=2)))
    folds = rng.integers(5, size=count)

    def rival() -> None:
        scores: dict[tuple[float, float], float] = {}
        for width in typical * np.array([0.0625, 0.125, 0.25, 0.5, 1.0, 2.0]):
            now, after = (_radial(each, places, width) for each in (states, following))
            step = now - navigation.DISCOUNT * after
            for fold in range(5):
                own = folds == fold
                gram = now[own].T @ now[own] + 1e-3 * np.eye(now.shape[1])
                for ridge in RIDGES:
                    residual = step[own] @ _lstd(now[~own], step[~own], rewards[~own], ridge) - rewards[own]
                    projected = now[own].T @ residual
                    error = float(projected @ np.linalg.solve(gram, projected))
                    scores[width, ridge] = scores.get((width, ridge), 0.0) + error
        width, ridge = min(scores, key=lambda each: scores[each])
        now, after = (_radial(each, places, width) for each in (states, following))
        found["rival"] = width, _lstd(now, now - navigation.DISCOUNT * after, rewards, ridge)

    with one_thread():
        theirs = seconds(rival)
        fit = PolicyEvaluator(navigation.DISCOUNT).fit
        ours = seconds(lambda: found.update(ours=fit(states=states, rewards=rewards, next_states=following)))
    width, weights = found["rival"]
    asked = navigation.evaluation_states()
    paid, led = (np.asarray(each(jnp.asarray(asked))) for each in (navigation.reward, navigation.next_mean))

    def bellman_error(value: Callable[[np.ndarray], np.ndarray]) -> float:
        ahead = navigation.expected_value(value, led)
        return float(np.mean((value(asked) - paid - navigation.DISCOUNT * ahead) ** 2))

    errors = {
        "error": bellman_error(found["ours"].predict),
        "rival's error": bellman_error(lambda s: _radial(s, places, width) @ weights),
    }
    yield Comparison(
        f"Navigation, {count:,} rows", "LSTD, 6 widths x 8 ridges in five folds", theirs, ours, 1.0, errors
    )


RIDGES = np.logspace(-8, -1, 8).tolist()  # of the rival


def _lstd(now: np.ndarray, step: np.ndarray, rewards: np.ndarray, ridge: float) -> np.ndarray:
    cross = now.T @ step
    return np.linalg.solve(cross + ridge * np.trace(cross) / len(cross) * np.eye(len(cross)), now.T @ rewards)


def _radial(points: np.ndarray, places: np.ndarray, width: float) -> np.ndarray:
    squares = np.sum((points[:, None] - places) ** 2, axis=2)
    return np.concatenate([np.ones((len(points), 1)), np.exp(-squares / (2 * width**2))], axis=1)


def _linear_iv(count: int) -> Iterator[Comparison]:
    """A line by instruments with errors, as large as Angrist and Krueger's sample."""
    try:
        from linearmodels.iv import IV2SLS
    except ImportError:
        return
    rng = np.random.default_rng(0)
    quarter = np.eye(30)[rng.integers(30, size=count)][:, 1:]
    controls, u = rng.normal(size=(count, 9)), rng.normal(size=count)
    x = 0.5 * quarter[:, 0] + controls[:, 0] + u + rng.normal(size=count)
    y = 0.1 * x + controls[:, 1] + u
    constant = np.column_stack([np.ones(count), controls])
    found: dict[str, Any] = {}
    line = IVRegressor(primal="linear", dual="linear")
    with one_thread():
        theirs = seconds(lambda: found.update(rival=IV2SLS(y, constant, x, quarter).fit(cov_type="robust").summary))
        fit = functools.partial(line.fit, x[:, None], y, instruments=quarter, controls=controls)
        ours = seconds(lambda: found.update(ours=fit().linear_))
    yield Comparison(f"a line by 29 instruments, {count:,} rows", "linearmodels' IV2SLS", theirs, ours, 0.5)


PARTS: dict[str, Callable[[bool], Iterator[Comparison]]] = {
    "start": start,
    "selection": selection,
    "rows": rows,
    "closed form": closed_form,
    "stochastic": stochastic,
    "prediction": prediction,
    "report": report,
    "threads": threads,
    "alternatives": alternatives,
}
"""Every part by its name, which `--case` chooses among."""


def bench(
    *, trials: int, seed: int, quick: bool, progress: Track, case: str | None = None, kind: str | None = None
) -> Iterator[dict[str, Any]]:
    """A line for each comparison as soon as it is made; `case` is a part, as in 'rows' or 'st*'."""
    if kind not in (None, "speed"):
        raise checks.InputError(f"there is no set of cases named '{kind}' in speed; --case chooses a part")
    parts = [work for name, work in PARTS.items() if case is None or fnmatch.fnmatchcase(name, case)]
    if not parts:
        raise checks.InputError(f"no part is named '{case}'; parts are {', '.join(PARTS)}")
    with progress(len(parts), "speed") as bar:
        for number, part in enumerate(parts):
            for comparison in part(quick):
                yield comparison.line()
            bar.advance(to=number + 1)


def tables(lines: Sequence[dict[str, Any]]) -> Iterator[Any]:
    """One table of all comparisons, and how many hold."""
    from rich.table import Table

    grid = Table(title="speed", title_justify="left")
    grid.add_column("what")
    grid.add_column("beside")
    for heading in ("theirs", "ours", "ratio", "target", "holds"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for line in lines:
        holds = "yes" if line["ratio"] >= line["target"] else "no"
        times = [f"{line[name]:.3g} s" for name in ("value", "ours")]
        grid.add_row(line["case"], line["peer"], *times, f"{line['ratio']:.2f}", f"{line['target']:.2f}", holds)
    yield grid
    yield f"{sum(line['ratio'] >= line['target'] for line in lines)} of {len(lines)} comparisons hold."
