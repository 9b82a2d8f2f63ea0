"""Newton's method: the equations that Embedding-SGD follows, solved to a stated residual for every smooth loss."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import dualembed as de
from dualembed import kernels, links, losses, problems, schedules, solvers, sources, spaces
from dualembed.solvers import newton

ROWS = 400
PENALTIES = {"primal_penalty": 0.02, "dual_penalty": 0.01}


def table(kind: str = "real", rows: int = ROWS) -> dict[str, np.ndarray]:
    """x, a draw z for it, and a target of that kind whose mean follows sin 3x."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, rows)
    z, signal = x + 0.3 * rng.normal(size=rows), np.sin(3 * x)
    targets = {
        "real": signal + 0.1 * rng.normal(size=rows),
        "label": np.where(rng.uniform(size=rows) < 1 / (1 + np.exp(-4 * signal)), 1.0, -1.0),
        "count": rng.poisson(np.exp(2 + signal)).astype(float),
    }
    return {"x": x, "z": z, "y": targets[kind]}


def cosines(xs: jax.Array) -> jax.Array:
    return jnp.cos(jnp.arange(5) * (xs[:, :1] + 1))


def cosines_and_target(xs: jax.Array) -> jax.Array:
    """Functions of x, and y itself: with them the dual of an invariance problem can be right."""
    return jnp.concatenate([cosines(xs), xs[:, 1:]], axis=1)


def instrument(sample: dict[str, jax.Array]) -> problems.Terms:
    """Two points, an offset, and a context without the target."""
    points = jnp.stack([sample["z"], sample["x"]], axis=1)[:, :, None]
    weights = jnp.ones_like(points[:, :, 0]) * jnp.asarray([1.0, -0.3])
    return problems.Terms(points, weights, 0.1 * sample["x"], sample["x"][:, None], sample["y"])


SMOOTH = {
    "huber": (losses.Huber(0.3), "real"),
    "logistic": (losses.Logistic(), "label"),
    "poisson": (losses.Poisson(), "count"),
    "smoothed hinge": (losses.SmoothedHinge(0.5), "label"),
    "squared hinge": (losses.SquaredHinge(), "label"),
}
BASIS, WITNESS = spaces.Basis(cosines), spaces.Basis(cosines_and_target)


def saddle(name: str, *, form: str = "invariance", **options: Any) -> de.Saddle:
    loss, kind = SMOOTH[name] if name in SMOOTH else (losses.Square(), "real")
    data = sources.Dataset(**table(kind))
    if form == "invariance":
        return de.Saddle(problems.Invariance(data, loss), BASIS, WITNESS, **(PENALTIES | options))
    return de.Saddle(problems.Moment(data, instrument, loss), BASIS, BASIS, **(PENALTIES | options))


@pytest.mark.parametrize("form", ["invariance", "moment"])
def test_for_the_square_loss_it_is_the_closed_form_in_one_step(form: str) -> None:
    with jax.enable_x64(True):
        both = saddle("square", form=form)
        exact, found = de.solve(0, both, solvers.ClosedForm(folds=1)), de.solve(0, both, solvers.Newton())
        np.testing.assert_allclose(found.primal.weights, exact.primal.weights, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(found.dual.function.weights, exact.dual.function.weights, rtol=1e-9, atol=1e-10)
    assert found.steps == 1


def test_in_spaces_with_kernels_it_is_the_closed_form_too() -> None:
    problem = problems.Invariance(sources.Dataset(**table()))
    both = de.Saddle(
        problem, spaces.Fourier(kernels.Gaussian(0.5), size=60), spaces.RKHS(kernels.Gaussian(0.7)), **PENALTIES
    )
    xs = np.linspace(-1, 1, 30)
    exact = de.solve(0, both, solvers.ClosedForm(folds=1)).primal(xs)
    np.testing.assert_allclose(de.solve(0, both, solvers.Newton()).primal(xs), exact, atol=1e-5)  # float32 weights


@pytest.mark.parametrize("form", ["invariance", "moment"])
@pytest.mark.parametrize("name", SMOOTH)
def test_the_mean_slopes_of_the_saddle_vanish(name: str, form: str) -> None:
    with jax.enable_x64(True):
        both = saddle(name, form=form)
        found = de.solve(0, both, solvers.Newton())
        terms = both.terms()
        psi = cosines(terms.points.reshape(-1, 1)).reshape(ROWS, -1, 5)
        phi = found.dual.function.features(terms.context)
        theta, eta = found.primal.weights, found.dual.function.weights
        in_primal, in_dual = both.slopes(terms, psi @ theta, phi @ eta)
        primal = jnp.einsum("nk,nkm->m", in_primal, psi) + PENALTIES["primal_penalty"] * theta
        dual = in_dual @ phi - PENALTIES["dual_penalty"] * eta
        # The stated sizes: rms |g| · rms loss'(offset), and rms |φ| times those of the slope's two parts.
        still = both.active_link.slope(both.loss, phi @ eta, 0 * terms.target, terms.target)
        parts = (jnp.einsum("nk,nkm->nm", terms.weights, psi), both.loss.slope(terms.offset, terms.target), phi)
        g, start, witness, driven, rest = (
            float(jnp.sqrt(jnp.sum(part**2) / ROWS)) for part in (*parts, ROWS * in_dual - still, still)
        )
        residuals = (
            float(jnp.linalg.norm(primal)) / (g * start),
            float(jnp.linalg.norm(dual)) / (witness * (driven + rest)),
        )
    assert max(residuals) < 1e-8
    np.testing.assert_allclose(max(residuals), found.trace.last[-1], rtol=1e-3, atol=1e-14)
    assert float(np.linalg.norm(theta)) > 0.3
    assert found.trace.last[0] > 0.01
    assert found.steps == len(found.trace.last) - 1 <= 10
    assert found.message == ""


@pytest.mark.parametrize("name", ["huber", "logistic"])
def test_embedding_sgd_run_long_converges_to_it(name: str) -> None:
    both = saddle(name, form="moment", primal_penalty=0.1, dual_penalty=0.05)
    xs = jnp.linspace(-1, 1, 40)
    exact = de.solve(0, both, solvers.Newton()).primal(xs)

    def error(primal: spaces.Function, dual: de.DualFunction) -> float:
        return float(jnp.linalg.norm(primal(xs) - exact) / jnp.linalg.norm(exact))

    solver = solvers.EmbeddingSGD(10_000, 40, schedules.OffsetSqrt(4.0, 1.0))
    early, late = de.solve(0, both, solver, solvers.Probe(error, at=(100,))).trace.averaged
    assert late < 0.02
    assert late < 0.2 * early


@pytest.mark.parametrize(("threshold", "bound"), [(3.0, 1e-9), (0.3, 1e-3)])
def test_the_duality_gap_is_zero_where_nothing_is_clipped_and_small_elsewhere(threshold: float, bound: float) -> None:
    problem = problems.Invariance(sources.Dataset(**table(rows=40)), losses.Huber(threshold))
    both = de.Saddle(problem, BASIS, WITNESS, **PENALTIES)
    found = de.solve(0, both, solvers.Newton())
    gap = solvers.duality_gap(both, found.primal, found.dual)
    assert abs(gap.value) < bound  # of best responses of about 0.03


def test_where_nothing_is_random_given_the_context_it_is_penalised_logistic_regression() -> None:
    data = table("label") | {"z": table("label")["x"]}
    problem = problems.Invariance(sources.Dataset(**data), losses.Logistic())
    features = np.asarray(np.cos(np.arange(5) * (data["x"][:, None] + 1)))

    def objective(theta: np.ndarray) -> float:
        return float(np.mean(np.logaddexp(0, -data["y"] * (features @ theta))) + 0.01 * theta @ theta)

    plain = optimize.minimize(objective, np.zeros(5), method="BFGS", options={"gtol": 1e-9}).x
    with jax.enable_x64(
        True
    ):  # a dual without penalty that holds f: v = f on the data, so that mean loss'(f) ψ + λ1 θ = 0
        both = de.Saddle(problem, BASIS, WITNESS, primal_penalty=0.02)
        np.testing.assert_allclose(de.solve(0, both, solvers.Newton()).primal.weights, plain, atol=1e-5)
        near = de.Saddle(problem, BASIS, WITNESS, primal_penalty=0.02, dual_penalty=1e-6)
        np.testing.assert_allclose(de.solve(0, near, solvers.Newton()).primal.weights, plain, atol=1e-2)


def test_gross_outliers_harm_huber_less_than_square() -> None:
    data, rng = table(rows=2000), np.random.default_rng(1)
    # With z = x + 0.3 noise, E[cos 2(z + 1) | x] = exp(-0.18) cos 2(x + 1); a tenth of the targets is spoilt.
    clean = np.exp(-0.18) * np.cos(2 * (data["x"] + 1)) + 0.1 * rng.normal(size=2000)
    data["y"] = np.where(rng.uniform(size=2000) < 0.1, 10 + 10 * rng.uniform(size=2000), clean)
    xs = np.linspace(-0.9, 0.9, 50)
    errors = {}
    for loss in (losses.Square(), losses.Huber(0.2)):
        problem = problems.Invariance(sources.Dataset(**data), loss)
        both = de.Saddle(problem, BASIS, WITNESS, primal_penalty=1e-3, dual_penalty=1e-4)
        off = de.solve(0, both, solvers.Newton()).primal(xs) - np.cos(2 * (xs + 1))
        errors[type(loss).__name__] = float(np.sqrt(np.mean(np.square(off))))
    assert errors["Huber"] < 0.1 < 1 < errors["Square"]


def test_features_that_do_not_fit_are_made_anew_and_tiles_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    both = saddle("logistic")
    whole = de.solve(0, both, solvers.Newton())
    monkeypatch.setattr(newton, "CACHE", 0)
    monkeypatch.setattr("dualembed.problems.base.TILE", 150)
    tiled = de.solve(0, both, solvers.Newton())
    np.testing.assert_allclose(tiled.primal.weights, whole.primal.weights, rtol=1e-5)


def test_an_ending_short_of_the_tolerance_is_said() -> None:
    with pytest.warns(de.solvers.EarlyStopWarning, match=r"stopped after 1 of 1 steps at a relative residual of"):
        found = de.solve(0, saddle("poisson"), solvers.Newton(steps=1))
    assert found.finite
    assert np.all(np.isfinite(found.primal.weights))


def test_a_link_without_finite_slopes_is_said() -> None:
    with pytest.warns(de.solvers.EarlyStopWarning, match="slopes are not finite"):
        found = de.solve(0, saddle("logistic", link=links.Direct()), solvers.Newton())
    assert found.steps == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: solvers.Newton(steps=0), "steps must be a whole number"),
        (lambda: solvers.Newton(tolerance=0.0), "tolerance must be positive"),
        (lambda: saddle("huber", dual_radius=1.0), "Newton's method takes penalties, not dual_radius"),
        (
            lambda: de.Saddle(problems.Invariance(sources.Dataset(**table("label")), losses.Hinge()), BASIS, WITNESS),
            r"Hinge loss has kinks; use one without, such as losses.SmoothedHinge",
        ),
        (
            lambda: de.Saddle(problems.Invariance(sources.Dataset(**table()), losses.Pinball(0.3)), BASIS, WITNESS),
            "solvers.EmbeddingSGD",
        ),
        (
            lambda: de.Saddle(problems.Invariance(sources.Dataset(**table()), losses.Huber()), spaces.Network(), BASIS),
            "needs a linear space, which Network is not",
        ),
    ],
)
def test_what_newton_cannot_solve_is_named(make: Any, words: str) -> None:
    with pytest.raises(de.InputError, match=words):
        de.solve(0, make(), solvers.Newton())


def test_the_closed_form_points_to_newton() -> None:
    with pytest.raises(de.InputError, match=r"use losses.Square\(\), solvers.Newton for a smooth loss"):
        de.solve(0, saddle("huber"), solvers.ClosedForm())
