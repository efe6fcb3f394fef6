"""Groups: a source and its copies are one instance, two forgeries are two, and order makes no difference."""

import itertools

import numpy as np
import pytest
from detector_pictures import box, match_of, similarity
from hypothesis import given
from hypothesis import strategies as st

from handlens.challenges.forgery.detect.grouping import count_regions, group, shares_region

SHAPE = (400, 400)
ONE, TWO, THREE, FOUR = box(10, 10, 20, 20), box(100, 40, 20, 20), box(200, 300, 20, 20), box(330, 90, 20, 20)


def turned(source, copy, turn, **evidence):
    return match_of(source, copy, similarity(turn, around=source.centre, to=copy.centre), **evidence)


def sizes(groups):
    return sorted(len(each.matches) for each in groups)


def test_nothing_gives_no_groups():
    assert group([]) == []


def test_a_source_with_two_copies_is_one_group():
    (found,) = group([turned(ONE, TWO, 20), turned(ONE, THREE, 130)])
    assert found.mask(SHAPE).sum() == 3 * 400


def test_forgeries_without_a_shared_region_stay_apart():
    found = group([turned(ONE, TWO, 20), turned(THREE, FOUR, 130)])
    assert sizes(found) == [1, 1]


def test_a_chain_of_copies_is_one_group():
    chain = [box(10 + 60 * number, 37 * number, 20, 20) for number in range(6)]
    links = [turned(one, other, 50 * number) for number, (one, other) in enumerate(itertools.pairwise(chain))]
    (found,) = group([links[0], links[4], links[2], links[1], links[3]])
    assert len(found.matches) == 5


def test_of_two_that_say_the_same_the_stronger_is_kept():
    weak, strong = turned(ONE, TWO, 20, detail=0.5), turned(ONE, box(101, 41, 20, 20), 21, detail=0.9)
    for matches in ([weak, strong], [strong, weak]):
        (found,) = group(matches)
        assert [id(match) for match in found.matches] == [id(strong)]


def test_the_stronger_is_as_sure_as_the_surest_that_says_the_same():
    large = turned(ONE, TWO, 20, detail=0.9, probability=0.55)
    small = turned(box(12, 12, 9, 9), box(102, 42, 9, 9), 20, detail=0.9, probability=0.99)
    for matches in ([large, small], [small, large]):
        (found,) = group(matches)
        (match,) = found.matches
        assert found.probability == match.probability == 0.99
        assert match.source is large.source


def test_the_way_back_says_the_same():
    (found,) = group([turned(ONE, TWO, 20, detail=0.9), turned(TWO, ONE, -20, detail=0.8)])
    assert len(found.matches) == 1


def test_another_copy_of_the_same_source_does_not_say_the_same():
    (found,) = group([turned(ONE, TWO, 20, detail=0.9), turned(ONE, THREE, 20, detail=0.8)])
    assert len(found.matches) == 2


def test_what_was_moved_in_one_go_is_one_group():
    matrix = similarity(15, around=(100, 100), to=(250, 260))
    sources = [box(80, 80, 12, 12), box(90, 130, 12, 12), box(130, 95, 12, 12)]
    matches = []
    for source in sources:
        x, y = matrix[:, :2] @ source.centre + matrix[:, 2]
        matches.append(match_of(source, box(round(y) - 6, round(x) - 6, 12, 12), matrix))
    (found,) = group(matches)
    assert len(found.matches) == 3


def test_one_move_seen_from_both_ends_is_one_group():
    shift = similarity(to=(150, 160))
    back = similarity(to=(-150, -160))
    one = match_of(box(40, 40, 12, 12), box(200, 190, 12, 12), shift)
    other = match_of(box(200, 250, 12, 12), box(40, 100, 12, 12), back)
    (found,) = group([one, other])
    assert len(found.matches) == 2


@pytest.mark.parametrize("detail", [0.5, 0.9], ids=["weaker", "stronger"])
def test_a_mirrored_move_is_another_one(detail):
    plain = match_of(box(40, 40, 12, 12), box(200, 200, 12, 12), similarity(to=(160, 160)), detail=detail)
    matrix = similarity(0, 1, True, around=(105.5, 45.5), to=(265.5, 205.5))
    flipped = match_of(box(40, 100, 12, 12), box(200, 260, 12, 12), matrix)
    assert sizes(group([plain, flipped])) == [1, 1]


def test_the_surest_group_comes_first_and_is_as_sure_as_its_surest_match():
    found = group(
        [
            turned(ONE, TWO, 20, probability=0.4),
            turned(box(150, 200, 9, 9), box(300, 250, 9, 9), 70, probability=0.8),
            turned(ONE, THREE, 130, probability=0.6),
        ]
    )
    assert [each.probability for each in found] == [0.8, 0.6]


# --- places ---------------------------------------------------------------------------------------------------------


def test_a_source_and_its_copies_are_as_many_places():
    (found,) = group([turned(ONE, TWO, 20), turned(ONE, THREE, 130), turned(FOUR, TWO, 70)])
    assert count_regions(found) == 4


def test_what_was_moved_in_one_go_counts_once():
    matches = [match_of(box(20, left, 12, 12), box(220, left + 90, 12, 12)) for left in (20, 60, 100, 140)]
    (found,) = group(matches)
    assert len(found.matches) == 4
    assert count_regions(found) == 2


def test_groups_share_a_region_or_do_not():
    one, other, third = (group([turned(*pair, 20)])[0] for pair in ((ONE, TWO), (THREE, TWO), (THREE, FOUR)))
    assert shares_region(one, other)
    assert shares_region(other, third)
    assert not shares_region(one, third)


corners = st.tuples(st.integers(0, 380), st.integers(0, 380))


@st.composite
def many_matches(draw):
    """Matches of different strength between boxes, some of which overlap."""
    places = draw(st.lists(corners, min_size=2, max_size=7, unique=True))
    boxes = [box(*place, 20, 20) for place in places]
    pairs = draw(st.lists(st.tuples(st.sampled_from(boxes), st.sampled_from(boxes)), min_size=1, max_size=7))
    return [
        turned(one, other, 37 * number, detail=0.3 + 0.08 * number, probability=0.3 + 0.05 * number)
        for number, (one, other) in enumerate(pairs)
        if one is not other
    ]


@given(many_matches(), st.randoms(use_true_random=False))
def test_the_order_of_matches_does_not_matter(matches, random):
    mixed = list(matches)
    random.shuffle(mixed)

    def meaning(groups):
        return [(each.probability, {id(match) for match in each.matches}) for each in groups]

    one, other = meaning(group(matches)), meaning(group(mixed))
    assert sorted(one, key=str) == sorted(other, key=str)


@given(many_matches())
def test_no_match_is_in_two_groups_and_none_is_new(matches):
    kept = [id(match) for each in group(matches) for match in each.matches]
    assert len(kept) == len(set(kept))
    assert set(kept) <= {id(match) for match in matches}
    assert bool(kept) == bool(matches)


@given(many_matches())
def test_groups_do_not_share_a_region(matches):
    masks = [(each, each.mask(SHAPE)) for each in group(matches)]
    for number, (_, mask) in enumerate(masks):
        for other, _ in masks[:number]:
            for patch in other.patches():
                assert (mask[patch.window] & patch.mask).sum() <= 2 * 0.35 * patch.area


def test_masks_are_boolean():
    (found,) = group([turned(ONE, TWO, 20)])
    assert found.mask(SHAPE).dtype == np.bool_
