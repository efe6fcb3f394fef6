"""A real browser for tests: Debian's chromium through Playwright; tests skip, with a reason, where either is absent."""

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

SERIOUS = ("serious", "critical")


@contextmanager
def launched():
    """A browser without a window; any test that uses it must be marked slow."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"], timeout=60_000)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser, address, *, width=1400, height=900, **options):
    """A page whose console must stay silent, whose resources must all be there, and that shows no alert."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    context.set_default_timeout(60_000)
    page = context.new_page()
    faults = []
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("requestfailed", lambda request: faults.append(f"{request.url[:200]}: {request.failure}"))
    page.on("response", lambda answer: faults.append(answer.url[:200]) if answer.status >= 400 else None)
    page.on("dialog", lambda dialog: (faults.append(f"alert {dialog.message}"), dialog.dismiss()))
    try:
        page.goto(address)
        yield page
        seen = [fault for fault in faults if "ERR_ABORTED" not in fault]  # a download, or a page that was left
    finally:
        context.close()
    assert not seen, seen


def serious_findings(page):
    """What axe-core finds that keeps people out."""
    axe = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    page.evaluate(Path(axe.__file__).with_name("axe.min.js").read_text("utf-8"))
    found = page.evaluate("() => axe.run(document)")["violations"]
    return [(each["id"], each["nodes"][0]["html"][:200]) for each in found if each["impact"] in SERIOUS]
