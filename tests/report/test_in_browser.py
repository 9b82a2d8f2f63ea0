"""Reports in a real browser: nothing fails, nothing is cut off, all can be reached by keyboard and read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.report import chromium
from tests.report.models import HOSTILE, wide_model

from dualembed import report

pytestmark = pytest.mark.skipif(chromium.BROWSER is None, reason=chromium.MISSING)

LONG = "dualembed fit iv a_table_with_a_rather_long_name.parquet --out model --report report.html " * 3
CASES = {"desk": (1280, False), "telephone": (390, False), "dark": (390, True)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pages")
    model, data = wide_model()
    report.write_report(model, made / "report.html", data=data, command=LONG, title=HOSTILE)
    card = f'<!DOCTYPE html><html lang="en"><title>card</title><body>{report.card(model)}'
    (made / "card.html").write_text(card, encoding="utf-8")
    return made


@pytest.fixture(scope="module", params=list(CASES))
def seen(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    width, dark = CASES[request.param]
    return chromium.measure(folder, "report.html", width=width, dark=dark) | {"asked": width, "dark": dark}


def test_console_stays_empty(seen: dict[str, Any]) -> None:
    assert seen["console"] == []


def test_nothing_scrolls_sideways(seen: dict[str, Any]) -> None:
    assert seen["width"] > seen["asked"] - 30  # at most a scroll bar less
    assert seen["needed"] <= seen["width"]


def test_no_table_and_no_command_is_cut_off(seen: dict[str, Any]) -> None:
    assert seen["cut"] == 0


def test_every_figure_is_loaded_and_large_enough_to_read(seen: dict[str, Any]) -> None:
    assert len(seen["images"]) == 5
    assert all(each["loaded"] for each in seen["images"])
    assert all(each["width"] >= 280 and each["height"] >= 150 for each in seen["images"])


def test_links_and_wide_tables_are_reached_by_keyboard(seen: dict[str, Any]) -> None:
    assert seen["links"] == 10
    assert seen["stops"] > seen["links"]
    assert (seen["unreached"], seen["lost"]) == (0, 0)


def test_hostile_title_is_shown_and_not_run(seen: dict[str, Any]) -> None:
    assert seen["title"] == " ".join(HOSTILE.split())


def test_text_and_links_stand_out_in_light_and_dark(seen: dict[str, Any]) -> None:
    ink, paper = map(_luminance, seen["text"])
    link = _luminance(seen["link"][0])
    assert (ink > paper) == seen["dark"]
    assert min(_contrast(ink, paper), _contrast(link, paper)) >= 4.5  # what WCAG asks for


def test_card_fits_a_narrow_cell(folder: Path) -> None:
    seen = chromium.measure(folder, "card.html", width=390)
    assert seen["console"] == []
    assert seen["needed"] <= seen["width"]
    assert seen["images"][0]["loaded"]


def test_measurements_see_what_is_wrong(tmp_path: Path) -> None:
    wrong = '<body><a href="#nowhere">x</a><img src="gone.png"><div style="width:500px">x</div>'
    wrong += '<pre style="overflow-x:auto">' + "long " * 99 + "</pre><script>oh()</script>"
    (tmp_path / "wrong.html").write_text(wrong, encoding="utf-8")
    seen = chromium.measure(tmp_path, "wrong.html", width=390)
    assert any("oh is not defined" in line for line in seen["console"])
    assert seen["needed"] > seen["width"]
    assert seen["cut"] == 1
    assert not seen["images"][0]["loaded"]
    assert seen["lost"] == 1


def _luminance(colour: str) -> float:
    """The relative luminance of a colour as browsers write it, rgb(r, g, b)."""
    shares = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(first: float, second: float) -> float:
    low, high = sorted((first, second))
    return (high + 0.05) / (low + 0.05)
