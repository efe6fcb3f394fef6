"""What a file is by its first bytes and by its name."""

import pytest

from handlens.io.formats import FORMATS, named_like, recognise


def test_nothing_is_made_of_noise():
    assert recognise(b"") is None
    assert recognise(b"case_id,annotation\n1,authentic\n") is None
    assert recognise(b"BM is how this text begins") is None


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_every_ending_belongs_to_one_format(each):
    assert all(named_like(ending.upper()) is each for ending in each.endings)


def test_a_page_of_the_web_is_no_drawing():
    assert recognise(b"<!DOCTYPE html><html>") is None
    assert recognise(b'<?xml version="1.0"?><html></html>') is None
