"""What a fit has found: as plain data, and in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import typer

from dualembed.answers import Answer, Verdict
from dualembed.answers.answer import meaning
from dualembed.answers.task import Task
from dualembed.cli.console import give_or_take, number, pluralise, print_table
from dualembed.cli.options import known_tasks
from dualembed.estimates import Estimate
from dualembed.estimators.returns import WHOLE
from dualembed.plot.surface import Surface, function_surface
from dualembed.report.answer import asked_about
from dualembed.report.effects import Effect, effects, unshown
from dualembed.report.facts import strengths
from dualembed.report.worth import mean_answer, policy_value, verdict_of

MOST = 12  # rows of a printed table


def found_by(model: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """What a fit has found, in terms that JSON has."""
    answer = _answer(model, function_surface(model, data), data)
    worries = [*model.diagnostics_.warnings, *answer.get("policy_value", answer["mean"])["warnings"]]
    return {
        "answer": answer,
        "honest_error": honest_error(model),
        "warnings": list(dict.fromkeys(worries)),
        "selection": choices(model),
        "solver": model.solver,
    }


def choices(model: Any) -> list[dict[str, Any]]:
    """What was chosen from the data, in order, and the numbers it was chosen by."""
    return [{"question": step.question, "answer": step.answer, **step.numbers} for step in model.selection_.steps]


def honest_error(model: Any) -> dict[str, Any] | None:
    """The error on rows left out, beside what a naive look at the same rows says; None for few rows."""
    found = model.diagnostics_.held_out
    if found is None:
        return None
    return {
        "what": model.task_.error,
        "value": found.value,
        "stderr": found.stderr,
        "rows": found.rows,
        "naive": found.squared,
        "naive_on_fitted_rows": found.fitted,
    }


def _answer(model: Any, surface: Surface, data: Mapping[str, Any]) -> dict[str, Any]:
    points, _ = asked_about(model, surface, data)
    values = np.maximum(surface.evaluate(points)[0], getattr(model, "shortest_", -np.inf))
    mean, stderr = surface.average(points)
    found = {
        "mean": {**_with_interval(mean, stderr), **_rests_on(model, mean_answer(model, points))},
        "lowest": float(values.min()),
        "highest": float(values.max()),
        "rows": len(points),
    }
    if "discount" in model.get_params():
        found["discount"] = model.discount
    value = policy_value(model, surface, data)
    if value is not None:
        found["policy_value"] = {
            **_with_interval(value.value, value.stderr),
            "where": value.where,
            "episodes": value.episodes,
            **_rests_on(model, value.answer),
        }
    plain = model.mean_return() if hasattr(model, "mean_return") else None
    if plain is not None:
        whole = int(np.sum(model.returns_.discounts < WHOLE))
        found["mean_return"] = {"value": plain.value, "stderr": plain.stderr, "episodes": whole}
    if hasattr(model, "actions_") and len(model.actions_.columns) == 1 and model.actions_.columns[0].levels:
        found["by_action"] = _by_action(model, data)
    if hasattr(model, "target"):
        found["rows_inside"] = int(np.sum(model.inside(data["states"])))
    if hasattr(model, "instruments_"):
        moved = effects(surface, straight=hasattr(model, "coef_"))
        found["instruments"] = model.instruments_ is not None
        found["first_stage"] = dict(model.diagnostics_.first_stage)
        found["strength"] = list(strengths(model.diagnostics_))
        found["effects"] = [_effect(each) for each in moved]
        found["effects_unshown"] = unshown(surface)
    return found


def _with_interval(value: float, stderr: float | None) -> dict[str, Any]:
    if stderr is None:
        return {"value": value, "stderr": None}
    lower, upper = Estimate(value, stderr).interval()
    return {"value": value, "stderr": stderr, "lower": lower, "upper": upper}


def _rests_on(model: Any, answer: Answer | None) -> dict[str, Any]:
    """What an answer says besides its value and its error: its own interval, and how much it rests on."""
    verdict = verdict_of(answer)
    found: dict[str, Any] = {
        "freedom": getattr(answer, "freedom", None),
        "verdict": None if verdict is None else str(verdict),
        "warnings": list(getattr(answer, "warnings", ())),
        "negative": getattr(answer, "negative", None),
        "effective": getattr(answer, "effective", None),
    }
    if answer is not None:
        # No time is shorter than the shortest step.
        lower, upper = (max(end, getattr(model, "shortest_", -np.inf)) for end in answer.interval())
        found |= {"stderr": answer.stderr, "lower": lower, "upper": upper}
    return found


def _by_action(model: Any, data: Mapping[str, Any]) -> dict[str, float]:
    """The mean of Q over states of the table, were each action taken in all of them."""
    states = data["states"].slice(0, 2000)
    levels = model.actions_.columns[0].levels[:MOST]
    return {str(level): float(model.predict(states, np.full(states.num_rows, level)).mean()) for level in levels}


def _effect(found: Effect) -> dict[str, Any]:
    ends = {"column": found.column, "from": found.start, "to": found.end, "change": found.change(number)}
    return {**ends, **_with_interval(found.value, found.stderr)}


def show_fit(found: Mapping[str, Any]) -> None:
    """Print what was found, for people."""
    dropped = f", {found['dropped']:,} dropped for missing numbers" if found["dropped"] else ""
    categories = {"taken as categories": found["categories"]} if found["categories"] else {}
    print_table(
        ["", ""],
        columns_in_words({**found["columns"], **categories}),
        title=f"Read {pluralise(found['rows'], 'row')}{dropped}. Columns used:",
    )
    typer.echo("")
    for sentence in sentences(known_tasks()[found["task"]], found["answer"]):
        typer.echo(sentence)
    _show_effects(found["answer"])
    typer.echo(error_in_words(found["honest_error"]))
    for warning in found["warnings"]:
        typer.echo(f"Warning: {warning}.")
    typer.echo("")
    typer.echo(f"Model:  {found['model']}")
    if found["report"]:
        typer.echo(f"Report: {found['report']} (open it in a browser)")


def columns_in_words(columns: Mapping[str, list[str]]) -> list[list[str]]:
    """A row for each meaning of columns, with their names."""
    return [[role.replace("_", " "), ", ".join(names)] for role, names in columns.items()]


def sentences(task: Task, answer: Mapping[str, Any]) -> list[str]:
    """The answer in plain words."""
    found = []
    value = answer.get("policy_value")
    if value is not None:
        said = f"The policy is worth {give_or_take(value['value'], value['stderr'])}{_interval(value)}"
        what = f"its rewards at discount {answer['discount']:g}, on average over {value['where']}."
        judged = _judged(value)
        found.append(f"{said}, which is {judged} These are {what}" if judged else f"{said}: {what}")
    plain = answer.get("mean_return")
    if plain is not None:
        found.append(
            f"The plain mean of the returns of {pluralise(plain['episodes'], 'whole episode')} is "
            f"{give_or_take(plain['value'], plain['stderr'])}."
        )
    mean = give_or_take(answer["mean"]["value"], answer["mean"]["stderr"])
    found.append(task.mean.format(mean=mean, lowest=number(answer["lowest"]), highest=number(answer["highest"])))
    if value is None and (judged := _judged(answer["mean"])):
        found.append(f"That mean{_interval(answer['mean'])} is {judged}")
    if task.name == "policy-evaluation" and value is None:
        found.append("With --episode, a label of each row's episode, there is also the value from the start.")
    if "rows_inside" in answer:
        found.append(f"Inside the target, where {pluralise(answer['rows_inside'], 'row')} begin, the time is 0.")
    found += answer.get("strength", [])
    if not answer.get("instruments", True):
        found.append("Without --instrument this is plain regression: prediction, not the effect of changing x.")
    return found


def error_in_words(error: Mapping[str, Any] | None) -> str:
    """The honest error in a sentence."""
    if error is None:
        return (
            "There are too few rows or episodes to hold some out; `dualembed score` tells the honest error on others."
        )
    found = (
        f"Honest error on rows left out: {give_or_take(error['value'], error['stderr'])} ({error['what']}; "
        f"the naive one, {number(error['naive'])}, counts the noise of single rows)."
    )
    if 2 * error["stderr"] >= error["naive"]:
        found += " That tells nothing: it must lie between zero and the naive one. More rows or episodes would tell."
    elif error["value"] < 2 * error["stderr"]:
        found += " Zero, as far as these rows can tell."
    return found


def _judged(found: Mapping[str, Any]) -> str:
    """The verdict with what it means; nothing where there is none."""
    return "" if found["verdict"] is None else f"{found['verdict']}: {meaning(Verdict(found['verdict']))}."


def _interval(found: Mapping[str, Any]) -> str:
    if found["stderr"] is None:
        return ""
    return f" (95 % interval {number(found['lower'])} to {number(found['upper'])})"


def _show_effects(answer: Mapping[str, Any]) -> None:
    if "by_action" in answer:
        rows = [[action, number(value)] for action, value in answer["by_action"].items()]
        print_table(["action", "mean Q"], rows, title="Were it taken in every state of the table:")
    if "effects" in answer:
        shown = answer["effects"][:MOST]
        rows = [
            [
                each["change"],
                give_or_take(each["value"], each["stderr"]),
                _interval(each).strip(" ()").removeprefix("95 % interval "),
            ]
            for each in shown
        ]
        print_table(["change", "of y", "95 % interval"], rows, title="What moving a column does, others as they are:")
        more = len(answer["effects"]) - len(shown)
        for sentence in [*answer["effects_unshown"], *([f"{more} more are in --json."] if more else [])]:
            typer.echo(sentence)
