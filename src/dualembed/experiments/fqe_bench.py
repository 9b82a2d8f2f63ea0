"""The benchmark `fqe`: the value of a policy in CartPole-v1 from another's logs, against fitted Q evaluation by d3rlpy.

Both get the same 2,000 logged transitions and the evaluated policy itself; the truth is the mean discounted return of
many episodes that the policy plays. Errors are root mean squares over the trials, times are seconds of one core. The
rival's settings were chosen by its errors on logs of the seeds 1000 and 1001; ours is the default, told nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.data import collect
from dualembed.estimators import ActionValueEvaluator
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


def behaviour(states: np.ndarray) -> np.ndarray:
    """The probabilities (n, 2) of pushing left and right: mostly the toss of a coin, else against the fall."""
    right = 0.35 + 0.3 / (1 + np.exp(-8 * states[:, 2] - 4 * states[:, 3]))
    return np.stack([1 - right, right], axis=1)


def evaluated(states: Any) -> Any:
    """The actions (n,) of the evaluated policy, which pushes towards the side to which the pole leans."""
    return (states[:, 2] > 0) * 1


def truth(episodes: int, seed: int) -> float:
    """The mean discounted return of so many episodes of the evaluated policy."""
    gymnasium = needed("gymnasium", "rl")
    games = gymnasium.make_vec("CartPole-v1", num_envs=episodes, vectorization_mode="vector_entry_point")
    states, _ = games.reset(seed=seed)
    returns, playing, worth = np.zeros(episodes), np.ones(episodes, dtype=bool), 1.0
    while playing.any() and worth > 1e-6:
        states, rewards, terminated, truncated, _ = games.step(evaluated(states))
        returns += worth * np.where(playing, rewards, 0.0)
        playing &= ~(terminated | truncated)
        worth *= DISCOUNT
    return float(returns.mean())


def logged(seed: int) -> dict[str, np.ndarray]:
    """Transitions of the behaviour policy."""
    return collect(needed("gymnasium", "rl").make("CartPole-v1"), behaviour, TRANSITIONS, seed=1000 * seed, copies=10)


def ours(log: dict[str, np.ndarray], starts: np.ndarray) -> float:
    """The policy's value by the default estimator, told nothing else."""
    columns = log["state"], log["action"], log["reward"], log["next_state"]
    model = ActionValueEvaluator(DISCOUNT, evaluated)
    model.fit(*columns, terminated=log["terminated"], episodes=log["episode"])
    return model.value(starts).value


def fitted_q_evaluation(
    log: dict[str, np.ndarray], starts: np.ndarray, *, setting: str, steps: int, seed: int
) -> float:
    """The policy's value by d3rlpy, on standardised states, with its own network of two layers of 256."""
    library, torch = needed("d3rlpy", "bench"), needed("torch", "bench")
    torch.set_num_threads(1)
    library.seed(seed)
    config = library.ope.FQEConfig(
        gamma=DISCOUNT,
        batch_size=BATCH,
        observation_scaler=library.preprocessing.StandardObservationScaler(),
        **SETTINGS[setting],
    )
    scaler = config.observation_scaler

    def best(states: Any) -> Any:
        """The policy's actions at states as the rival's network sees them."""
        return evaluated(scaler.reverse_transform(states))

    # All that is asked of the evaluated algorithm is its action: the rule itself, with no network fitted to it.
    algorithm = SimpleNamespace(impl=SimpleNamespace(predict_best_action=best))
    model = library.ope.DiscreteFQE(algo=algorithm, config=config)
    model.fit(
        _episodes(library, log),
        n_steps=steps,
        n_steps_per_epoch=steps,
        show_progress=False,
        save_interval=steps + 1,
        logger_adapter=library.logging.NoopAdapterFactory(),
    )
    return float(model.predict_value(starts.astype(np.float32), evaluated(starts)).mean())


def _episodes(library: Any, log: dict[str, np.ndarray]) -> Any:
    """The log as the rival keeps it; an episode that the log cuts short is one of its timeouts."""
    last = np.append(np.diff(log["episode"]) != 0, True)
    return library.dataset.MDPDataset(
        observations=log["state"].astype(np.float32),
        actions=log["action"].astype(np.int64)[:, None],
        rewards=log["reward"].astype(np.float32)[:, None],
        terminals=log["terminated"],
        timeouts=last & (log["terminated"] == 0),
        action_space=library.constants.ActionSpace.DISCRETE,
        action_size=2,
    )


def bench(*, trials: int, seed: int, quick: bool, progress: Track) -> list[dict[str, Any]]:
    """Two comparisons: root mean square error of the value, and seconds; `quick` plays fewer episodes for the truth."""
    for name in ("d3rlpy", "torch"):
        needed(name, "bench")
    value = truth(QUICK_EPISODES if quick else EPISODES, seed=2**20 + seed)
    rows = []
    with progress(trials, "fqe") as bar:
        for trial in range(seed, seed + trials):
            log = logged(trial)
            starts = np.random.default_rng(trial).uniform(-0.05, 0.05, size=(STARTS, 4))  # as the environment's own
            own = timed(lambda log=log, starts=starts: ours(log, starts))
            rival = timed(
                lambda log=log, starts=starts, trial=trial: fitted_q_evaluation(
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


def timed(compute: Any) -> tuple[Any, float]:
    """(what it computes, seconds of processor time), with nothing shown meanwhile: the rival writes to stdout."""
    began = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        found = compute()
    return found, time.process_time() - began


def needed(name: str, extra: str) -> Any:
    """The module, or a sentence about how to get it."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # an old library that the rival imports complains of itself
            return importlib.import_module(name)
    except ImportError:
        raise checks.InputError(
            f"the benchmark fqe needs {name}, which is not installed; pip install 'dualembed[{extra}]'"
        ) from None
