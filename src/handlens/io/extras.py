"""Libraries that not everyone needs: which extra brings them, and what is said where one is missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from handlens.errors import HandlensError

EXTRAS = {
    "pyarrow": "parquet",
    "zarr": "zarr",
    "numcodecs": "zarr",
    "starlette": "app",
    "uvicorn": "app",
    "distributed": "cluster",
    "yaml": "cluster",
    "obstore": "remote",
}
"""Library to the extra of this package that installs it."""


def need(library: str, what: str) -> ModuleType:
    """The library, or one of its modules; HandlensError says what to install where it is not there.

    `what` is what needs it: "a Parquet file".
    """
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        package = library.split(".")[0]
        if error.name is None or error.name.split(".")[0] != package:
            raise  # something else is missing: not ours to explain
        raise HandlensError(f"{what} needs {package}: pip install 'handlens[{EXTRAS[package]}]'") from None
