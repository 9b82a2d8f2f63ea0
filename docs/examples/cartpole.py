"""What is a policy worth? CartPole-v1 from its own logs, against Monte-Carlo returns.

    python docs/examples/cartpole.py                                          # one log
    python docs/examples/cartpole.py --seeds 20 --figure docs/images/example_cartpole.png

A clumsy policy balances a pole, and 2,000 of its steps are logged. What discounted reward does it collect from the
start of an episode on? Logs answer that without another step played; here the environment is at hand, so that 20,000
episodes more say how good the answer is.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import gymnasium
import numpy as np

import dualembed as de

DISCOUNT = 0.95
CLUMSINESS = 0.7  # the share of actions taken by the toss of a coin
TRANSITIONS = 2000
EPISODES = 20_000  # of the Monte-Carlo truth


# The policy pushes towards the side to which the pole leans and falls, by a logistic rule, but mostly tosses a coin. It
# is a function from states (n, 4) to probabilities of pushing left and right, (n, 2).
def policy(states: np.ndarray) -> np.ndarray:
    """The probabilities (n, 2) of pushing left and right."""
    lean = 8 * states[:, 2] + 4 * states[:, 3]
    right = (1 - CLUMSINESS) / (1 + np.exp(-lean)) + CLUMSINESS / 2
    return np.stack([1 - right, right], axis=1)


# The truth is the mean discounted return of many episodes, each from its own reset. A vector environment plays them
# side by side; one that has ended is reset and goes on, but is not counted any more.
def monte_carlo(episodes: int, seed: int) -> tuple[float, float]:
    """(mean, standard error) of the discounted returns of so many episodes."""
    games = gymnasium.make_vec("CartPole-v1", num_envs=episodes, vectorization_mode="vector_entry_point")
    states, _ = games.reset(seed=seed)
    rng = np.random.default_rng(seed)
    returns, playing, worth = np.zeros(episodes), np.ones(episodes, dtype=bool), 1.0
    while playing.any() and worth > 1e-6:
        actions = (rng.uniform(size=episodes) < policy(states)[:, 1]).astype(int)
        states, rewards, terminated, truncated, _ = games.step(actions)
        returns += worth * np.where(playing, rewards, 0.0)
        playing &= ~(terminated | truncated)
        worth *= DISCOUNT
    return float(returns.mean()), float(returns.std() / np.sqrt(episodes))


class Answer(NamedTuple):
    """What one log says of the policy's value."""

    value: float
    stderr: float
    lower: float
    upper: float
    seconds: float


# Rows of one episode depend on each other. With the episodes' labels the errors are clustered by episode, and the model
# knows where episodes start: `value()` is the mean of V over those states.
def evaluated(seed: int, transitions: int = TRANSITIONS) -> Answer:
    """The value with its 95 % interval from one log."""
    log = de.data.collect(gymnasium.make("CartPole-v1"), policy, transitions, seed=1000 * seed, copies=10)
    began = time.perf_counter()
    model = de.PolicyEvaluator(DISCOUNT).fit(
        log["state"], log["reward"], log["next_state"], terminated=log["terminated"], episodes=log["episode"]
    )
    found = model.value()
    return Answer(found.value, found.stderr, *found.interval(0.95), time.perf_counter() - began)


def main(seeds: int, transitions: int = TRANSITIONS, figure: Path | None = None) -> tuple[float, list[Answer]]:
    """The truth and the answers of so many logs, printed and drawn."""
    truth, error = monte_carlo(EPISODES, seed=1)
    print(f"Monte-Carlo truth of {EPISODES:,} episodes: {truth:.2f} ± {error:.2f}")
    answers = []
    for seed in range(seeds):
        found = evaluated(seed, transitions)
        covers = "covers" if found.lower <= truth <= found.upper else "misses"
        print(
            f"log {seed}: {found.value:.2f} ± {found.stderr:.2f}, interval {found.lower:.2f} to {found.upper:.2f} "
            f"{covers} the truth ({found.seconds:.1f} s)",
            flush=True,
        )
        answers.append(found)
    covering = sum(each.lower <= truth <= each.upper for each in answers)
    errors = np.array([each.value for each in answers]) - truth
    print(
        f"{covering} of {seeds} intervals cover the truth; mean error {errors.mean():+.2f}, root mean square ", end=""
    )
    print(f"{np.sqrt(np.mean(errors**2)):.2f}, mean standard error {np.mean([each.stderr for each in answers]):.2f}")
    if figure is not None:
        draw(truth, answers, figure)
    return truth, answers


def draw(truth: float, answers: list[Answer], figure: Path) -> None:
    """The intervals of all logs, and the truth."""
    from matplotlib import pyplot

    _, ax = pyplot.subplots(figsize=(6, 3), layout="constrained")
    values = np.array([each.value for each in answers])
    sides = np.abs(np.array([[each.lower, each.upper] for each in answers]).T - values)
    ax.errorbar(np.arange(len(answers)), values, sides, fmt="o", color="#0072B2", capsize=3, label="from one log, 95 %")
    ax.axhline(truth, color="#D55E00", linestyle="--", label="Monte-Carlo truth")
    ax.set(xlabel="log", ylabel="discounted return", xticks=range(0, len(answers), max(1, len(answers) // 10)))
    ax.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    pyplot.savefig(figure, dpi=110)
    pyplot.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="how many logs to evaluate, each with its own seed")
    parser.add_argument("--figure", type=Path, help="where to save the figure")
    given = parser.parse_args()
    main(given.seeds, figure=given.figure)
