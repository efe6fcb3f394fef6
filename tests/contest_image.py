"""What a contest's image provides, made of the packages that are installed here, without a network."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path


def closure(names):
    """The distributions of these names, and of all that they need."""
    from packaging.requirements import Requirement

    found, waiting = {}, list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found or name == "handlens":
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        for text in found[name].requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                waiting.append(needed.name)
    return found


def make_image(folder, names):
    """A Python environment with these packages and what they need, as links; gives its interpreter."""
    base = Path(sys._base_executable)
    subprocess.run([base, "-I", "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    packages = next((folder / "lib").glob("python3*/site-packages"))
    for found in closure(names).values():
        tops = {path.parts[0] for path in found.files or () if path.parts[0] not in ("..", "__pycache__")}
        for top in tops:
            source = Path(found.locate_file(top))
            target = packages / top
            if source.exists() and not target.exists():
                target.symlink_to(source.resolve())
    return folder / "bin" / "python"


def frozen(names):
    """Lines as `pip freeze` has them."""
    return "".join(f"{name}=={found.version}\n" for name, found in sorted(closure(names).items()))
