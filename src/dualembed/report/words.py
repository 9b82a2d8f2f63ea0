"""What each kind of problem asks, in plain words."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Words:
    """A kind of problem: its title, the question, what the function is, what its equation says, what a row is."""

    title: str
    question: str
    function: str
    equation: str
    row: str = "row"


WORDS = {
    "PolicyEvaluator": Words(
        "Policy evaluation",
        "How much reward will a way of acting (a policy) collect in the long run, from each state on? The data are "
        "single steps: a state, the reward it brought, and the state that followed. Later rewards count less: each "
        "step of waiting multiplies them by the discount.",
        "the value V(s): the expected sum of discounted rewards from state s on",
        "the value of a state must be the reward there plus the discounted value of the next state, on average",
        "transition",
    ),
    "ActionValueEvaluator": Words(
        "Action values",
        "How much reward follows in the long run from taking an action in a state, and then acting by the policy in "
        "question? The data are single steps that anyone took: a state, an action, its reward, and the next state.",
        "the action value Q(s, a): the expected sum of discounted rewards after action a in state s",
        "the value of an action must be its reward plus the discounted value of what the policy does next, on average",
        "transition",
    ),
    "IVRegressor": Words(
        "Effect by instruments",
        "What does changing x do to y? Plain regression cannot say, where hidden causes move both. Instruments help: "
        "they move x, and touch y through x only.",
        "the structural function f(x): what y would be on average if x were set by hand",
        "given the instruments, y and f(x) must agree on average",
    ),
    "regression": Words(
        "Regression",
        "What is y on average, given x? No instruments were given, so that the answer is about prediction: where "
        "hidden causes move both x and y, it is not the effect of changing x.",
        "the regression function f(x): the mean of y given x",
        "given x, y and f(x) must agree on average",
    ),
    "InvariantRegressor": Words(
        "Regression under variations",
        "What is y, given an x that might as well have come out a little different (noisy, turned, shifted)? The "
        "prediction is the mean of one function over such variations of x.",
        "the function f, whose mean over variations of x predicts y",
        "given x, the mean of f over its variations must agree with y on average",
    ),
    "InvariantClassifier": Words(
        "Classification under variations",
        "Which of two classes has an x that might as well have come out a little different (noisy, turned, shifted)? "
        "The decision is by the mean of one function over such variations of x: positive for the second class.",
        "the decision function f, whose mean over variations of x decides",
        "the mean of f over variations of x must fit the classes",
    ),
    "HittingTimeRegressor": Words(
        "Time to a target",
        "How many steps does the process take on average, from each state, until it reaches the target? The data are "
        "single steps; no path need lead all the way.",
        "the hitting time h(s): the expected number of steps from state s to the target, with the one that enters it; "
        "inside the target it is 0, and what figures show there is the time of return",
        "the time from a state must be one step plus the time from the next state, on average",
        "transition",
    ),
    "LinearControl": Words(
        "Linearly solvable control",
        "Where is it cheap to be, if one may steer a random process and pays for running and for steering? The data "
        "are single steps of the process without steering.",
        "the desirability z(s) = exp(−least cost until the end): 1 where the end is free, near 0 where it is dear",
        "the desirability of a state must be that of the next, on average, times exp(−running cost)",
        "transition",
    ),
}


def words_of(model: Any) -> Words:
    """The words for a model's kind of problem."""
    own = type(model).__name__
    name = next((kind.__name__ for kind in type(model).__mro__ if kind.__name__ in WORDS), own)
    if name == "IVRegressor" and getattr(model, "instruments_", None) is None:
        name = "regression"
    general = Words(name, "Which function makes a conditional mean right?", "the function f", "its equation must hold")
    return WORDS.get(name, general)
