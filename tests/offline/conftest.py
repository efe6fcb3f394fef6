import contest_image
import pytest

from handlens import registry
from handlens.offline.bundle import Request, make_bundle

JUPYTER = ("nbclient", "nbformat", "ipykernel", "pip")


def runtime():
    """What handlens needs to predict."""
    from importlib import metadata

    from packaging.requirements import Requirement

    needed = [Requirement(text) for text in metadata.distribution("handlens").requires or ()]
    return [each.name for each in needed if each.marker is None]


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    """The Python of a contest's image: all that handlens needs, Jupyter, and what trains forgery, but not handlens."""
    pytest.importorskip("nbclient")
    return contest_image.make_image(tmp_path_factory.mktemp("image") / "env", [*JUPYTER, *runtime(), "lightgbm"])


@pytest.fixture(scope="session")
def make(tmp_path_factory):
    """Bundles that hold our wheel alone, as the contest provides the rest: made without a network."""
    made = {}
    provided = tmp_path_factory.mktemp("provided") / "freeze.txt"
    provided.write_text(contest_image.frozen(runtime()))

    def bundle(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("bundles") / f"handlens-{name}"
            make_bundle(Request(registry.challenge(name), provided=str(provided)), folder)
            made[name] = folder
        return made[name]

    return bundle
