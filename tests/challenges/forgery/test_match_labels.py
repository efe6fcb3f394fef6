"""Labels: a match that joins two parts of a forgery is true, one inside a part is unclear, all else is false."""

import numpy as np
from detector_pictures import box, match_of, painted

from handlens.challenges.forgery.match_labels import FALSE, UNCLEAR, label_matches

SHAPE = (200, 200)
A, B, C, D = box(10, 10, 30, 30), box(100, 100, 30, 30), box(10, 150, 20, 20), box(150, 20, 20, 20)


def instance(*patches):
    return np.any([painted(patch, SHAPE) for patch in patches], axis=0)


def label(source, copy, *masks):
    (found,) = label_matches([match_of(source, copy)], masks)
    return found


def test_source_and_copy_are_the_instance():
    assert label(A, B, instance(A, B)) == 0
    assert label(B, A, instance(A, B)) == 0


def test_the_number_is_that_of_the_instance():
    masks = [instance(A, B), instance(C, D)]
    assert label_matches([match_of(C, D), match_of(A, B)], masks) == (1, 0)


def test_regions_need_not_be_exact():
    assert label(box(14, 13, 30, 30), box(97, 103, 28, 30), instance(A, B)) == 0


def test_two_of_three_parts_suffice():
    assert label(A, C, instance(A, B, C)) == 0


def test_without_a_forgery_everything_is_false():
    assert label(A, B) == FALSE
    assert label(A, B, np.zeros(SHAPE, bool)) == FALSE


def test_one_end_outside_is_false():
    assert label(A, C, instance(A, B)) == FALSE
    assert label(C, D, instance(A, B)) == FALSE


def test_parts_of_two_forgeries_are_false():
    assert label(A, C, instance(A, B), instance(C, D)) == FALSE


def test_both_ends_inside_one_part_are_unclear():
    assert label(box(10, 10, 12, 12), box(26, 26, 12, 12), instance(A, B)) == UNCLEAR


def test_specks_of_two_large_parts_are_unclear():
    assert label(box(12, 12, 5, 5), box(110, 115, 5, 5), instance(A, B)) == UNCLEAR


def test_a_good_part_of_two_large_parts_is_the_copy():
    assert label(box(12, 12, 14, 14), box(102, 102, 14, 14), instance(A, B)) == 0


def test_small_objects_of_a_large_copied_region_neither_prove_nor_disprove_it():
    large, there = box(0, 0, 80, 80), box(100, 100, 80, 80)
    objects = [(10, 10), (40, 20), (20, 50)]
    matches = [match_of(box(row, column, 9, 9), box(100 + row, 100 + column, 9, 9)) for row, column in objects]
    matches.append(match_of(box(10, 10, 9, 9), box(140, 120, 9, 9)))  # two honest objects, one in each
    assert label_matches(matches, [instance(large, there)]) == (UNCLEAR,) * 4


def test_a_small_object_of_a_copied_region_and_one_outside_are_false():
    assert label(box(10, 10, 9, 9), box(120, 20, 9, 9), instance(box(0, 0, 80, 80), box(100, 100, 80, 80))) == FALSE


def test_what_is_unclear_in_one_forgery_may_be_the_copy_of_another():
    large = instance(box(0, 0, 60, 60), box(100, 100, 60, 60))
    inner = instance(box(5, 5, 9, 9), box(110, 110, 9, 9))
    assert label(box(5, 5, 9, 9), box(110, 110, 9, 9), large, inner) == 1


def test_parts_that_touch_at_a_corner_are_one():
    touching = instance(A, box(40, 40, 30, 30))
    assert label(box(12, 12, 20, 20), box(45, 45, 20, 20), touching) == UNCLEAR


def test_source_and_copy_that_touch_are_the_instance_where_they_fill_it():
    beside = box(10, 40, 30, 30)
    assert label(A, beside, instance(A, beside)) == 0
    assert label(box(12, 12, 20, 20), box(12, 42, 20, 20), instance(A, beside)) == UNCLEAR
    assert label(box(10, 10, 30, 40), box(10, 30, 30, 40), instance(A, beside)) == UNCLEAR, "they lie on each other"


def test_nothing_to_label_is_fine():
    assert label_matches([], [instance(A, B)]) == ()
