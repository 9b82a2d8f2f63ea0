"""A real browser without a window: pages are loaded in frames of a given width and measured by a script beside them."""

from __future__ import annotations

import functools
import html
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
MISSING = "there is no Chromium here; install one, such as Debian's package chromium, to run the tests of pages"
SECONDS = 120
# The page is measured inside a frame, since windows without a head have a least width.
FRAME = """<!DOCTYPE html><meta charset="utf-8"><link rel="icon" href="data:,">
<body style="margin:0"><iframe id="frame" style="border:0;width:%dpx;height:900px" src="%s"></iframe>
<pre id="measured"></pre><script>
const colours = element => [getComputedStyle(element).color, getComputedStyle(element).backgroundColor];
document.getElementById("frame").onload = event => {
  const page = event.target.contentDocument;
  const root = page.documentElement;
  const reached = element => { element.focus(); return page.activeElement === element; };
  const shown = element => { const box = element.getBoundingClientRect();
    return {width: box.width, height: box.height, loaded: element.naturalWidth > 0}; };
  const focusable = [...page.querySelectorAll('a[href], [tabindex="0"]')];
  const measured = {
    title: page.title,
    width: root.clientWidth,
    needed: root.scrollWidth,
    cut: [...page.querySelectorAll(".wide, pre")].filter(box => box.scrollWidth > box.clientWidth).length,
    images: [...page.images].map(shown),
    links: page.querySelectorAll("a[href]").length,
    stops: focusable.length,
    unreached: focusable.filter(element => !reached(element)).length,
    lost: [...page.querySelectorAll("a[href]")].filter(link => !page.querySelector(link.getAttribute("href"))).length,
    text: colours(page.body),
    link: page.links.length ? colours(page.links[page.links.length - 1]) : null,
  };
  document.getElementById("measured").textContent = JSON.stringify(measured);
};
</script>"""


def run(folder: Path, address: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """What the browser prints, with everything that a page tells the console on standard error."""
    command = [
        str(BROWSER),
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--enable-logging=stderr",
        f"--user-data-dir={folder / 'profile'}",
        *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
        *flags,
        address,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)


def measure(folder: Path, page: str, *, width: int, dark: bool = False) -> dict[str, Any]:
    """Measurements of a page in the folder at a width, with the lines of the console."""
    (folder / "frame.html").write_text(FRAME % (width, page), encoding="utf-8")
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    with served(folder) as address:
        flags = ("--window-size=1400,1000", "--virtual-time-budget=10000", scheme, "--dump-dom")
        found = run(folder, f"{address}/frame.html", *flags)
    written = found.stdout.partition('<pre id="measured">')[2].partition("</pre>")[0]
    measured: dict[str, Any] = json.loads(html.unescape(written))
    return measured | {"console": [line for line in found.stderr.splitlines() if "CONSOLE" in line]}


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which a folder is served, to this machine only."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
