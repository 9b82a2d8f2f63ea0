"""A small card about a model, for notebooks."""

from __future__ import annotations

import inspect
from importlib import resources
from typing import Any

from dualembed.plot import function
from dualembed.plot.figures import dependence, leading
from dualembed.plot.surface import function_surface
from dualembed.report.html import Markup, between, element, image, number, paragraph, plus_minus, shown
from dualembed.report.trust import warnings
from dualembed.report.worth import policy_value, verdict_of

SIZE = (3.2, 2.2)


def html_of(model: Any) -> str:
    """A card: the model's name and settings, what it learnt, its honest error, warnings, a small figure of f.

    Of a model that has not been fitted, name and settings alone.
    """
    style = resources.files("dualembed.report").joinpath("card.css").read_text(encoding="utf-8")
    head = element("p", element("strong", type(model).__name__), *_changed(model), class_="name")
    body = [head]
    if hasattr(model, "function_"):
        body += [element("div", element("div", *_facts(model)), _figure(model), class_="fitted")]
    else:
        body.append(paragraph("Not fitted yet."))
    return element("style", Markup(style)) + element("div", *body, class_="dualembed-card")


def _changed(model: Any) -> list[Any]:
    """Settings that differ from the defaults."""
    defaults = inspect.signature(type(model)).parameters
    changed = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if repr(value) != repr(defaults[name].default)
    }
    if not changed:
        return []
    return [Markup(" "), element("code", ", ".join(f"{name}={shown(value)}" for name, value in changed.items()))]


def _facts(model: Any) -> list[Markup]:
    found = model.diagnostics_
    facts = [f"Learnt from {found.rows:,} {model.task_.row}s: {model.task_.function}."]
    facts += _worth(model)
    if found.held_out is not None:
        judged = found.held_out
        facts.append(
            f"Honest held-out error {plus_minus(judged.value, judged.stderr)}; squared residuals would say "
            f"{number(judged.squared)}."
        )
    facts += [f"{step.question}: {step.answer}" for step in model.selection_.steps[:2]]
    return [*map(paragraph, facts), *([warnings(model)] if found.warnings else [])]


def _worth(model: Any) -> list[str]:
    """What the policy is worth, with the verdict on it, where that is known."""
    found = policy_value(model, function_surface(model), {})
    if found is None or found.answer is None:
        return []
    verdict = verdict_of(found.answer)
    said = f"Over {found.where} the policy is worth {plus_minus(found.value, found.stderr)} (95 % interval "
    return [f"{said}{between(*found.answer.interval())})" + ("." if verdict is None else f", which is {verdict}.")]


def _figure(model: Any) -> Markup:
    """f, or how it depends on the column that moves it most."""
    surface = function_surface(model)
    if len(surface.axes) <= 2:
        return image(lambda ax: function(model, ax=ax), f"The {surface.symbol}", size=SIZE)
    (axis,) = leading(surface, 1)
    return image(lambda ax: dependence(ax, surface, axis), f"The {surface.symbol} along {axis.name}", size=SIZE)
