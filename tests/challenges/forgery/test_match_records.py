"""Matches as text: what is read is what was written, to the last pixel and digit."""

import json

import numpy as np
from detector_pictures import as_patch, box, match_of
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from handlens.challenges.forgery.detect.canvas.scaling import Scaling
from handlens.challenges.forgery.detect.findings import Patch
from handlens.challenges.forgery.match_records import MatchRecord, from_text, to_text

masks = arrays.arrays(np.bool_, st.tuples(st.integers(1, 9), st.integers(1, 9))).filter(np.any)
numbers = st.floats(allow_nan=False, allow_infinity=False)


def record(shape, *matches, factor=1.0):
    return MatchRecord(Scaling(shape, factor), matches, seconds=13.0, used=2.7182818284590451, cut=("objects",))


@given(
    masks,
    masks,
    st.tuples(st.integers(0, 5000), st.integers(0, 5000)),
    arrays.arrays(np.float64, (2, 3), elements=numbers),
    st.dictionaries(st.sampled_from(["detail", "grain", "pixels"]), numbers),
)
def test_a_match_comes_back_as_it_was(one, other, corner, matrix, evidence):
    source, copy = Patch(*corner, one), Patch(3, 4, other)
    match = match_of(source, copy, matrix, tier="key points", **evidence)
    back = from_text(to_text(record((600, 700), match, factor=0.1 + 0.2)))
    assert back.scaling == Scaling((600, 700), 0.1 + 0.2)
    assert (back.seconds, back.used, back.cut) == (13.0, 2.7182818284590451, ("objects",))
    (found,) = back.matches
    for mine, theirs in ((found.source, source), (found.copy, copy)):
        assert (mine.top, mine.left) == (theirs.top, theirs.left)
        assert np.array_equal(mine.mask, theirs.mask)
        assert mine.mask.dtype == np.bool_
    assert np.array_equal(found.matrix, match.matrix)
    assert (found.tier, dict(found.evidence)) == ("key points", dict(match.evidence))


def test_it_is_one_line_of_json_without_probabilities():
    hollow = np.ones((5, 7), bool)
    hollow[2, 2:5] = False
    matches = [match_of(as_patch(hollow), box(50, 50, 5, 7), probability=0.9) for _ in range(3)]
    text = to_text(record((100, 100), *matches))
    assert "\n" not in text
    assert len(json.loads(text)["matches"]) == 3
    assert [match.probability for match in from_text(text).matches] == [0, 0, 0]


def test_a_figure_without_matches_has_its_shape():
    found = from_text(to_text(record((3, 4))))
    assert (found.scaling.figure, found.matches) == ((3, 4), ())
