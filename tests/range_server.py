"""An HTTP server on loopback that sends parts of files, counts what it sends, and fails as it is told."""

import http.client
import socket
import struct
import threading
import time
from collections import Counter
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit


class RangeServer(ThreadingHTTPServer):
    """`fail(number, path)` says how the request of this number fails: a status, "reset", "cut", "slow", "trickle" or None."""

    daemon_threads = True

    def __init__(self, folder, *, lists=True, ranges=True):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.lists, self.ranges = Path(folder), lists, ranges
        self.fail, self.wait, self.lock = lambda number, path: None, 0.0, threading.Lock()
        self.clear()

    def clear(self):
        self.requests, self.sent, self.asked = 0, 0, Counter()
        self.active, self.most = 0, 0

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        """A client that goes away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self._answer(body=False)

    def do_GET(self):
        self._answer(body=True)

    def _answer(self, *, body):
        server = self.server
        name = unquote(urlsplit(self.path).path)
        with server.lock:
            server.requests += 1
            server.asked[name] += 1
            fault = server.fail(server.requests, name)
            server.active += 1
            server.most = max(server.most, server.active)
        time.sleep(server.wait)
        with server.lock:
            server.active -= 1
        if isinstance(fault, int):
            return self._say(fault, b"no" if body else b"", "text/plain")
        if fault == "reset":
            return self._reset()
        place = server.folder / name.lstrip("/")
        if place.is_dir():
            return self._list(place, name, body)
        if not place.is_file():
            return self._say(404, b"nothing" if body else b"", "text/plain")
        return self._send(place, body, fault)

    def _list(self, place, name, body):
        if not name.endswith("/"):
            if not self.server.lists:
                return self._say(404, b"", "text/plain")
            self.send_response(301)
            self.send_header("Location", f"{quote(name)}/")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if not self.server.lists:
            return self._say(403, b"no", "text/plain")
        names = [f"{path.name}{'/' * path.is_dir()}" for path in sorted(place.iterdir())]
        links = "".join(f'<a href="{quote(each)}">{each}</a>\n' for each in names)
        return self._say(200, f'<a href="../">..</a><a href="?C=N">Name</a>{links}'.encode() * body, "text/html")

    def _send(self, place, body, fault):
        content = place.read_bytes()
        start, end, status = 0, len(content), 200
        asked = self.headers.get("Range", "")
        if asked and self.server.ranges:
            low, _, high = asked.removeprefix("bytes=").partition("-")
            start, end, status = int(low), min(int(high) + 1 if high else end, end), 206
        self.send_response(status)
        self.send_header("Content-Length", str(end - start))
        self.send_header("Last-Modified", formatdate(place.stat().st_mtime, usegmt=True))
        self.send_header("ETag", f'"{place.stat().st_mtime_ns:x}-{len(content):x}"')
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        self.end_headers()
        if not body:
            return
        if fault in ("cut", "slow"):
            half = start + (end - start) // 2
            self._count(content[start:half])
            if fault == "cut":
                self._reset()
                return
            time.sleep(5)
            start = half
        if fault == "trickle":
            for place in range(start, end):
                self._count(content[place : place + 1])
                time.sleep(0.02)
            return
        self._count(content[start:end])

    def _count(self, part):
        with self.server.lock:
            self.server.sent += len(part)
        self.wfile.write(part)
        self.wfile.flush()

    def _reset(self):
        """As a machine does that goes down: the connection ends with RST."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def _say(self, status, content, kind):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Forwarder(RangeServer):
    """Hands requests on to another server, and fails as it is told."""

    def __init__(self, port):
        super().__init__(".")
        self.port = port
        self.RequestHandlerClass = _Forwarding


class _Forwarding(_Handler):
    def _answer(self, *, body):
        server = self.server
        with server.lock:
            server.requests += 1
            fault = server.fail(server.requests, self.path)
        if isinstance(fault, int):
            return self._say(fault, b"no" if body else b"", "text/plain")
        if fault == "reset":
            return self._reset()
        there = http.client.HTTPConnection("127.0.0.1", server.port)
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        there.request(self.command, self.path, content, dict(self.headers))
        answer = there.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "date", "server"):
                self.send_header(name, value)
        if "Content-Length" not in answer.headers:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if fault == "cut":
            self._count(content[: len(content) // 2])
            return self._reset()
        self._count(content)
        there.close()
        return None

    def do_PUT(self):
        self._answer(body=True)

    def do_POST(self):
        self._answer(body=True)

    def do_DELETE(self):
        self._answer(body=True)


@contextmanager
def running(server):
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def serving(folder, **how):
    """A server of this folder, while the block runs."""
    return running(RangeServer(folder, **how))


class Told(RangeServer):
    """Answers as `say(method, target, headers)` tells: status, headers, and the body as bytes or as parts of it."""

    def __init__(self, say):
        super().__init__(".")
        self.say, self.log = say, []
        self.RequestHandlerClass = _Telling


class _Telling(_Handler):
    def _answer(self, *, body):
        self.server.log.append((self.path, self.headers.get("Range", ""), dict(self.headers)))
        status, headers, content = self.server.say(self.command, self.path, self.headers)
        self.send_response(status)
        if isinstance(content, bytes):
            headers = {"Content-Length": str(len(content)), **headers}
            content = [content]
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            for part in content if body else ():
                self._count(part)
        except OSError:
            self.close_connection = True
            return
        if "Content-Length" not in headers or headers.get("Connection") == "close":
            self.close_connection = True


def asked_part(headers, size):
    """From where to where a part is asked for; None where it is the whole."""
    asked = headers.get("Range", "")
    if not asked:
        return None
    low, _, high = asked.removeprefix("bytes=").partition("-")
    return int(low), min(int(high) + 1 if high else size, size)


def part_of(content, headers, **more):
    """The answer of a server that does it right."""
    part = asked_part(headers, len(content))
    more = {"ETag": '"x"', **{name.replace("_", "-"): value for name, value in more.items()}}
    if part is None:
        return 200, more, content
    low, high = part
    return 206, {"Content-Range": f"bytes {low}-{high - 1}/{len(content)}", **more}, content[low:high]
