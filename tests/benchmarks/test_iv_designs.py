"""The simulated instrumental-variable problems are what they say: instruments are valid, truths are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import iv_designs
from dualembed.checks import InputError

CONFOUNDED = {
    **{f"one-dimensional {name}": (iv_designs.one_dimensional, name) for name in iv_designs.CURVES},
    **{f"two-dimensional {name}": (iv_designs.two_dimensional, name) for name in iv_designs.CURVES},
}


@pytest.mark.parametrize("case", CONFOUNDED)
def test_the_noise_is_confounded_with_x_but_not_with_the_instrument(case: Any) -> None:
    make, name = CONFOUNDED[case]
    design = make(name, 20_000, 0)
    raw = iv_designs.CURVES[name](design.x[:, 0])
    # y is an affine map of f(x) + e, and test_f is the same map of f at test_x, which gives the map away.
    curve = iv_designs.CURVES[name](design.test_x[:, 0])
    scale, centre = np.polyfit(curve, design.test_f, 1)
    noise = (design.y - centre) / scale - raw
    assert abs(design.y.mean()) < 1e-12
    assert design.y.std() == pytest.approx(1.0)
    assert np.corrcoef(noise, design.x[:, 0])[0, 1] > 0.3
    assert all(abs(np.corrcoef(noise, column)[0, 1]) < 0.03 for column in design.z.T)
    assert noise.std() == pytest.approx(np.sqrt(4.01), rel=0.03)
    assert design.test_x.shape == (1000, 1)


@pytest.mark.parametrize(
    ("name", "curve", "uneven"),
    [
        ("logistic ramp", lambda x: 1 / (1 + np.exp(-4 * (x - 0.5))), True),
        ("two kinks", lambda x: np.interp(x, [-0.5, 1.5, 9.5], [0, 2, -6]), False),
        ("exponential rise", lambda x: np.exp(0.8 * x), False),
    ],
)
def test_held_out_designs_have_valid_instruments_and_known_truths(name: str, curve: Any, uneven: bool) -> None:
    design = iv_designs.HELD_OUT[name](50_000, 0)
    truth = curve(design.test_x[:, 0])
    scale, centre = np.polyfit(truth, design.test_f, 1)
    assert np.allclose(scale * truth + centre, design.test_f)
    noise = (design.y - centre) / scale - curve(design.x[:, 0])
    assert all(abs(np.corrcoef(noise, column)[0, 1]) < 0.02 for column in design.z.T)
    assert all(np.corrcoef(design.x[:, 0], column)[0, 1] > 0.3 for column in design.z.T)
    assert np.corrcoef(noise, design.x[:, 0])[0, 1] > 0.2
    assert (np.corrcoef(noise**2, abs(design.z[:, 0]))[0, 1] > 0.1) == uneven


def test_demand_has_the_stated_correlation_and_grid() -> None:
    design = iv_designs.demand(50_000, 1, 0.9)
    noise = design.y - iv_designs.demanded(design.x)
    price_noise = design.x[:, 0] - 25 - (design.z[:, 0] + 3) * iv_designs.season(design.x[:, 1])
    assert np.corrcoef(noise, price_noise)[0, 1] == pytest.approx(0.9, abs=0.01)
    assert noise.std() == pytest.approx(1.0, abs=0.02)
    assert np.array_equal(design.x[:, 1:], design.z[:, 1:])
    assert design.test_x.shape == (2800, 3)
    assert np.array_equal(np.unique(design.test_x[:, 2]), np.arange(1.0, 8.0))


def test_standardised_demand_rescales_the_truth_and_not_the_noise() -> None:
    plain, standard = (iv_designs.demand(500, 3, 0.5, standardised=each) for each in (False, True))
    assert np.array_equal(plain.x, standard.x)
    assert np.allclose(standard.test_f, (plain.test_f - 100 + 292.1) / 158)
    noise = plain.y - iv_designs.demanded(plain.x)
    assert np.allclose(standard.y, (iv_designs.demanded(plain.x) - 100 + 292.1) / 158 + noise)


@pytest.mark.parametrize(("r", "naive"), [(100, 1.28), (280, 1.53)])
def test_many_moments_bias_two_stage_least_squares_as_stated(r: Any, naive: Any) -> None:
    slopes = []
    for seed in range(30):
        design = iv_designs.many_moments(1000, r, seed)
        fitted = design.z @ np.linalg.lstsq(design.z, design.x[:, 0], rcond=None)[0]
        slopes.append(fitted @ design.y / (fitted @ design.x[:, 0]))
    assert np.mean(slopes) == pytest.approx(naive, abs=0.03)


def test_designs_follow_from_their_seed_and_refuse_other_names() -> None:
    first, again, other = (iv_designs.one_dimensional("sin", 50, seed).y for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    with pytest.raises(InputError, match=r"one of abs, linear, sin, step, .* not 'cosine'"):
        iv_designs.one_dimensional("cosine", 50, 0)
    with pytest.raises(InputError, match="rho must be a correlation"):
        iv_designs.demand(50, 0, 1.5)
