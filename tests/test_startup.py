"""Start-up: what `handlens --help` and a small score import."""

import subprocess
import sys

import pytest


def modules_after(code):
    script = f"import sys\nsys.argv = ['handlens']\n{code}\nprint(*sorted(m for m in sys.modules if '.' not in m))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import handlens", {"numpy", "click", "rich"}),
        ("import handlens.cli", {"numpy", "rich", "scipy", "cv2", "PIL", "pyarrow", "tifffile"}),
        (
            "from handlens import registry\nfor name in registry.BUILT_IN: registry.challenge(name)",
            {"rich", "scipy", "cv2", "PIL", "pyarrow", "tifffile", "torch"},
        ),
    ],
)
def test_heavy_libraries_wait_until_they_are_used(code, absent):
    assert not modules_after(code) & absent


def test_scoring_a_small_file_needs_numpy_alone(tmp_path):
    (tmp_path / "truth.csv").write_text('case_id,annotation,shape\n1,"[1, 2]","[9, 9]"\n2,authentic,authentic\n')
    (tmp_path / "mine.csv").write_text('case_id,annotation\n1,"[1, 3]"\n2,authentic\n')
    code = f"import handlens\nhandlens.score('forgery', {str(tmp_path / 'mine.csv')!r}, truth={str(tmp_path / 'truth.csv')!r})"
    assert not modules_after(code) & {"scipy", "cv2", "PIL", "pyarrow", "tifffile", "rich"}
