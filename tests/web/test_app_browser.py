"""The app in a real browser, end to end for all four challenges: drop, start, look, change, download, reload."""

import json

import pytest
from browser import launched, opened, serious_findings
from test_app import BROKEN, SLOW, serving

from handlens import pipeline, registry

pytestmark = pytest.mark.slow
SIZES = {"forgery": 96, "ink": 96, "cells": 96, "lesions": 64}
DROP = """async ([name, bytes]) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([new Uint8Array(bytes)], name));
  document.getElementById("drop").dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""


@pytest.fixture(scope="module")
def browser():
    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    found = {}
    for name, size in SIZES.items():
        challenge = registry.challenge(name)
        pipeline.sample(challenge, folder / name, seed=1, cases=1, size=size)
        found[name] = pipeline.read_cases(challenge, folder / name, "test")[0].path
    return found


def wait_for(page, state, job=".job"):
    page.locator(f"{job}[data-state={state}]").first.wait_for(timeout=180_000)


def move_slider(page, value):
    page.locator("#adjust").fill(value)
    page.locator("#adjust").dispatch_event("change")


def saved(page, name):
    """What the link with this name downloads."""
    with page.expect_download() as download:
        page.locator("#downloads").get_by_role("link", name=name, exact=True).click()
    return download.value.path().read_bytes()


@pytest.mark.parametrize("name", SIZES)
def test_from_a_drop_to_a_download(browser, samples, tmp_path, name):
    with serving(tmp_path / "jobs") as address, opened(browser, address, accept_downloads=True) as page:
        source = samples[name]
        page.locator("#folder" if source.is_dir() else "#files").set_input_files(source)
        page.locator("#ready:visible").wait_for()
        assert "taken for" in page.locator("#taken").text_content()
        page.locator("#kind").select_option(name)
        page.get_by_role("button", name="Start", exact=True).click()
        wait_for(page, "done")
        frame = page.frame_locator("#page")
        frame.locator(".card .open").first.click()
        assert frame.locator("#world .layer").count() >= 1
        before = page.locator("#page").get_attribute("src")
        assert page.locator("#adjust-label").is_visible()
        move_slider(page, "0.9")
        page.wait_for_function("before => document.getElementById('page').getAttribute('src') !== before", arg=before)
        frame.locator("#viewer-title").wait_for()  # the case that was open is open again
        assert page.locator("#zip").get_attribute("href").endswith("all.zip?value=0.90")
        page.locator("details.files summary").click()
        page.locator("#downloads", has_text="As fitted: ").wait_for()
        frame.locator("main > p.files").wait_for(state="attached")
        assert frame.locator("#viewer-title").is_visible()  # files and counts came without another page
        if name == "cells":
            assert frame.locator("#side ul.files a").count() >= 3
            assert frame.locator("#side dt", has_text="nuclei").count() == 1
        with opened(browser, address, accept_downloads=True) as other:
            other.get_by_role("button", name="Look").click()
            move_slider(other, "0.05")
            other.locator("#downloads", has_text="As fitted: ").wait_for(state="attached")
        (out,) = (tmp_path / "jobs").glob(f"*/out-{name}")
        assert (
            saved(page, "adjusted/0.90/submission.csv") == (out / "adjusted" / "0.90" / "submission.csv").read_bytes()
        )
        page.reload()
        page.get_by_role("button", name="Look").click()
        page.locator("details.files summary").click()
        page.locator("#downloads a").first.wait_for()
        assert page.locator("#downloads a", has_text="adjusted").count() == 0
        assert page.locator("#zip").get_attribute("href").endswith("all.zip")
        assert saved(page, "submission.csv") == (out / "submission.csv").read_bytes()
        assert serious_findings(page) == []


def test_a_made_up_example_for_who_has_no_picture(browser, tmp_path):
    with serving(tmp_path / "jobs") as address, opened(browser, address) as page:
        page.get_by_role("button", name="Try a synthetic example").nth(2).click()
        wait_for(page, "done")
        assert page.locator("#offers").is_hidden()
        assert "synthetic-cells" in page.locator(".job").text_content()
        page.frame_locator("#page").get_by_text("Where points were lost").first.wait_for()


def test_a_broken_file_a_second_tab_and_a_reload(browser, tmp_path):
    with serving(tmp_path, BROKEN) as address, opened(browser, address) as page:
        page.evaluate(DROP, ["picture.png", [1, 2, 3]])
        page.locator("#ready:visible").wait_for()
        page.get_by_role("button", name="Start", exact=True).click()
        wait_for(page, "failed")
        assert "not a readable image" in page.locator(".job .state").text_content()
        with opened(browser, address) as other:
            wait_for(other, "failed")
            other.get_by_role("button", name="Remove").click()
            other.locator(".job").first.wait_for(state="detached")
        page.locator(".job").first.wait_for(state="detached")
        page.reload()
        assert page.locator(".job").count() == 0


def test_a_slow_job_is_watched_stopped_and_started_again(browser, tmp_path):
    with serving(tmp_path, SLOW) as address, opened(browser, address, width=390) as page:
        page.evaluate(DROP, ["picture.png", [1, 2, 3]])
        page.locator("#ready:visible").wait_for()
        page.get_by_role("button", name="Start", exact=True).click()
        page.locator(".state", has_text="1 of 4").wait_for(timeout=120_000)
        page.reload()
        page.get_by_role("button", name="Stop").click()
        wait_for(page, "cancelled")
        (job,) = [path for path in tmp_path.iterdir() if (path / "job.json").is_file()]
        (job / "go").touch()
        page.get_by_role("button", name="Start again").click()
        wait_for(page, "done")
        page.get_by_role("button", name="Look").click()
        page.frame_locator("#page").get_by_text("hello").wait_for()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        assert json.loads((job / "job.json").read_text())["state"] == "done"
