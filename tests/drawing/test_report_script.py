"""What the script of a page does in a browser, where one is installed: fingers and keys reach what a mouse reaches."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.handmade import HandmadeResult, report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

PROBE = """
<script>
window.addEventListener("load", () => {
  const tip = document.getElementById("tip"), told = [];
  const note = (what) => told.push(what + "=" + (tip.hidden ? "" : "tip"));
  const pictures = [...document.querySelectorAll("svg[tabindex]")].filter((each) => each.querySelector("[data-tip]"));
  const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const tap = (picture) => {
    const mark = picture.querySelector("[data-tip]");
    mark.dispatchEvent(new PointerEvent("pointerdown", { pointerType: "touch", bubbles: true, clientX: 9 }));
    picture.focus();
  };
  tap(pictures[0]);
  note("first tap");
  tap(pictures[1]);
  note("second tap");
  press("Escape");
  note("escape");
  press("ArrowLeft");
  note("arrow");
  const last = pictures[1].querySelector(".told");
  press("ArrowRight");
  press("ArrowLeft");
  told.push("round=" + (last !== null && last === pictures[1].querySelector(".told")));
  pictures[0].focus();
  note("focus moved by key");
  document.title = told.join("; ");
});
</script></body>"""


@pytest.mark.heavy
@pytest.mark.skipif(BROWSER is None, reason="no Chromium to open a page with")
def test_a_tap_and_a_key_show_what_a_mouse_shows(tmp_path: Path, make_solution: Callable[..., HandmadeResult]) -> None:
    """The second picture that is tapped takes the focus and keeps its tip; Escape hides it, arrows go round."""
    page = tmp_path / "page.html"
    page.write_text(report(make_solution(16)).replace("</body>", PROBE))
    words = (str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}")
    told = subprocess.run([*words, "--dump-dom", f"file://{page}"], capture_output=True, text=True, check=True).stdout
    title = re.search(r"<title>(.*?)</title>", told)
    assert title is not None
    wanted = "first tap=tip; second tap=tip; escape=; arrow=tip; round=true; focus moved by key="
    assert title[1] == wanted
