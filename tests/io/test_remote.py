"""Data on servers: an HTTP server that sends parts, and buckets, both on loopback and failing as they are told."""

import logging
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow.dataset
import pytest
import range_server
import tifffile
import zarr
from click.testing import CliRunner
from stacks import make_volume

import handlens
from handlens.challenges.forgery.inspection import tables
from handlens.challenges.forgery.inspection.reading import find_figures, list_files
from handlens.cli import cli
from handlens.errors import DataError, SubmissionError
from handlens.io import gate, images, volumes
from handlens.io.gate import place
from handlens.io.remote import http, objects, reading
from handlens.io.remote.ring import Ring


@pytest.fixture(autouse=True)
def _forgetful_and_fast(monkeypatch):
    monkeypatch.setattr(reading, "FIRST_WAIT", 0.005)
    monkeypatch.setattr(reading, "LONGEST_WAIT", 0.02)
    monkeypatch.setattr(http, "QUIET_SECONDS", 0.4)
    for known in (reading.ring, http._connections, objects._opened):
        known.cache_clear()
    reading._looked.clear()
    yield
    http._connections.cache_clear()


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def write_slices(folder: Path, volume: np.ndarray) -> Path:
    folder.mkdir(parents=True)
    for number, plane in enumerate(volume):
        packing = "zlib" if number % 2 else None
        tifffile.imwrite(folder / f"{number:02d}.tif", plane, compression=packing, rowsperstrip=16)
    return folder


def read_all(stack: volumes.Stack, step: int = 64) -> np.ndarray:
    height = stack.shape[0]
    bands = [stack.read_band(top, min(top + step, height), 0, stack.depth) for top in range(0, height, step)]
    return np.concatenate(bands, axis=1)


# --- addresses --------------------------------------------------------------------------------------------------------


def test_an_address_is_a_path():
    path = place("https://host:80/some%20folder/segment.zarr/")
    assert str(path) == "https://host:80/some folder/segment.zarr"
    assert (path.name, path.stem, str(path.parent)) == ("segment.zarr", "segment", "https://host:80/some folder")
    assert str(path / "0" / "1") == f"{path}/0/1"
    assert str((path / "0" / "1").relative_to(path)) == "0/1"
    assert pickle.loads(pickle.dumps(path)) == path == place(str(path))
    assert place(path) is path


@pytest.mark.parametrize(
    ("given", "meant"),
    [("file:///tmp/a%20b", "/tmp/a b"), ("file:/tmp/a", "/tmp/a"), ("a/b", "a/b"), ("c:d", "c:d")],
)
def test_a_file_of_this_machine(given, meant):
    assert place(given) == Path(meant)


@pytest.mark.parametrize(
    ("given", "words"),
    [("ftp://host/x", "ftp:// is not read; expected https://"), ("https://me:secret@host/x", "leave them out")],
)
def test_an_address_that_is_not_read(given, words):
    with pytest.raises(DataError) as caught:
        place(given)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_nothing_is_written_to_a_server_as_to_a_disk(tmp_path):
    with pytest.raises(DataError, match="name a folder of this machine"):
        handlens.sample("cells", "s3://bucket/new", cases=1, size=64)


# --- volumes ----------------------------------------------------------------------------------------------------------


def test_slices_come_over_http_once(tmp_path):
    volume = make_volume(9, 400, 700)
    folder = write_slices(tmp_path / "layers", volume)
    with range_server.serving(tmp_path) as server:
        stack = volumes.open_stack(place(f"{server.address}/layers"))
        assert np.array_equal(read_all(stack), volume)
        assert np.array_equal(read_all(stack, 37), volume)
        assert server.sent <= 1.01 * size_of(folder)


def test_a_band_of_slices_needs_its_strips_alone(tmp_path):
    volume = make_volume(4, 1600, 900)
    write_slices(tmp_path / "layers", volume)
    with range_server.serving(tmp_path) as server:
        stack = volumes.open_stack(place(f"{server.address}/layers"))
        assert np.array_equal(stack.read_band(640, 1280, 1, 3), volume[1:3, 640:1280])
        assert server.sent <= 1.1 * 2 * 640 * 900 * 2


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("form", [2, 3])
def test_chunks_of_an_array_come_once_and_no_others(tmp_path, form, lists):
    volume = make_volume(16, 200, 300)
    array = zarr.create_array(tmp_path / "scan.zarr", data=volume, chunks=(8, 64, 64), zarr_format=form)
    with range_server.serving(tmp_path, lists=lists) as server:
        stack = volumes.open_stack(place(f"{server.address}/scan.zarr"))
        assert np.array_equal(stack.read_band(0, 64, 0, 8), volume[:8, :64])
        assert server.sent <= 1.1 * 5 * 64 * 64 * 8 * 2
        assert np.array_equal(read_all(stack), volume)
        assert server.sent <= 1.05 * size_of(tmp_path / "scan.zarr")
    assert array.nchunks == 40


def test_shards_are_read_in_parts(tmp_path):
    volume = make_volume(8, 256, 256)
    zarr.create_array(tmp_path / "scan.zarr", data=volume, chunks=(8, 32, 32), shards=(8, 256, 256))
    with range_server.serving(tmp_path) as server:
        stack = volumes.open_stack(place(f"{server.address}/scan.zarr"))
        assert np.array_equal(stack.read_band(32, 64, 0, 8), volume[:, 32:64])
        assert server.sent <= size_of(tmp_path / "scan.zarr") / 4
        assert np.array_equal(read_all(stack), volume)


def test_chunks_that_are_not_stored_are_the_fill_value(tmp_path):
    array = zarr.create_array(tmp_path / "scan.zarr", shape=(8, 64, 128), chunks=(8, 64, 64), dtype="u1", fill_value=7)
    array[:, :, :64] = 200
    with range_server.serving(tmp_path) as server:
        stack = volumes.open_stack(place(f"{server.address}/scan.zarr"))
        assert stack.read_band(0, 64, 0, 8).mean(axis=(0, 1)).tolist() == [200.0] * 64 + [7.0] * 64


def test_requests_are_made_side_by_side(tmp_path):
    volume = make_volume(16, 64, 64)
    zarr.create_array(tmp_path / "scan.zarr", data=volume, chunks=(4, 32, 32), zarr_format=2)
    with range_server.serving(tmp_path) as server:
        stack = volumes.open_stack(place(f"{server.address}/scan.zarr"))
        server.clear()
        server.wait = 0.2
        assert np.array_equal(read_all(stack), volume)
        assert server.requests == 16
        assert server.most >= 4


# --- servers that fail ------------------------------------------------------------------------------------------------

FAULTS = {
    "errors": lambda number, name: 500 + number % 5 if number % 3 == 0 and number % 5 != 1 else None,
    "busy": lambda number, name: 429 if number % 4 == 0 else None,
    "resets": lambda number, name: "reset" if number % 4 == 0 else None,
    "cuts": lambda number, name: "cut" if number % 4 == 0 else None,
    "silence": lambda number, name: "slow" if number in (15, 30) else None,
    "trickle": lambda number, name: "trickle" if number in (15, 30) else None,
}


@pytest.mark.parametrize("kind", FAULTS)
def test_failures_that_pass_are_not_seen(tmp_path, kind):
    volume = make_volume(6, 120, 300)
    folder = write_slices(tmp_path / "layers", volume)
    if kind == "errors":
        assert {FAULTS[kind](number, "") for number in range(1, 40)} >= {500, 502, 503, 504}
    with range_server.serving(tmp_path) as server:
        server.fail = FAULTS[kind]
        stack = volumes.open_stack(place(f"{server.address}/layers"))
        assert np.array_equal(read_all(stack, 40), volume)
        assert server.requests > 30
        assert server.sent <= 1.1 * size_of(folder)


def test_a_failure_that_stays_says_where_what_and_how_often(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(b"x" * 99)
    with range_server.serving(tmp_path) as server:
        server.fail = lambda number, name: 503
        address = f"{server.address}/a.png"
        with pytest.raises(DataError) as caught:
            images.read_image(place(address))
        assert server.requests == reading.TRIES
    host = server.address.removeprefix("http://")
    assert str(caught.value) == (
        f"{address}: {host} failed 6 times, the last time with: status 503: "
        "try again later, or copy the data to this machine"
    )


def test_a_server_that_is_not_there_is_named():
    with pytest.raises(DataError) as caught:
        images.read_image(place("http://127.0.0.1:9/a.png"))
    assert "127.0.0.1:9 failed 6 times" in str(caught.value)
    assert "refused" in str(caught.value)


@pytest.mark.parametrize(("status", "remedy"), [(401, "~/.netrc"), (403, "signed address"), (418, "check the address")])
def test_a_refusal_is_not_tried_again(tmp_path, status, remedy):
    with range_server.serving(tmp_path) as server:
        server.fail = lambda number, name: status
        with pytest.raises(DataError) as caught:
            images.read_image(place(f"{server.address}/a.png"))
        assert server.requests <= 2
    assert f"status {status}" in str(caught.value)
    assert remedy in str(caught.value)


def test_what_is_not_there(tmp_path):
    with range_server.serving(tmp_path) as server:
        with pytest.raises(DataError, match="no such file"):
            images.read_image(place(f"{server.address}/a.png"))
        with pytest.raises(DataError, match="no such file or folder"):
            handlens.solve("ink", f"{server.address}/segment.zarr", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_server_that_lists_nothing(tmp_path):
    write_slices(tmp_path / "layers", make_volume(2, 10, 10))
    with range_server.serving(tmp_path, lists=False) as server, pytest.raises(DataError) as caught:
        place(f"{server.address}/layers").entries()
    assert "does not list what lies in this folder: name a file or a Zarr array in it" in str(caught.value)


def test_a_server_that_sends_whole_files_is_asked_once_for_each(tmp_path):
    volume = make_volume(3, 200, 300)
    folder = write_slices(tmp_path / "layers", volume)
    with range_server.serving(tmp_path, ranges=False) as server:
        stack = volumes.open_stack(place(f"{server.address}/layers"))
        assert np.array_equal(read_all(stack), volume)
        assert server.sent == size_of(folder)


def test_a_file_that_changes_is_not_mixed(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"a" * 200_000)
    with range_server.serving(tmp_path) as server, gate.open_file(place(f"{server.address}/a.bin")) as stream:
        assert stream.read(10) == b"a" * 10
        (tmp_path / "a.bin").write_bytes(b"b" * 200_000)
        with pytest.raises(DataError, match="changed on the server while it was read"):
            stream.read()


def test_a_file_that_is_read_on_and_on_is_read_ahead(tmp_path):
    content = np.random.default_rng(0).bytes(3_000_000)
    (tmp_path / "a.bin").write_bytes(content)
    with range_server.serving(tmp_path) as server, gate.open_file(place(f"{server.address}/a.bin")) as stream:
        assert b"".join(iter(lambda: stream.read(1000), b"")) == content
        assert (server.requests, server.sent) < (15, len(content) + 1)


def test_credentials_come_from_netrc(tmp_path, monkeypatch):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    http._authorised.cache_clear()
    assert http._authorised("127.0.0.1") == {"authorization": "Basic bWU6c2VjcmV0"}
    assert http._authorised("elsewhere") == {}
    http._authorised.cache_clear()


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_the_ring_keeps_the_newest_and_never_mixes():
    rng, ring, key = np.random.default_rng(1), Ring(1000), ("a", "", 10_000)
    content = rng.bytes(10_000)
    for _ in range(2000):
        start, size = int(rng.integers(0, 9_900)), int(rng.integers(1, 200))
        for low, high in ring.gaps(key, start, start + size):
            ring.keep(key, low, content[low:high])
        at = int(rng.integers(0, 9_900))
        found = ring.find(key, at, 300)
        assert content[at:].startswith(found)
        assert sum(piece.end - piece.start for piece in ring.pieces.get(key, [])) <= 1000
    ring.keep(key, 0, content[:400])
    assert ring.find(key, 100, 10) == content[100:110]


# --- folders, submissions, truth, figures -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slides") / "slides"
    handlens.sample("cells", folder, seed=1, cases=2, size=96)
    solved = handlens.solve("cells", folder, out=folder.parent / "out", solver="baseline")
    (folder / "mine.csv").write_bytes(solved.submission.read_bytes())
    return folder, solved


def test_a_folder_a_submission_and_its_truth_lie_on_a_web_server(slides, tmp_path):
    folder, expected = slides
    with range_server.serving(folder) as server:
        server.fail = lambda number, name: 503 if number % 9 == 0 else None
        solved = handlens.solve("cells", server.address, out=tmp_path / "out", solver="baseline")
        assert solved.submission.read_bytes() == expected.submission.read_bytes()
        assert solved.score.value == expected.score.value
        mine = f"{server.address}/mine.csv"
        assert handlens.score("cells", mine, truth=server.address).value == expected.score.value
        assert handlens.check("cells", mine, data=server.address) == []


def test_a_submission_that_cannot_be_scored_is_told_from_a_server(tmp_path, slides):
    (tmp_path / "broken.csv").write_text("img,pixels\n0,1\n")
    with range_server.serving(tmp_path) as server, pytest.raises(SubmissionError, match="line 2, img 0"):
        handlens.score("cells", f"{server.address}/broken.csv", truth=slides[0])


def test_figures_of_a_folder_on_a_server(slides):
    folder = slides[0] / "test" / "im"
    with range_server.serving(folder.parent) as server:
        found = find_figures(list_files([place(f"{server.address}/im")], out=None))
        assert [figure.name for figure in found] == ["00.png", "01.png"]
        assert np.array_equal(found[1].read(), images.read_image(folder / "01.png"))


@pytest.mark.slow
def test_ink_in_a_segment_on_a_web_server_is_as_on_disk(tmp_path):
    handlens.sample("ink", tmp_path / "data", seed=1, cases=1, size=128, slices=12)
    fragment = next((tmp_path / "data" / "test").iterdir())
    volume = np.stack([tifffile.imread(path) for path in sorted((fragment / "surface_volume").iterdir())])
    zarr.create_array(tmp_path / "data" / "segment.zarr", data=volume, chunks=(8, 32, 32), zarr_format=2)
    local = handlens.solve("ink", tmp_path / "data" / "segment.zarr", out=tmp_path / "local")
    with range_server.serving(tmp_path / "data") as server:
        server.fail = lambda number, name: {3: 500, 17: "reset", 29: "cut"}.get(number % 40)
        far = handlens.solve("ink", f"{server.address}/segment.zarr", out=tmp_path / "far")
        assert server.sent <= 1.1 * size_of(tmp_path / "data" / "segment.zarr")
    assert far.submission.read_bytes() == local.submission.read_bytes()


# --- buckets ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def buckets():
    """An S3 server, the server before it that fails as it is told, and a client to fill it."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        moto.start()
        port = moto.get_host_and_port()[1]
        with range_server.running(range_server.Forwarder(port)) as forwarder:
            patch.setenv("AWS_ACCESS_KEY_ID", "one")
            patch.setenv("AWS_SECRET_ACCESS_KEY", "two")
            patch.setenv("AWS_REGION", "us-east-1")
            patch.setenv("AWS_ENDPOINT_URL", forwarder.address)
            how = {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "us-east-1"}
            yield forwarder, boto3.client("s3", **how)
        moto.stop()


def upload(client, folder: Path, bucket: str) -> None:
    client.create_bucket(Bucket=bucket)
    for path in folder.rglob("*"):
        if path.is_file():
            client.put_object(Bucket=bucket, Key=f"data/{path.relative_to(folder).as_posix()}", Body=path.read_bytes())


def test_a_folder_a_submission_and_its_truth_lie_in_a_bucket(buckets, slides, tmp_path):
    (forwarder, client), (folder, expected) = buckets, slides
    upload(client, folder, "slides")
    forwarder.fail = lambda number, name: {3: 500, 6: 503, 8: "reset", 11: "cut"}.get(number % 13)
    solved = handlens.solve("cells", "s3://slides/data", out=tmp_path / "out", solver="baseline")
    assert solved.submission.read_bytes() == expected.submission.read_bytes()
    assert solved.score.value == expected.score.value
    mine = "s3://slides/data/mine.csv"
    assert handlens.score("cells", mine, truth="s3://slides/data").value == expected.score.value


def test_slices_and_arrays_in_a_bucket(buckets, tmp_path):
    forwarder, client = buckets
    volume = make_volume(6, 120, 150)
    write_slices(tmp_path / "layers", volume)
    zarr.create_array(tmp_path / "scan.zarr", data=volume, chunks=(8, 32, 32), zarr_format=2)
    upload(client, tmp_path, "scans")
    forwarder.fail, forwarder.sent = (lambda number, name: "cut" if number % 10 == 0 else None), 0
    for name in ("layers", "scan.zarr"):
        stack = volumes.open_stack(place(f"s3://scans/data/{name}"))
        assert np.array_equal(read_all(stack), volume)
        assert np.array_equal(read_all(stack, 50), volume)
    assert forwarder.sent <= 1.1 * size_of(tmp_path) + 20_000  # lists of names


def test_what_is_wrong_with_a_bucket(buckets, monkeypatch):
    forwarder, _ = buckets
    forwarder.fail = lambda number, name: None
    with pytest.raises(DataError, match="no such bucket or file"):
        place("s3://nobody-has-it/data").exists()
    forwarder.fail = lambda number, name: 403
    with pytest.raises(DataError) as caught:
        place("s3://nobody-has-it/other").exists()
    assert "access denied" in str(caught.value)
    assert "AWS_SKIP_SIGNATURE" in str(caught.value)
    forwarder.fail = lambda number, name: 503
    with pytest.raises(DataError, match="failed 6 times, the last time with: status 503"):
        place("s3://nobody-has-it/third").exists()
    forwarder.fail = lambda number, name: None


def run(*args) -> str:
    """What a command says that must succeed."""
    result = CliRunner().invoke(cli, [str(each) for each in args])
    assert result.exit_code == 0, result.output
    return result.output


def test_an_output_goes_into_a_bucket_when_it_is_finished(buckets, slides, tmp_path, monkeypatch):
    (forwarder, client), (folder, expected) = buckets, slides
    client.create_bucket(Bucket="results")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    solve = ("solve", "cells", folder, "-o", "s3://results/run", "--solver", "baseline", "--no-report")
    forwarder.fail = lambda number, name: 503 if number % 5 == 0 else None
    said = run(*solve)
    assert "s3://results/run/submission.csv: 2 cases, valid" in said
    stored = client.get_object(Bucket="results", Key="run/submission.csv")["Body"].read()
    assert stored == expected.submission.read_bytes()
    assert not list(tmp_path.iterdir())
    names = [each["Key"] for each in client.list_objects_v2(Bucket="results")["Contents"]]
    assert {"run/run.json", "run/score.json", "run/submission.csv"} <= set(names)
    assert not [name for name in names if "unfinished" in name or "/." in name]
    forwarder.fail = lambda number, name: None
    other = CliRunner().invoke(cli, [*map(str, solve[:1]), "ink", str(folder), "-o", "s3://results/run"])
    assert other.exit_code == 1
    assert not list(tmp_path.iterdir())


def test_an_upload_that_fails_is_all_that_is_done_again(buckets, slides, tmp_path, monkeypatch):
    forwarder, client = buckets
    client.create_bucket(Bucket="later")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    solve = ("solve", "cells", slides[0], "-o", "s3://later/run", "--solver", "baseline", "--no-report")
    forwarder.fail = lambda number, name: 503 if "submission" in name else None
    broken = CliRunner().invoke(cli, [str(each) for each in solve])
    assert "status 503" in str(broken.exception or broken.output)
    (kept,) = tmp_path.iterdir()
    assert (kept / "submission.csv").exists()
    forwarder.fail = lambda number, name: None
    assert "uploaded what the same command had finished before" in run(*solve)
    assert client.get_object(Bucket="later", Key="run/submission.csv")["Body"].read()


def test_what_was_made_of_other_files_is_not_uploaded(buckets, slides, tmp_path, monkeypatch):
    forwarder, client = buckets
    client.create_bucket(Bucket="changed")
    data = shutil.copytree(slides[0], tmp_path / "data")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    solve = ("solve", "cells", data, "-o", "s3://changed/run", "--solver", "baseline", "--no-report")
    forwarder.fail = lambda number, name: 503 if "submission" in name else None
    assert CliRunner().invoke(cli, [str(each) for each in solve]).exit_code == 1
    forwarder.fail = lambda number, name: None
    first, second, *_ = sorted((data / "test" / "im").iterdir())
    shutil.copyfile(second, first)
    refused = CliRunner().invoke(cli, [str(each) for each in solve])
    assert refused.exit_code == 1
    assert "another run" in str(refused.exception or refused.output)
    names = [each["Key"] for each in client.list_objects_v2(Bucket="changed")["Contents"]]
    assert not {"run/submission.csv", "run/run.json"} & {*names}
    assert "2 cases, valid" in run(*solve, "--overwrite")
    stored = client.get_object(Bucket="changed", Key="run/submission.csv")["Body"].read()
    assert stored != slides[1].submission.read_bytes()


@pytest.fixture(scope="module")
def papers(buckets, tmp_path_factory):
    """A bucket of figures, one of them broken."""
    forwarder, client = buckets
    folder = tmp_path_factory.mktemp("papers")
    handlens.sample("forgery", folder / "data", seed=4, cases=2, size=160)
    (folder / "data" / "test_images" / "broken.png").write_bytes(b"none")
    upload(client, folder / "data" / "test_images", "papers")
    forwarder.fail = lambda number, name: None
    return client


@pytest.mark.slow
@pytest.mark.parametrize("where", [(), ("--cluster", "local", "--workers", "2")], ids=["here", "cluster"])
def test_screening_a_bucket_leaves_tables_to_query(papers, tmp_path, monkeypatch, where):
    out = f"report-{len(where)}"
    told = ["inspect", "s3://papers/data", "-o", f"s3://papers/{out}", "--parquet", *where]
    result = CliRunner().invoke(cli, told)
    assert result.exit_code == 1, result.output  # one figure cannot be read
    names = [each["Key"] for each in papers.list_objects_v2(Bucket="papers", Prefix=f"{out}/")["Contents"]]
    assert f"{out}/index.html" in names
    tables = [name for name in names if name.endswith(".parquet")]
    assert len(tables) == 2
    monkeypatch.chdir(tmp_path)
    Path("report/findings").mkdir(parents=True)
    for name in tables:
        papers.download_file("papers", name, f"report/findings/{Path(name).name}")
    figures = pyarrow.dataset.dataset("report/findings/figures-00000.parquet").to_table().to_pylist()
    matches = pyarrow.dataset.dataset("report/findings/matches-00000.parquet").to_table().to_pylist()
    assert len(figures) == 3
    assert [row["figure"] for row in figures if row["error"]] == ["broken.png"]
    assert len([row for row in matches if row["counted"]]) >= sum(row["groups"] or 0 for row in figures)


def queries(language: str) -> list[str]:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "remote.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}.*?\n(.*?)```", page, re.DOTALL)


def test_the_documented_queries_run_over_the_tables(tmp_path, monkeypatch, capsys):
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)

    def group(name, probability, transform):
        return {
            "name": name,
            "probability": probability,
            "matches": [{"probability": probability, "moved": (3, 4), "transform": transform}],
        }

    record = {
        "figure": "one.png",
        "groups": [group("1", 0.99, "a shift"), group("2", 0.9, "a turn")],
        "doubtful": [group("3", 0.99, "a shift")],
    }
    tables.write_tables(Path("report"), [record, {"figure": "two.png", "groups": [], "doubtful": []}])
    (program,) = queries("python")
    exec(compile(program, "remote.md", "exec"), {})
    assert capsys.readouterr().out == "one.png 1 a shift\n"
    (query,) = queries("sql")
    assert duckdb.sql(query).fetchall() == [("one.png", 2, 0.99)]


def test_without_the_library_it_is_said_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(handlens.errors.HandlensError, match=r"s3:// needs obstore: pip install 'handlens\[remote\]'"):
        place("s3://bucket/data").exists()
