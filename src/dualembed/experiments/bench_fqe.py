"""The benchmarks `fqe` and `fqe-worlds`: a policy's value from another's log, against fitted Q evaluation by d3rlpy.

Both sides get the same 2,000 logged transitions and the evaluated policy itself; ours is the default, told nothing.

`fqe` is CartPole-v1, where the truth is the mean discounted return of many episodes that the policy plays. Errors are
root mean squares over the trials, times are seconds of one core. The rival's settings were chosen by its errors on logs
of the seeds 1000 and 1001.

`fqe-worlds` is five environments and a policy that draws its actions: so does fitted Q evaluation at next states, and
both take the policy's mean at the starts of the log's episodes. The rival is trained in each of two settings, chosen
for no environment in particular, and its best setting and checkpoint in hindsight count; whether its error has levelled
off by then, its errors at all checkpoints say.
"""

from __future__ import annotations

import contextlib
import fnmatch
import importlib
import io
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.data import collect
from dualembed.estimators import ActionValueEvaluator
from dualembed.experiments.bench_cases import OffPolicy
from dualembed.experiments.bench_peers import NODES
from dualembed.experiments.bench_worlds import POLICIES, Choice, Log, Policy
from dualembed.progress import Track

DISCOUNT = 0.95
TRANSITIONS = 2000
STARTS = 500
EPISODES, QUICK_EPISODES = 20_000, 2000  # of the truth

# The rival's settings to choose from.
SETTINGS: dict[str, dict[str, Any]] = {
    "rate 0.00003, target every 100": {"learning_rate": 3e-5, "target_update_interval": 100},
    "rate 0.0001, target every 30": {"learning_rate": 1e-4, "target_update_interval": 30},
    "rate 0.0001, target every 100": {"learning_rate": 1e-4, "target_update_interval": 100},
    "rate 0.0003, target every 100": {"learning_rate": 3e-4, "target_update_interval": 100},
    "rate 0.001, target every 100": {"learning_rate": 1e-3, "target_update_interval": 100},
}
CHOSEN = "rate 0.0001, target every 100"
BATCH = 100
STEPS = 10_000  # a hundred new targets: 0.95^100 of the first one is left

WORLDS = ("cartpole", "acrobot", "pendulum", "mountaincarcontinuous", "mountaincar")
# At each discount so many steps that of the first target less than a hundredth is left, four checkpoints among them.
WORLD_STEPS, QUICK_WORLD_STEPS = {0.95: 5000, 0.99: 25_000}, 400
EVERY = 50  # steps between targets: with 10, values of cart-poles at 0.99 went between 8 and 170
RATES = {"rate 0.0001": 1e-4, "rate 0.0003": 3e-4}
CASES = {
    case.name: case
    for discount in WORLD_STEPS
    for case in (OffPolicy(world, next(iter(POLICIES[world])), "soft", discount) for world in WORLDS)
}
"""One case for each environment and discount, by its name."""


def behaviour(states: np.ndarray) -> np.ndarray:
    """The probabilities (n, 2) of pushing left and right: mostly the toss of a coin, else against the fall."""
    right = 0.35 + 0.3 / (1 + np.exp(-8 * states[:, 2] - 4 * states[:, 3]))
    return np.stack([1 - right, right], axis=1)


def evaluated(states: Any) -> Any:
    """The actions (n,) of the evaluated policy, which pushes towards the side to which the pole leans."""
    return (states[:, 2] > 0) * 1


def truth(episodes: int, seed: int) -> float:
    """The mean discounted return of so many episodes of the evaluated policy."""
    gymnasium = require("gymnasium", "rl")
    games = gymnasium.make_vec("CartPole-v1", num_envs=episodes, vectorization_mode="vector_entry_point")
    states, _ = games.reset(seed=seed)
    returns, playing, worth = np.zeros(episodes), np.ones(episodes, dtype=bool), 1.0
    while playing.any() and worth > 1e-6:
        states, rewards, terminated, truncated, _ = games.step(evaluated(states))
        returns += worth * np.where(playing, rewards, 0.0)
        playing &= ~(terminated | truncated)
        worth *= DISCOUNT
    return float(returns.mean())


def collect_log(seed: int) -> dict[str, np.ndarray]:
    """Transitions of the behaviour policy."""
    return collect(require("gymnasium", "rl").make("CartPole-v1"), behaviour, TRANSITIONS, seed=1000 * seed, copies=10)


def ours(log: dict[str, np.ndarray], starts: np.ndarray) -> float:
    """The policy's value by the default estimator, told nothing else."""
    columns = log["state"], log["action"], log["reward"], log["next_state"]
    model = ActionValueEvaluator(DISCOUNT, evaluated)
    model.fit(*columns, terminated=log["terminated"], episodes=log["episode"])
    return model.value(starts).value


def fit_q_value(log: dict[str, np.ndarray], starts: np.ndarray, *, setting: str, steps: int, seed: int) -> float:
    """The policy's value by d3rlpy."""
    model = _train(log, evaluated, discount=DISCOUNT, steps=steps, seed=seed, actions=2, **SETTINGS[setting])
    return float(model.predict_value(starts.astype(np.float32), evaluated(starts)).mean())


def _train(
    log: dict[str, np.ndarray],
    policy: Callable[[Any], Any],
    *,
    discount: float,
    steps: int,
    seed: int,
    actions: int,
    epochs: int = 1,
    after_epoch: Callable[[Any, int, int], None] | None = None,
    **options: Any,
) -> Any:
    """d3rlpy's fitted Q evaluation, on standardised states, with its own network of two layers of 256.

    The policy gives actions for states; `actions` is their number, 0 where an action is a real number.
    """
    library, torch = require("d3rlpy", "bench"), require("torch", "bench")
    torch.set_num_threads(1)
    library.seed(seed)
    scaler = library.preprocessing.StandardObservationScaler()
    config = library.ope.FQEConfig(gamma=discount, batch_size=BATCH, observation_scaler=scaler, **options)

    def act(states: Any) -> Any:
        """The policy's actions at states as the rival's network sees them."""
        return policy(scaler.reverse_transform(states))

    # All that is asked of the evaluated algorithm is its action: the policy itself, with no network fitted to it.
    algorithm = SimpleNamespace(impl=SimpleNamespace(predict_best_action=act))
    model = (library.ope.DiscreteFQE if actions else library.ope.FQE)(algo=algorithm, config=config)
    model.fit(
        _dataset(library, log, actions),
        n_steps=steps,
        n_steps_per_epoch=steps // epochs,
        show_progress=False,
        save_interval=steps + 1,
        epoch_callback=after_epoch,
        logger_adapter=library.logging.NoopAdapterFactory(),
    )
    return model


def _dataset(library: Any, log: dict[str, np.ndarray], actions: int) -> Any:
    """The log as the rival keeps it; an episode that the log or a time limit cuts is one of its timeouts."""
    space = library.constants.ActionSpace
    return library.dataset.MDPDataset(
        observations=log["state"].astype(np.float32),
        actions=log["action"].astype(np.int64 if actions else np.float32)[:, None],
        rewards=log["reward"].astype(np.float32)[:, None],
        terminals=log["terminated"].astype(np.float32),
        timeouts=np.append(np.diff(log["episode"]) != 0, True) & (log["terminated"] == 0),
        action_space=space.DISCRETE if actions else space.CONTINUOUS,
        action_size=actions or 1,
    )


def bench(*, trials: int, seed: int, quick: bool, progress: Track) -> list[dict[str, Any]]:
    """Two comparisons: root mean square error of the value, and seconds; `quick` plays fewer episodes for the truth."""
    for name in ("d3rlpy", "torch"):
        require(name, "bench")
    value = truth(QUICK_EPISODES if quick else EPISODES, seed=2**20 + seed)
    rows = []
    with progress(trials, "fqe") as bar:
        for trial in range(seed, seed + trials):
            log = collect_log(trial)
            starts = np.random.default_rng(trial).uniform(-0.05, 0.05, size=(STARTS, 4))  # as the environment's own
            own = measure_time(lambda log=log, starts=starts: ours(log, starts))
            rival = measure_time(
                lambda log=log, starts=starts, trial=trial: fit_q_value(
                    log, starts, setting=CHOSEN, steps=STEPS, seed=trial
                )
            )
            rows.append((own[0] - value, own[1], rival[0] - value, rival[1]))
            bar.advance(to=len(rows))
    return _lines(np.asarray(rows), value)


def _lines(rows: np.ndarray, value: float) -> list[dict[str, Any]]:
    """The comparisons, from (trials, 4): error and seconds of ours, error and seconds of the rival."""
    own_error, rival_error = np.sqrt(np.mean(rows[:, [0, 2]] ** 2, axis=0)).tolist()
    own_seconds, rival_seconds = np.mean(rows[:, [1, 3]], axis=0).tolist()
    shared = {"bench": "fqe", "peer": "d3rlpy FQE", "trials": len(rows), "truth": value}
    shared |= {"setting": f"{CHOSEN}, {STEPS} steps of {BATCH}", "mean error": float(rows[:, 2].mean())}
    shared |= {"mean error of ours": float(rows[:, 0].mean())}
    kinds = [
        ("value", "value error", own_error, rival_error, 1.0),
        ("time", "seconds", own_seconds, rival_seconds, 20.0),
    ]
    return [
        {**shared, "case": f"CartPole-v1, {case}", "unit": unit, "ours": own, "value": rival, "ratio": rival / own}
        | {"target": target}
        for case, unit, own, rival, target in kinds
    ]


def fit_q_values(log: Log, policy: Policy, discount: float, *, setting: str, steps: int, seed: int) -> dict[int, float]:
    """The policy's value by d3rlpy after each quarter of so many steps, by the number of steps.

    Its rewards are divided so that values are near 1.
    """
    size = float(np.mean(np.abs(log.rewards))) / (1 - discount)
    actions = policy.probabilities(log.states[:1]).shape[1] if isinstance(policy, Choice) else 0
    rng, starts = np.random.default_rng((seed, 9)), log.states[log.steps == 0]
    values: dict[int, float] = {}

    def draw(states: Any) -> Any:
        """Actions that the policy draws."""
        drawn = policy.draw(rng, states.numpy().astype(np.float64))
        return require("torch", "bench").as_tensor(drawn if actions else drawn[:, None].astype(np.float32))

    def note(learner: Any, epoch: int, total: int) -> None:
        values[total] = size * _mean_value(learner, policy, starts)

    columns = {"state": log.states, "action": log.actions, "reward": log.rewards / size}
    columns |= {"terminated": log.terminated, "episode": log.episodes}
    options: dict[str, Any] = {"learning_rate": RATES[setting], "target_update_interval": EVERY}
    sizes: dict[str, Any] = {"steps": steps, "epochs": 4, "actions": actions}
    _train(columns, draw, discount=discount, seed=seed, after_epoch=note, **sizes, **options)
    return values


def _mean_value(model: Any, policy: Policy, starts: np.ndarray) -> float:
    """The mean over starts of the policy's mean of Q."""
    states = starts.astype(np.float32)
    if isinstance(policy, Choice):
        shares = policy.probabilities(starts)
        each = [model.predict_value(states, np.full(len(states), action)) for action in range(shares.shape[1])]
        return float(np.mean(np.sum(shares * np.stack(each, axis=1), axis=1)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    middle = policy.mean(starts)
    drawn = [(middle + policy.deviation * node)[:, None].astype(np.float32) for node in nodes]
    return float(np.mean(weights / weights.sum() @ np.stack([model.predict_value(states, each) for each in drawn])))


def bench_worlds(
    *, trials: int, seed: int, quick: bool, progress: Track, case: str | None = None, kind: str | None = None
) -> Iterator[dict[str, Any]]:
    """A line for each environment as soon as it is known, of so many logs; `quick` trains the rival for a few steps."""
    if kind is not None:
        raise checks.InputError(f"the benchmark fqe-worlds has no sets, so none is named '{kind}'; leave out --set")
    cases = [each for name, each in CASES.items() if case is None or fnmatch.fnmatchcase(name, case)]
    if not cases:
        raise checks.InputError(f"no case is named '{case}'; choose one of: {'; '.join(CASES)}; '*' stands for any")
    for name in ("d3rlpy", "torch"):
        require(name, "bench")
    with progress(len(cases) * trials, "fqe-worlds") as bar:
        for number, each in enumerate(cases):
            rows = []
            for trial in range(seed, seed + trials):
                rows.append(_compare(each, trial, QUICK_WORLD_STEPS if quick else WORLD_STEPS[each.discount]))
                bar.advance(to=number * trials + len(rows))
            yield line(each, rows)


def _compare(case: OffPolicy, seed: int, steps: int) -> dict[str, Any]:
    """Our answer to one log and the rival's values in each setting, with seconds of processor time."""
    log = case.log(seed)
    reply, seconds = measure_time(lambda: case.answer(log))
    rivals: dict[str, float] = {}
    theirs = []
    for setting in RATES:
        options: dict[str, Any] = {"setting": setting, "steps": steps, "seed": seed}
        values, taken = measure_time(partial(fit_q_values, log, case.evaluated, case.discount, **options))
        rivals |= {f"{setting}, {count} steps": value for count, value in values.items()}
        theirs.append(taken)
    lower, upper = reply.answer.interval(0.95)
    covers = bool(lower <= case.truth()[0] <= upper)
    ours = {"ours": reply.answer.value, "stderr": reply.answer.stderr, "seconds": seconds, "covers": covers}
    return ours | {"rivals": rivals, "rival's seconds": float(np.mean(theirs))}


def line(case: OffPolicy, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The line of one environment: root mean square errors over its logs, the rival's at its best in hindsight."""
    truth = case.truth()[0]

    def rms(values: list[float]) -> float:
        return float(np.sqrt(np.mean((np.asarray(values) - truth) ** 2)))

    errors = {each: rms([row["rivals"][each] for row in rows]) for each in rows[0]["rivals"]}
    own, best = rms([row["ours"] for row in rows]), min(errors, key=lambda each: errors[each])
    return {
        "bench": "fqe-worlds",
        "case": case.name,
        "peer": f"d3rlpy FQE, {best}",
        "value": errors[best],
        "unit": "rms error",
        "ratio": errors[best] / own,
        "target": 1.0,
        "ours": own,
        "logs": len(rows),
        "truth": truth,
        "errors of rivals": errors,
        "values of rivals": {each: [row["rivals"][each] for row in rows] for each in errors},
        "values of ours": [row["ours"] for row in rows],
        "stderrs of ours": [row["stderr"] for row in rows],
        "cover": sum(row["covers"] for row in rows),
        "seconds": float(np.mean([row["rival's seconds"] for row in rows])),
        "seconds of ours": float(np.mean([row["seconds"] for row in rows])),
    }


def tables(lines: list[dict[str, Any]]) -> Iterator[Any]:
    """A table of cases, and one of the rival's errors at every checkpoint."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    grid = Table(title="fqe-worlds", title_justify="left", box=SIMPLE_HEAD)
    for heading in ("case", "truth", "ours", "FQE", "ratio", "cover", "s", "FQE's s", "FQE at its best"):
        grid.add_column(heading, justify="left" if heading in ("case", "FQE at its best") else "right")
    for each in lines:
        numbers = [f"{each[key]:.3g}" for key in ("truth", "ours", "value", "ratio")]
        times = [f"{each[key]:.2g}" for key in ("seconds of ours", "seconds")]
        grid.add_row(
            each["case"], *numbers, f"{each['cover']}/{each['logs']}", *times, each["peer"].removeprefix("d3rlpy FQE, ")
        )
    yield grid
    more = Table(title="FQE's errors as it trains", title_justify="left", box=SIMPLE_HEAD)
    more.add_column("case")
    more.add_column("setting, steps: error")
    for each in lines:
        more.add_row(
            each["case"], "; ".join(f"{name}: {error:.3g}" for name, error in each["errors of rivals"].items())
        )
    yield more


def measure_time(compute: Any) -> tuple[Any, float]:
    """(what it computes, seconds of processor time), with nothing shown meanwhile: the rival writes to stdout."""
    began = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        result = compute()
    return result, time.process_time() - began


def require(name: str, extra: str) -> Any:
    """The module, or a sentence about how to get it."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # an old library that the rival imports complains of itself
            return importlib.import_module(name)
    except ImportError:
        raise checks.InputError(
            f"the benchmark fqe needs {name}, which is not installed; pip install 'dualembed[{extra}]'"
        ) from None
