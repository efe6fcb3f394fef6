"""The app, from its addresses: who is let in, uploads, jobs that survive, cancelled, broken and slow ones."""

import http.client
import json
import socket
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import uvicorn

from handlens.errors import DataError
from handlens.io.images import write_png
from handlens.web.jobs import Jobs
from handlens.web.kinds import guess
from handlens.web.server import create_app, safe_path

TOKEN = "secret-token"
PATIENCE = 120
SLOW = """
import sys, time, pathlib
out = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
print("cells: 1 of 4", file=sys.stderr, flush=True)
go = pathlib.Path(sys.argv[3]).parent.parent / "go"
for _ in range(1200):
    if go.exists(): break
    time.sleep(0.05)
out.mkdir(parents=True, exist_ok=True)
(out / "report.html").write_text("<!DOCTYPE html><html lang=en><title>r</title><p>hello</p></html>")
(out / "report_data").mkdir(exist_ok=True)
"""
BROKEN = "import sys; print('handlens: picture.png: not a readable image: copy it again', file=sys.stderr); sys.exit(1)"


@contextmanager
def serving(folder, script=None, **options):
    """The app on a free port, in a thread that ends with the block; gives its address."""
    command = (sys.executable, "-c", script) if script else (sys.executable, "-m", "handlens")
    app = create_app(folder, TOKEN, jobs=Jobs(folder, command=command), **options)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(64)  # who asks before the server is up waits
    config = uvicorn.Config(app, log_level="critical", access_log=False, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/{TOKEN}/"
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


def ask(address, path="", method="GET", body=None, **headers):
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    try:
        body = json.dumps(body) if isinstance(body, dict) else body
        connection.request(method, parts.path + path, body, {"Host": parts.netloc, **headers})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    kind = answer.headers.get("content-type", "")
    return answer.status, json.loads(content) if "json" in kind else content


def new_job(address, name="picture.png", content=b"x"):
    _, job = ask(address, "jobs", "POST")
    assert ask(address, f"jobs/{job['id']}/input/{name}", "PUT", content)[0] == 200
    return job["id"]


def wait_for(address, id, *states):
    for _ in range(PATIENCE * 20):
        _, job = ask(address, f"jobs/{id}")
        if job["state"] in states:
            return job
        time.sleep(0.05)
    raise AssertionError(f"still {job}")


def test_only_the_address_that_was_given_opens_the_door(tmp_path):
    with serving(tmp_path, BROKEN) as address:
        assert ask(address)[0] == 200
        assert ask(address.replace(TOKEN, "wrong"))[0] == 404
        assert ask(address.replace(f"/{TOKEN}", ""))[0] == 404
        assert ask(address, Host="evil.example")[0] == 421
        assert ask(address, "jobs", "POST", Origin="http://evil.example")[0] == 403


@pytest.mark.parametrize(
    "name",
    ["../x", "a/../../x", "/etc/passwd", ".hidden", "a//b", "a\\b", "a\x00b", "", "x" * 300, "a:b", "/".join("a" * 20)],
)
def test_names_that_leave_the_folder_are_refused(name):
    with pytest.raises(DataError):
        safe_path(name)


def test_an_upload_is_bounded_and_leaves_nothing_behind(tmp_path):
    with serving(tmp_path, BROKEN, most_bytes=1000) as address:
        id = new_job(address, content=b"x" * 900)
        status, answer = ask(address, f"jobs/{id}/input/more.png", "PUT", b"x" * 200)
        assert (status, answer["error"]) == (413, "more than 1,000 bytes in one job")
        assert [path.name for path in (tmp_path / id / "input").iterdir()] == ["picture.png"]
        assert ask(address, f"jobs/{id}/input/..%2f..%2fx", "PUT", b"x")[0] in (400, 404)
        assert ask(address, f"jobs/{id}/start", "POST", {"challenge": "nothing"})[0] == 400
        assert ask(address, f"jobs/{id}/start", "POST", b"[" * 5000)[0] == 400
        assert ask(address, "jobs/0123456789abcdef")[0] == 400


def test_a_broken_file_fails_with_its_message(tmp_path):
    with serving(tmp_path, BROKEN) as address:
        id = new_job(address)
        ask(address, f"jobs/{id}/start", "POST", {"challenge": "cells"})
        job = wait_for(address, id, "failed")
        assert job["message"] == "picture.png: not a readable image: copy it again"


def test_a_slow_job_can_be_stopped_and_started_again(tmp_path):
    with serving(tmp_path, SLOW) as address:
        id, other = new_job(address), new_job(address)
        for each in (id, other):
            ask(address, f"jobs/{each}/start", "POST", {"challenge": "cells"})
        for _ in range(PATIENCE * 20):
            _, job = ask(address, f"jobs/{id}")
            if job["done"]:
                break
            time.sleep(0.05)
        assert (job["state"], job["done"], job["total"]) == ("running", 1, 4)
        assert ask(address, f"jobs/{other}")[1]["state"] == "waiting"
        assert ask(address, f"jobs/{other}/cancel", "POST")[1]["state"] == "cancelled"
        assert ask(address, f"jobs/{id}/cancel", "POST")[1]["state"] == "cancelled"
        (tmp_path / id / "go").touch()
        ask(address, f"jobs/{id}/start", "POST", {"challenge": "cells"})
        job = wait_for(address, id, "done")
        assert job["page"] == "report.html"
        assert b"hello" in ask(address, f"jobs/{id}/files/report.html")[1]
        assert [file["name"] for file in ask(address, f"jobs/{id}/files")[1]["files"]] == ["report.html"]
        assert ask(address, f"jobs/{id}/all.zip")[1][:2] == b"PK"
        assert ask(address, f"jobs/{id}/files/..%2fjob.json")[0] in (400, 404)
        assert ask(address, f"jobs/{id}", "DELETE")[0] == 200
        assert not (tmp_path / id).exists()


def test_jobs_survive_a_restart_of_the_server(tmp_path):
    with serving(tmp_path, SLOW) as address:
        id = new_job(address)
        ask(address, f"jobs/{id}/start", "POST", {"challenge": "cells"})
        wait_for(address, id, "running")
    assert json.loads((tmp_path / id / "job.json").read_text())["state"] == "running"
    (tmp_path / id / "go").touch()
    with serving(tmp_path, SLOW) as address:
        assert wait_for(address, id, "done")["title"] == "picture.png"


def test_what_an_upload_is_taken_for(tmp_path):
    def picture(name, colour):
        folder = tmp_path / name
        write_png(folder / "a.png", np.full((40, 40, 3), colour, np.uint8))
        return guess(folder)[0]

    assert picture("tissue", (190, 120, 180)) == "cells"
    assert picture("skin", (220, 170, 140)) == "lesions"
    assert picture("figure", (255, 255, 255)) == "forgery"
    assert picture("dark", (10, 10, 10)) == "cells"
    (tmp_path / "scroll" / "layers").mkdir(parents=True)
    (tmp_path / "scroll" / "layers" / "00.tif").touch()
    assert guess(tmp_path / "scroll")[0] == "ink"
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "x.PDF").touch()
    assert guess(tmp_path / "paper")[0] == "forgery"
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "table.csv").touch()
    with pytest.raises(DataError, match="nothing here can be read: drop images"):
        guess(tmp_path / "none")


def test_what_an_upload_is_asked_for(tmp_path):
    jobs = Jobs(tmp_path)
    job = replace(jobs.create(), challenge="lesions")
    place = jobs.place(job.id) / "input"
    (place / "a.jpg").touch()
    assert jobs._arguments(job)[-2:] == ["--write", "occlusion"]
    for number in range(50):
        (place / f"{number}.jpg").touch()
    assert "--write" not in jobs._arguments(job)
    (place / "paper.pdf").touch()
    assert jobs._arguments(job)[0] == "inspect"


def test_a_message_names_the_file_as_it_was_dropped(tmp_path):
    script = "import sys; print(f'handlens: {sys.argv[3]}: not an image', file=sys.stderr); sys.exit(1)"
    with serving(tmp_path, script) as address:
        id = new_job(address)
        ask(address, f"jobs/{id}/start", "POST", {"challenge": "cells"})
        assert wait_for(address, id, "failed")["message"] == "picture.png: not an image"


def test_the_folder_of_jobs_may_hold_other_things(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "0123456789abcdef").mkdir()
    (tmp_path / "0123456789abcdef" / "job.json").write_text("{broken")
    assert Jobs(Path(tmp_path)).all() == []
