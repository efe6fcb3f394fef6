"""Servers that answer wrongly, change their mind or mean harm: what is read is right, or it is said what is wrong."""

import pickle

import cv2
import numpy as np
import pytest
import range_server
from click.testing import CliRunner

from handlens.cli import cli, uploads
from handlens.errors import DataError
from handlens.io import gate
from handlens.io.gate import place
from handlens.io.remote import http, reading
from handlens.io.remote.ring import Ring

CONTENT = np.random.default_rng(0).bytes(200_000)


@pytest.fixture(autouse=True)
def _forgetful_and_fast(monkeypatch):
    monkeypatch.setattr(reading, "FIRST_WAIT", 0.005)
    monkeypatch.setattr(reading, "LONGEST_WAIT", 0.02)
    monkeypatch.setattr(http, "QUIET_SECONDS", 2.0)
    for known in (reading.ring, http._connections):
        known.cache_clear()
    reading._looked.clear()
    yield
    http._connections.cache_clear()


def told(say):
    return range_server.running(range_server.Told(say))


def test_parts_and_whole_files_in_turns_give_the_right_bytes(monkeypatch):
    whole = [False]

    def say(method, target, headers):
        return (200, {"ETag": '"x"'}, CONTENT) if whole[0] else range_server.part_of(CONTENT, headers)

    def read(low, high):
        assert reading.read_part(path, facts, low, high) == CONTENT[low:high]

    with told(say) as server:
        path = place(f"{server.address}/a.bin")
        facts = reading.look(path)
        read(16_384, 32_768)
        whole[0] = True
        read(0, 100)
        read(40_000, 50_000)
        for kept in (Ring(1), Ring(300_000)):
            monkeypatch.setattr(reading, "ring", lambda kept=kept: kept)
            whole[0] = False
            read(50_000, 60_000)
            read(70_000, 80_000)
            whole[0] = True
            read(100, 90_000)
            read(100_000, 110_000)


def test_a_whole_file_that_breaks_is_taken_up_where_it_broke():
    def say(method, target, headers):
        if method == "HEAD" or len(server.log) > 2:
            return range_server.part_of(CONTENT, headers)
        return 200, {"ETag": '"x"', "Content-Length": "200000", "Connection": "close"}, [CONTENT[:50_000]]

    with told(say) as server:
        path = place(f"{server.address}/a.bin")
        assert reading.read_part(path, reading.look(path), 1000, 2000) == CONTENT[1000:2000]
        assert server.log[2][1] == "bytes=50000-"


def test_the_ring_looks_at_every_piece():
    ring, key = Ring(1000), ("a", "", 200)
    ring.keep(key, 0, CONTENT[:100])
    ring.keep(key, 10, CONTENT[10:20])
    assert ring.find(key, 30, 50) == CONTENT[30:80]


@pytest.mark.parametrize("said", ["bytes 0-999/200000", "bytes 1000-2000/200000", "bytes 1000-", "1000", ""])
def test_another_part_than_was_asked_for_is_refused(said):
    def say(method, target, headers):
        status, more, content = range_server.part_of(CONTENT, headers)
        return status, {**more, "Content-Range": said}, content

    with told(say) as server:
        path = place(f"{server.address}/a.bin")
        with pytest.raises(DataError, match="part of the file it sends|not asked for"):
            reading.read_part(path, reading.look(path), 1000, 2000)


def test_a_file_of_the_same_size_without_a_tag_is_not_mixed():
    now = [CONTENT, "Mon, 01 Jan 2024 00:00:00 GMT"]

    def say(method, target, headers):
        return range_server.part_of(now[0], headers, ETag="", Last_Modified=now[1])

    with told(say) as server:
        path = place(f"{server.address}/a.bin")
        with gate.open_file(path) as stream:
            assert stream.read(20_000) == CONTENT[:20_000]
            now[:] = CONTENT[::-1], "Tue, 02 Jan 2024 00:00:00 GMT"
            with pytest.raises(DataError, match="changed on the server while it was read"):
                stream.seek(150_000) and stream.read(1000)
        assert gate.read_bytes(path, most=1 << 20) == CONTENT[::-1]


def endless():
    while True:
        yield f"{1 << 18:x}\r\n".encode() + b"x" * (1 << 18) + b"\r\n"
        if server_sent[0] > 64 << 20:
            return
        server_sent[0] += 1 << 18


server_sent = [0]


@pytest.mark.parametrize("kind", ["part", "redirect"])
def test_a_body_without_end_is_left(kind):
    server_sent[0] = 0
    chunked = {"Transfer-Encoding": "chunked"}

    def say(method, target, headers):
        status, more, content = range_server.part_of(CONTENT, headers)
        if method == "HEAD" or target == "/there.bin":
            return status, more, content
        if kind == "redirect":
            return 302, {"Location": "/there.bin", **chunked}, endless()
        return status, {**more, **chunked}, endless()

    with told(say) as server:
        path = place(f"{server.address}/a.bin")
        facts = reading.look(path)
        if kind == "redirect":
            assert reading.read_part(path, facts, 1000, 2000) == CONTENT[1000:2000]
        else:
            with pytest.raises(DataError, match="more than was asked for"):
                reading.read_part(path, facts, 1000, 2000)
    assert server_sent[0] < 32 << 20


def test_a_server_that_begins_anew_and_breaks_is_not_asked_for_ever():
    def say(method, target, headers):
        if method == "HEAD":
            return range_server.part_of(CONTENT, headers)
        if len(server.log) > 40:
            return 404, {}, b""
        return 200, {"ETag": '"x"', "Content-Length": "200000", "Connection": "close"}, [CONTENT[:1000]]

    with told(say) as server:
        with pytest.raises(DataError, match="failed 6 times"):
            gate.read_bytes(place(f"{server.address}/a.bin"), most=1 << 20)
        assert len(server.log) < 10


class Answer:
    """What a server said, without one."""

    reason, headers = "", {}

    def __init__(self, status, **headers):
        self.status, self.headers = status, {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize("said", ["10, 10", "\u00b2", "-1", "9" * 5000, "1e3", ""])
def test_numbers_that_are_none_are_no_accident(said):
    with pytest.raises(DataError, match="not how long the file is"):
        http._total(Answer(200, content_length=said), "http://host/a.bin", 0, None)
    with pytest.raises(reading.Transient) as caught:
        http._refuse(Answer(503, retry_after=said), "http://host/a.bin")
    assert caught.value.wait == 0


# --- addresses --------------------------------------------------------------------------------------------------------


def test_the_query_of_a_signed_address_is_for_requests_alone(tmp_path):
    picture = cv2.imencode(".png", np.random.default_rng(0).integers(0, 255, (96, 96, 3)).astype(np.uint8))[1].tobytes()

    def say(method, target, headers):
        if not target.endswith("?sig=SECRET//a/"):
            return 403, {}, b""
        return range_server.part_of(picture, headers) if "f.png" in target else (418, {}, b"")

    with told(say) as server:
        there, missing = (f"{server.address}/{name}.png?sig=SECRET//a/" for name in ("f", "none"))
        said = [CliRunner().invoke(cli, ["inspect", there, "-o", str(tmp_path / "out")])]
        assert said[0].exit_code == 0, said[0].output
        assert [target for target, *_ in server.log if "SECRET//a/" not in target] == []
        said.append(CliRunner().invoke(cli, ["inspect", missing, "-o", str(tmp_path / "other")]))
        path = place(there)
    for each in said:
        assert "SECRET" not in each.output
    for file in tmp_path.rglob("*"):
        assert "SECRET" not in file.name
        assert not file.is_file() or b"SECRET" not in file.read_bytes()
    assert (path.name, str(path)) == ("f.png", f"{server.address}/f.png")
    assert pickle.loads(pickle.dumps(path)).query == path.query == "sig=SECRET//a/"
    assert path != place(f"{server.address}/f.png?sig=other")


def test_what_lies_in_a_folder_is_asked_for_with_the_folders_query():
    def say(method, target, headers):
        if not target.endswith("?token=SECRET"):
            return 403, {}, b""
        if target.startswith("/data/?"):
            page = b'<a href="a.bin">a</a> <a href="?C=N">Name</a> <a href="below/?token=SECRET">below</a>'
            return 200, {"Content-Type": "text/html"}, page
        return range_server.part_of(CONTENT, headers) if "/a.bin?" in target else (404, {}, b"")

    with told(say) as server:
        folder = place(f"{server.address}/data/?token=SECRET")
        assert sorted(folder.entries()) == [("a.bin", False), ("below", True)]
        for path in (folder / "a.bin", folder.joinpath("a.bin"), next(folder.iterdir())):
            assert gate.read_bytes(path, most=1 << 20) == CONTENT
        assert "SECRET" not in str(folder / "a.bin")


def test_files_that_differ_in_the_query_alone_are_told_apart():
    def say(method, target, headers):
        return range_server.part_of(CONTENT[int(target[-1]) :], headers)

    with told(say) as server:
        for number in (1, 2):
            assert gate.read_bytes(place(f"{server.address}/get?id={number}"), most=1 << 20) == CONTENT[number:]


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://host/a.bin", "http://[bad"])
def test_a_redirection_to_no_server_fails_at_once(target):
    with told(lambda method, name, headers: (302, {"Location": target}, b"")) as server:
        with pytest.raises(DataError, match="not safe"):
            gate.file_size(place(f"{server.address}/a.bin"))
        assert len(server.log) == 1


def test_a_redirection_from_https_to_http_is_refused():
    with pytest.raises(DataError, match="not safe"):
        http._redirected("https://host/a", "http://host/a")
    assert http._redirected("http://host/a", "//other/b") == "http://other/b"
    assert http._redirected("http://host/a", "https://host/a") == "https://host/a"


def test_passwords_are_for_the_first_host_alone(tmp_path, monkeypatch):
    (tmp_path / ".netrc").write_text("default login me password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    http._authorised.cache_clear()

    def say(method, target, headers):
        host = "localhost" if target == "/a.bin" else "127.0.0.1"
        where = {"/a.bin": "/b.bin", "/b.bin": "/c.bin"}.get(target)
        there = f"http://{host}:{server.server_address[1]}{where}"
        return (302, {"Location": there}, b"") if where else range_server.part_of(CONTENT, headers)

    with told(say) as server:
        assert gate.file_size(place(f"{server.address}/a.bin")) == len(CONTENT)
        assert ["authorization" in headers for *_, headers in server.log] == [True, False, False]
    http._authorised.cache_clear()


@pytest.mark.parametrize(
    "key", ["a%3Fb.png", "o/folder%2Ffile.png", "a%252Fb", "a%20b/100%25.png", "a.png?sig=ab//cd/", "a?next=/b%2Fc?d"]
)
def test_an_address_is_asked_for_as_it_was_given(key):
    assert http._url(place(f"https://host/{key}")) == f"https://host/{key}"


# --- side by side -----------------------------------------------------------------------------------------------------


def test_files_of_many_pieces_are_read_side_by_side(monkeypatch):
    monkeypatch.setattr(reading, "PIECE", 1 << 16)

    def read(number):
        path = place(f"{server.address}/{number}.bin")
        gate.announce(path, [(0, len(CONTENT))])
        return gate.read_bytes(path, most=1 << 20) == CONTENT

    with told(lambda method, target, headers: range_server.part_of(CONTENT, headers)) as server:
        tasks = [reading.askers().submit(read, number) for number in range(2 * reading.AT_ONCE)]
        assert all(task.result(timeout=20) for task in tasks)


# --- lists ------------------------------------------------------------------------------------------------------------

PAGE = {"Content-Type": "text/html"}


def test_a_folder_that_lists_itself_has_an_end():
    with told(lambda method, target, headers: (200, PAGE, b'<a href="x/">x</a>')) as server:
        with pytest.raises(DataError, match="does not lie in itself"):
            list(gate.walk(place(f"{server.address}/loop"), failed=print))
        assert len(server.log) < 100


def test_names_that_are_none_are_not_listed():
    page = b'<a href="http://[bad">x</a><a href="a%00b.png">x</a><a href="c.png">x</a>'
    with told(lambda method, target, headers: (200, PAGE, page)) as server:
        assert place(f"{server.address}/folder").entries() == [("c.png", False)]


def test_a_page_that_is_none_is_told(monkeypatch):
    def feed(self, text):
        raise AssertionError("unknown status keyword")

    monkeypatch.setattr(http._Links, "feed", feed)
    with told(lambda method, target, headers: (200, PAGE, b"<![x[")) as server, pytest.raises(DataError, match="none"):
        place(f"{server.address}/folder").entries()


def test_a_folder_behind_redirections_is_listed_where_it_lies():
    where = {"/old/": "/new/place", "/new/place": "/new/place/"}

    def say(method, target, headers):
        if target in where:
            return 302, {"Location": where[target]}, b""
        return 200, PAGE, b'<a href="/new/place/a.png">x</a><a href="b.png">x</a>' * (target == "/new/place/")

    with told(say) as server:
        assert place(f"{server.address}/old").entries() == [("a.png", False), ("b.png", False)]


def test_a_folder_is_not_read_as_a_file():
    def say(method, target, headers):
        return (301, {"Location": f"{target}/"}, b"not the file")

    with told(say) as server, pytest.raises(DataError, match="a folder, not a regular file"):
        gate.read_bytes(place(f"{server.address}/a.bin"), most=100)


# --- outputs ----------------------------------------------------------------------------------------------------------


def test_what_is_to_be_uploaded_lies_in_a_folder_of_ones_own(tmp_path, monkeypatch):
    def folder_used():
        with uploads.output_folder(place("s3://bucket/run"), ()) as folder:
            assert folder.stat().st_mode & 0o777 == 0o700
            return folder

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(uploads, "is_there", lambda path: False)
    monkeypatch.setattr(uploads, "_upload", lambda folder, out: None)
    (tmp_path / "elsewhere").mkdir()
    first = folder_used()
    monkeypatch.chdir(tmp_path / "elsewhere")
    second = folder_used()
    assert first != second
    for path in second.iterdir():
        path.unlink()
    second.rmdir()
    second.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="not a folder of yours"):
        folder_used()
    second.unlink()
    second.mkdir()
    monkeypatch.setattr("os.getuid", lambda: 12345)
    with pytest.raises(DataError, match="not a folder of yours"):
        folder_used()
