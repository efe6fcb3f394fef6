"""The app's addresses: a page, uploads, jobs, results. Loopback alone, every address begins with the token."""

from __future__ import annotations

import json
import secrets
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from handlens import pipeline, registry
from handlens.errors import DataError, HandlensError
from handlens.report import render
from handlens.report.page import PAGE
from handlens.web.adjusted import ADJUSTED, PAGES, AdjustedAnswers, value_of
from handlens.web.jobs import INPUT, Job, Jobs
from handlens.web.kinds import EXAMPLES, LOOKED_AT_AS, OFFERS, guess

MOST_BYTES = 20 * 2**30
"""Of one job's uploads: a scroll segment has 5 to 18 GB."""

MOST_FILES = 20_000
EXAMPLE_SEED = 3
MOST_LETTERS = 4096
"""Of a JSON question."""

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
KINDS = {".html": "text/html", ".json": "application/json", ".png": "image/png", ".jpg": "image/jpeg"}


class _Guard:
    """Lets nobody in who calls the server by another name, or from another page; tells no other site the address."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        origin = headers.get("origin")
        if host.rpartition(":")[0] not in LOOPBACK and host not in LOOPBACK:
            await Response("wrong host", 421)(scope, receive, send)
            return
        if origin is not None and origin != f"http://{host}":
            await Response("asked from another page", 403)(scope, receive, send)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [
                    (b"referrer-policy", b"no-referrer"),
                    (b"x-content-type-options", b"nosniff"),
                    (b"cache-control", b"no-store"),
                ]
            await send(message)

        await self.app(scope, receive, guarded)


def create_app(folder: Path, token: str, *, most_bytes: int = MOST_BYTES, jobs: Jobs | None = None) -> Starlette:
    """The app over a folder of jobs."""
    api = _Api(jobs or Jobs(folder), most_bytes)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        api.jobs.start()
        yield
        await anyio.to_thread.run_sync(api.jobs.stop)

    routes = [
        Route("/", api.page),
        Route("/jobs", api.every, methods=["GET"]),
        Route("/jobs", api.create, methods=["POST"]),
        Route("/examples", api.example, methods=["POST"]),
        Route("/jobs/{id}", api.one, methods=["GET"]),
        Route("/jobs/{id}", api.remove, methods=["DELETE"]),
        Route("/jobs/{id}/input/{path:path}", api.upload, methods=["PUT"]),
        Route("/jobs/{id}/guess", api.guess),
        Route("/jobs/{id}/start", api.start, methods=["POST"]),
        Route("/jobs/{id}/cancel", api.cancel, methods=["POST"]),
        Route("/jobs/{id}/adjust", api.adjust, methods=["POST"]),
        Route("/jobs/{id}/files", api.files),
        Route("/jobs/{id}/files/{path:path}", api.file),
        Route("/jobs/{id}/all.zip", api.archive),
    ]
    app = Starlette(routes=[Mount(f"/{token}", routes=routes)], lifespan=lifespan)
    app.add_middleware(_Guard)
    return app


Handler = Callable[["_Api", Request], Awaitable[Response]]


def _answers(handler: Handler) -> Handler:
    """What is the question's fault becomes one message with status 400."""

    async def answer(self: _Api, request: Request) -> Response:
        try:
            return await handler(self, request)
        except HandlensError as error:
            return JSONResponse({"error": str(error)}, 400)

    return answer


class _Api:
    def __init__(self, jobs: Jobs, most_bytes: int) -> None:
        self.jobs, self.most_bytes = jobs, most_bytes
        self.adjusted = AdjustedAnswers(jobs)

    async def page(self, _request: Request) -> Response:
        text = render(
            "app.html",
            script="app.js",
            pictures="'self' data:",
            connect="'self'",
            frames="'self'",
            generator="handlens app",
            challenges=[(name, LOOKED_AT_AS[name]) for name in registry.BUILT_IN],
            offers=[(name, *OFFERS[name]) for name in registry.BUILT_IN],
        )
        return HTMLResponse(text)

    async def every(self, _request: Request) -> Response:
        return JSONResponse({"jobs": [self._shown(job) for job in self.jobs.all()]})

    async def create(self, _request: Request) -> Response:
        return JSONResponse(self._shown(self.jobs.create()))

    @_answers
    async def example(self, request: Request) -> Response:
        """A job with synthetic data of a challenge, started at once."""
        name = _challenge_name(await _read_json(request))
        job = self.jobs.create()
        cases, size = EXAMPLES[name]
        target = self.jobs.place(job.id) / INPUT / f"synthetic-{name}"
        work = partial(pipeline.sample, registry.challenge(name), target, seed=EXAMPLE_SEED, cases=cases, size=size)
        await anyio.to_thread.run_sync(work)
        return JSONResponse(self._shown(self.jobs.begin(job.id, name)))

    @_answers
    async def one(self, request: Request) -> Response:
        return JSONResponse(self._shown(self.jobs.read(request.path_params["id"])))

    @_answers
    async def remove(self, request: Request) -> Response:
        id = request.path_params["id"]
        async with self.adjusted.forgotten(id):
            await anyio.to_thread.run_sync(self.jobs.remove, id)
        return JSONResponse({})

    @_answers
    async def upload(self, request: Request) -> Response:
        """A file as the body, written as it comes; none of it stays where it is too large or breaks off."""
        job = self.jobs.read(request.path_params["id"])
        if job.state in ("waiting", "running"):
            raise DataError("this job is at work: start a new one")
        place = self.jobs.place(job.id) / INPUT
        target = place / safe_path(request.path_params["path"])
        used = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        if sum(1 for _ in place.rglob("*")) >= MOST_FILES:
            raise DataError(f"more than {MOST_FILES:,} files in one job")
        target.parent.mkdir(parents=True, exist_ok=True)
        partial_file = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")
        try:
            async with await anyio.open_file(partial_file, "wb") as stream:
                async for chunk in request.stream():
                    used += len(chunk)
                    if used > self.most_bytes:
                        return JSONResponse({"error": f"more than {self.most_bytes:,} bytes in one job"}, 413)
                    await stream.write(chunk)
            partial_file.replace(target)
        except ClientDisconnect:
            return Response(status_code=400)
        finally:
            partial_file.unlink(missing_ok=True)
        return JSONResponse({"file": target.name})

    @_answers
    async def guess(self, request: Request) -> Response:
        place = self.jobs.place(request.path_params["id"]) / INPUT
        name, why = await anyio.to_thread.run_sync(guess, place)
        return JSONResponse({"challenge": name, "why": why})

    @_answers
    async def start(self, request: Request) -> Response:
        name = _challenge_name(await _read_json(request))
        id = request.path_params["id"]
        async with self.adjusted.forgotten(id):
            return JSONResponse(self._shown(self.jobs.begin(id, name)))

    @_answers
    async def cancel(self, request: Request) -> Response:
        job = await anyio.to_thread.run_sync(self.jobs.cancel, request.path_params["id"])
        return JSONResponse(self._shown(job))

    @_answers
    async def adjust(self, request: Request) -> Response:
        """The page of an answer with another threshold, from what the run kept; its files follow when asked for."""
        value = value_of((await _read_json(request)).get("value"))
        await self.adjusted.show(request.path_params["id"], value)
        return JSONResponse({"page": f"{ADJUSTED}/{value}/{PAGE}", "value": value})

    @_answers
    async def files(self, request: Request) -> Response:
        """The files of a job; with `?value=` those of the answer with this threshold too, which are written then."""
        job = self.jobs.read(request.path_params["id"])
        found = await self._results(job, request.query_params.get("value"))
        return JSONResponse({"files": [{"name": name, "bytes": size} for name, size in found]})

    @_answers
    async def file(self, request: Request) -> Response:
        job = self.jobs.read(request.path_params["id"])
        name = safe_path(request.path_params["path"])
        path = self.jobs.out(job) / name
        if name.parts[0] == ADJUSTED and len(name.parts) > 2:
            path = await self.adjusted.find(job.id, value_of(name.parts[1]), Path(*name.parts[2:]))
        if not path.is_file():
            return Response(status_code=404)
        kind = KINDS.get(path.suffix)
        if kind is None:
            return FileResponse(path, media_type="application/octet-stream", filename=path.name)
        return FileResponse(path, media_type=kind)

    @_answers
    async def archive(self, request: Request) -> Response:
        """The files of a job, and with `?value=` those of the answer with this threshold."""
        job = self.jobs.read(request.path_params["id"])
        found = await self._results(job, request.query_params.get("value"))
        target = self.jobs.place(job.id) / f"all-{secrets.token_hex(4)}.zip"  # two tabs may ask for different answers
        await anyio.to_thread.run_sync(self._pack, job, [name for name, _ in found], target)
        return FileResponse(
            target,
            media_type="application/zip",
            filename=f"handlens-{job.challenge}.zip",
            background=BackgroundTask(target.unlink, missing_ok=True),
        )

    def _pack(self, job: Job, names: Sequence[str], target: Path) -> None:
        try:
            with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                for name in names:
                    archive.write(self.jobs.out(job) / name, name)
        except BaseException:
            target.unlink(missing_ok=True)
            raise

    async def _results(self, job: Job, value: str | None) -> list[tuple[str, int]]:
        """Files for people: not what the report and a resume need inside, and of changed answers the asked one's."""
        out = self.jobs.out(job)
        inside = {"unfinished", "report_data", "report_files", ADJUSTED, PAGES}
        found = _files_in(out, inside)
        if value is not None:
            found += _files_in(await self.adjusted.write(job.id, value_of(value)), inside)
        return [(path.relative_to(out).as_posix(), path.stat().st_size) for path in found]

    def _shown(self, job: Job) -> dict[str, Any]:
        challenge = registry.challenge(job.challenge) if job.challenge in registry.BUILT_IN else None
        adjusting = challenge.report.adjust if challenge and challenge.report and job.page == "report.html" else None
        return {
            **asdict(job),
            "adjust": {"name": adjusting.name, "start": adjusting.start(None)} if adjusting else None,
        }


def _files_in(folder: Path, inside: set[str]) -> list[Path]:
    """All files of a folder but hidden ones and those in some folders."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return [path for path in found if not inside & {*path.relative_to(folder).parts}]


def _challenge_name(question: dict[str, Any]) -> str:
    name = question.get("challenge")
    if name not in registry.BUILT_IN:
        raise DataError(f"challenge {name!r}; expected one of {', '.join(registry.BUILT_IN)}")
    return str(name)


async def _read_json(request: Request) -> dict[str, Any]:
    """A small JSON object."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_LETTERS:
            raise DataError("the question is too long")
    try:
        page = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        page = None
    if not isinstance(page, dict):
        raise DataError("expected a JSON object")
    return page


def safe_path(text: str) -> Path:
    """A relative path below a folder; DataError for one that leaves it, is hidden or cannot be a file's name.

    >>> safe_path("fragment/00.tif").as_posix()
    'fragment/00.tif'
    """
    parts = text.split("/")
    for part in parts:
        if part in ("", ".", "..") or part.startswith(".") or len(part.encode("utf-8", "replace")) > 200:
            raise DataError(f"{text[:80]!r} is no name for a file")
        if any(ord(letter) < 32 or letter in '\\:"<>|?*\x7f' for letter in part):
            raise DataError(f"{text[:80]!r} has letters that no file's name may have")
    if len(parts) > 12:
        raise DataError("too many folders inside each other")
    return Path(*parts)


def serve(folder: Path, *, port: int, opened: Callable[[str], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; `opened` gets the address."""
    import socket

    import uvicorn

    token = secrets.token_urlsafe(16)
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(64)  # who asks before the server is up waits
    with listening:
        opened(f"http://127.0.0.1:{listening.getsockname()[1]}/{token}/")
        config = uvicorn.Config(
            create_app(folder, token), log_level="critical", access_log=False, timeout_graceful_shutdown=3
        )
        uvicorn.Server(config).run(sockets=[listening])
