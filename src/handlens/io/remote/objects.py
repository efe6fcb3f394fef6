"""Files in buckets: s3://, gs:// and az://, by the library obstore, which knows credentials, regions and endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from handlens.errors import DataError
from handlens.io.extras import need
from handlens.io.remote.facts import FOLDER, Body, FileFacts, Transient
from handlens.io.remote.http import CONNECT_SECONDS, QUIET_SECONDS, STEP

if TYPE_CHECKING:
    from handlens.io.remote.path import RemotePath

_STATUS = re.compile(r"(?:status code:? |HTTP status \w+ error \(|status: )([45]\d\d)")
_NO_KEYS = re.compile(r"AccessKey|169\.254\.|credential|metadata token", re.IGNORECASE)
_WRAPPED = re.compile(r"Generic \w+ error: |Error performing [^-]* - |, max_retries: \d+, retry_timeout: \S+")
_LASTING = (400, 401, 403, 404, 405, 409, 411, 412, 416)

LOG_IN = "log in as for the cloud's own program; for a public bucket set AWS_SKIP_SIGNATURE=true"


class ObjectServer:
    """Buckets: a folder is what names have in common before a slash."""

    def look(self, path: RemotePath) -> FileFacts | None:
        store, key = _store(path), path.key
        if key:
            try:
                return _facts(_obstore(path).head(store, key))
            except FileNotFoundError:
                pass
            except Exception as error:
                _raise(path, error)
        try:
            found = _obstore(path).list_with_delimiter(store, f"{key}/" if key else None)
        except FileNotFoundError:
            return None
        except Exception as error:
            _raise(path, error)
        return FOLDER if found["objects"] or found["common_prefixes"] else None

    @contextmanager
    def read(self, path: RemotePath, start: int, end: int | None) -> Iterator[Body | None]:
        asked: Any = None
        if end is not None:
            asked = {"range": (start, end)}
        elif start:
            asked = {"range": {"offset": start}}
        try:
            found = _obstore(path).get(_store(path), path.key, options=asked)
        except FileNotFoundError:
            yield None
            return
        except Exception as error:
            _raise(path, error)
        yield Body(_facts(found.meta), asked is None, _parts(path, found))

    def entries(self, path: RemotePath) -> list[tuple[str, FileFacts | None]]:
        try:
            found = _obstore(path).list_with_delimiter(_store(path), f"{path.key}/" if path.key else None)
        except Exception as error:
            _raise(path, error)
        files = [(_name(meta["path"]), _facts(meta)) for meta in found["objects"]]
        folders = [(_name(prefix.rstrip("/")), FOLDER) for prefix in found["common_prefixes"]]
        return [*((name, facts) for name, facts in files if name), *folders]

    def write(self, path: RemotePath, file: Path) -> None:
        try:
            _obstore(path).put(_store(path), path.key, file)
        except Exception as error:
            _raise(path, error)


def _obstore(path: RemotePath) -> Any:
    return need("obstore", f"{path.scheme}://")


@lru_cache(maxsize=64)
def _opened(scheme: str, bucket: str) -> Any:
    from obstore.store import from_url

    seconds = {"connect_timeout": f"{CONNECT_SECONDS:g}s", "timeout": f"{20 * QUIET_SECONDS:g}s"}
    options: dict[str, Any] = {"client_options": {**seconds, "allow_http": True}}
    options["retry_config"] = {"max_retries": 0, "retry_timeout": timedelta(seconds=1)}  # that is done in one place
    provider = _profiles() if scheme == "s3" else None
    if provider is not None:
        options["credential_provider"] = provider
    return from_url(f"{scheme}://{bucket}", **options)


def _profiles() -> Any:
    """The profiles and sign-ins of the AWS command line, where its library is there; else obstore's own rules."""
    import os

    if "AWS_ACCESS_KEY_ID" in os.environ or os.environ.get("AWS_SKIP_SIGNATURE"):
        return None
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider

        return Boto3CredentialProvider()
    except Exception:  # no library, or no credentials: the store looks for them in other places, or needs none
        return None


def _store(path: RemotePath) -> Any:
    _obstore(path)
    try:
        return _opened(path.scheme, path.host)
    except Exception as error:
        remedy = LOG_IN if _NO_KEYS.search(str(error)) else "check the address and the settings of your cloud"
        raise DataError(f"{_words(error)}: {remedy}", file=path) from None


def _facts(meta: Any) -> FileFacts:
    modified = meta["last_modified"].timestamp()
    return FileFacts(int(meta["size"]), modified, meta.get("e_tag") or str(modified))


def _name(key: str) -> str:
    return str(key).rpartition("/")[2]


def _parts(path: RemotePath, found: Any) -> Iterator[bytes]:
    try:
        for part in found.stream(min_chunk_size=STEP):
            yield bytes(part)
    except Exception as error:
        _raise(path, error)


def _raise(path: RemotePath, error: Exception) -> NoReturn:
    """As Transient what may go well the next time; otherwise what to do."""
    if isinstance(error, Transient | DataError):
        raise error
    text = str(error)
    status = _STATUS.search(text)
    code = int(status.group(1)) if status else 0
    denied = type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError") or code in (401, 403)
    where = f"{path.scheme}://{path.host}"
    if denied:
        raise DataError(f"{where} answered: access denied{f' (status {code})' if code else ''}: {LOG_IN}", file=path)
    if _NO_KEYS.search(text):
        raise DataError(f"no credentials for {where}: {LOG_IN}", file=path)
    if isinstance(error, FileNotFoundError) or code == 404:
        raise DataError(f"{where} answered: no such bucket or file: check the address", file=path)
    if code in _LASTING or "NotImplemented" in type(error).__name__:
        raise DataError(f"{where} answered: {_words(error)}: check the address", file=path) from None
    raise Transient(f"status {code}" if code else _words(error)) from None


def _words(error: Exception) -> str:
    text = _WRAPPED.sub("", " ".join(str(error).split("\n\nDebug source")[0].split()))
    return text[:200] or type(error).__name__
