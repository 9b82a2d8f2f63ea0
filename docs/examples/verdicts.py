"""How far does one log carry? The value of ever more skilful policies from a clumsy one's steps at CartPole-v1.

    python docs/examples/verdicts.py --figure docs/images/example_verdicts.png

A clumsy policy balances a pole, and 500 or 2,000 of its steps are logged. What would policies be worth that toss more
or fewer coins? The further they are from the one that played, the less the log shows of where they would be. Each
answer comes with an interval and a verdict; here the environment is at hand, so that playing says how good they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np

import dualembed as de
from dualembed.answers import Answer

DISCOUNT = 0.99
LOGGED = 0.3  # the skill of the policy that played
SKILLS = (0.0, 0.3, 0.5, 0.7, 0.9, 1.0)
TRANSITIONS = (500, 2000)
EPISODES = 5000  # of each Monte-Carlo truth

LOOKS = {"solid": ("o", "#0072B2"), "fragile": ("s", "#E69F00"), "not answerable": ("X", "#D55E00")}


# A policy is a function from states (n, 4) to probabilities of pushing left and right, (n, 2). Its skill is the share
# of pushes towards the side to which the pole leans and falls, by a logistic rule; the others are the toss of a coin.
def policy_of(skill: float) -> Callable[[np.ndarray], np.ndarray]:
    """The policy of that skill."""

    def policy(states: np.ndarray) -> np.ndarray:
        lean = 8 * states[:, 2] + 4 * states[:, 3]
        right = skill / (1 + np.exp(-lean)) + (1 - skill) / 2
        return np.stack([1 - right, right], axis=1)

    return policy


def monte_carlo(policy: Callable[[np.ndarray], np.ndarray], episodes: int = EPISODES, seed: int = 1) -> float:
    """The mean discounted return of so many episodes, played side by side."""
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
    return float(returns.mean())


# One log for all policies: action values need no importance weights, whoever took the actions.
def answers(transitions: int, seed: int) -> list[Answer]:
    """What one log says each policy is worth."""
    log = de.data.collect(gymnasium.make("CartPole-v1"), policy_of(LOGGED), transitions, seed=seed, copies=10)
    return [de.ActionValueEvaluator(DISCOUNT, policy_of(skill)).fit(log).value() for skill in SKILLS]


def main(seed: int = 0, episodes: int = EPISODES, figure: Path | None = None) -> dict[int, list[Answer]]:
    """The answers of a short and a long log, printed and drawn beside the truth."""
    truths = [monte_carlo(policy_of(skill), episodes) for skill in SKILLS]
    found = {}
    for transitions in TRANSITIONS:
        found[transitions] = answers(transitions, seed)
        print(f"{transitions:,} steps")
        for skill, answer, truth in zip(SKILLS, found[transitions], truths, strict=True):
            lower, upper = answer.interval()
            print(f"  skill {skill:.1f}: {answer}, interval {lower:.1f} to {upper:.1f}, truth {truth:.1f}", flush=True)
    if figure is not None:
        draw(found, truths, figure)
    return found


def draw(found: dict[int, list[Answer]], truths: list[float], figure: Path) -> None:
    """A panel for each log: the intervals, marked by their verdicts, and the truth."""
    from matplotlib import pyplot

    drawn, panels = pyplot.subplots(1, len(found), figsize=(7.5, 3.4), layout="constrained", sharey=True)
    for ax, (transitions, own) in zip(panels, found.items(), strict=True):
        for verdict, (mark, colour) in LOOKS.items():
            some = [(skill, answer) for skill, answer in zip(SKILLS, own, strict=True) if answer.verdict == verdict]
            values = np.array([answer.value for _, answer in some])
            sides = np.abs(np.array([answer.interval() for _, answer in some]).reshape(-1, 2).T - values)
            places = [skill for skill, _ in some]
            ax.errorbar(places, values, sides, fmt=mark, color=colour, capsize=3, label=verdict)
        ax.plot(SKILLS, truths, "k_", markersize=14, label="truth, by playing")
        ax.axvline(LOGGED, color="#555555", linestyle=":", linewidth=1, label="the policy that played")
        ax.set(xlabel="skill of the policy asked about", title=f"{transitions:,} steps")
    panels[0].set_ylabel("discounted return")
    handles, labels = panels[0].get_legend_handles_labels()
    drawn.legend(handles, labels, frameon=False, ncols=5, loc="outside upper center", fontsize=8)
    pyplot.savefig(figure, dpi=110)
    pyplot.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the logs")
    parser.add_argument("--figure", type=Path, help="where to save the figure")
    given = parser.parse_args()
    main(given.seed, figure=given.figure)
