"""Settings: parsed at the border, with a message that says the field, what was given and what is expected."""

from pathlib import Path
from typing import Annotated, Literal

import pytest

from handlens import registry
from handlens.errors import HandlensError
from handlens.settings import Settings, change, fields_of, setting


class Inner(Settings, frozen=True, kw_only=True):
    """Nested settings."""

    blur: Annotated[float, setting("share of crops", ge=0, le=1)] = 0.1
    first: Annotated[int, setting("first of two", ge=0)] = 1
    second: Annotated[int, setting("second of two", ge=0)] = 2

    def __post_init__(self):
        if self.first > self.second:
            raise HandlensError(f"from {self.first} to {self.second}; expected the first first")


class Other(Settings, frozen=True, kw_only=True):
    """With a field that `Inner` has too."""

    blur: Annotated[float, setting("share of photographs", ge=0, le=1)] = 0.2


class Outer(Settings, frozen=True, kw_only=True):
    """Every kind of field."""

    word: Annotated[Literal["x", "y"], setting("one of two words", "solve", "train")] = "x"
    number: Annotated[float, setting("any number")] = 2.0
    share: Annotated[float, setting("a share", ge=0, le=1)] = 0.5
    crop: Annotated[int, setting("a side", ge=32, multiple_of=32)] = 64
    limit: Annotated[float, setting("at most three", le=3)] | None = None
    turns: Annotated[Literal[1, 8] | None, setting("orientations")] = None
    flag: Annotated[bool, setting("yes or no", "solve")] = False
    place: Annotated[Path | None, setting("a folder")] = None
    text: Annotated[str, setting("anything")] = ""
    fields: Annotated[dict[str, str], setting("names and texts")] = {}  # noqa: RUF012
    inner: Inner = Inner()
    other: Other = Other(blur=0.3)


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"word": "y"}, "y"),
        ({"number": -3}, -3.0),
        ({"share": 1}, 1.0),
        ({"crop": 96}, 96),
        ({"limit": None}, None),
        ({"limit": -7.5}, -7.5),
        ({"turns": 8}, 8),
        ({"turns": None}, None),
        ({"flag": True}, True),
        ({"place": Path("/a/b")}, Path("/a/b")),
        ({"place": "/a/b"}, Path("/a/b")),
        ({"place": "b"}, Path("b").absolute()),
        ({"place": None}, None),
        ({"text": "nan"}, "nan"),
        ({"fields": {"a": "1"}}, {"a": "1"}),
        ({"inner": {"blur": 0.9}}, Inner(blur=0.9)),
    ],
)
def test_good_values_are_taken(given, value):
    ((name, _),) = given.items()
    settings = Outer.parse(given)
    assert getattr(settings, name) == value
    assert settings.replace(**{name: getattr(Outer(), name)}) == Outer()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"word": "z"}, "word is 'z'; expected one of x, y"),
        ({"word": 1}, "word is 1; expected one of x, y"),
        ({"number": "2"}, "number is '2'; expected a number"),
        ({"number": True}, "number is True; expected a number"),
        ({"number": None}, "number is None; expected a number"),
        ({"number": float("nan")}, "number is nan; expected a finite number"),
        ({"number": float("inf")}, "number is inf; expected a finite number"),
        ({"number": float("-inf")}, "number is -inf; expected a finite number"),
        ({"share": -0.1}, "share is -0.1; expected a number from 0 to 1"),
        ({"share": 1.5}, "share is 1.5; expected a number from 0 to 1"),
        ({"share": float("nan")}, "share is nan; expected a number from 0 to 1"),
        ({"crop": 0}, "crop is 0; expected a multiple of 32 of at least 32"),
        ({"crop": 33}, "crop is 33; expected a multiple of 32 of at least 32"),
        ({"crop": 64.5}, "crop is 64.5; expected a multiple of 32 of at least 32"),
        ({"limit": 4}, "limit is 4; expected a number of at most 3"),
        ({"turns": 4}, "turns is 4; expected one of 1, 8"),
        ({"flag": "yes"}, "flag is 'yes'; expected true or false"),
        ({"flag": 1}, "flag is 1; expected true or false"),
        ({"place": 3}, "place is 3; expected a path"),
        ({"text": 3}, "text is 3; expected text"),
        ({"fields": "a=1"}, "fields is 'a=1'; expected names with texts"),
        ({"fields": {"a": 1}}, "fields is {'a': 1}; expected names with texts"),
        ({"inner": {"blur": 7}}, "inner.blur is 7; expected a number from 0 to 1"),
        ({"inner": {"blur": float("nan")}}, "inner.blur is nan; expected a number from 0 to 1"),
        ({"inner": 3}, "inner is 3; expected a mapping of its fields"),
        ({"inner": {"first": 3}}, "from 3 to 2; expected the first first"),
    ],
)
def test_bad_values_are_named(given, message):
    with pytest.raises(HandlensError) as caught:
        Outer.parse(given)
    assert str(caught.value) == message


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(HandlensError, match=r"^there is no field nope; there are word, number, .*inner\.blur"):
        Outer.parse({"nope": 1})
    with pytest.raises(HandlensError, match="^there is no field nope; there are"):
        Outer.parse({"inner": {"nope": 1}})
    with pytest.raises(HandlensError, match="there is no field nope; there are none$"):
        Settings.parse({"nope": 1})


def test_what_is_missing_is_named():
    class Needs(Settings, frozen=True, kw_only=True):
        share: Annotated[float, setting("a share", ge=0, le=1)]

    class Holds(Settings, frozen=True, kw_only=True):
        needs: Needs

    for cls, given, path in ((Needs, {}, "share"), (Holds, {"needs": {}}, "needs.share")):
        with pytest.raises(HandlensError, match=f"^{path} is missing; expected a number from 0 to 1$"):
            cls.parse(given)


def test_texts_are_numbers_only_where_they_are_asked_for():
    assert Outer.parse({"crop": "96", "flag": "true", "turns": "8"}, strict=False) == Outer(crop=96, flag=True, turns=8)
    with pytest.raises(HandlensError, match="crop is '96'"):
        Outer.parse({"crop": "96"})


def test_plain_values_give_the_settings_back():
    settings = Outer.parse({"place": "/a/b", "inner": {"blur": 0.7}, "fields": {"a": "b"}, "turns": 1})
    page = settings.plain()
    assert page["place"] == "/a/b"
    assert page["inner"] == {"blur": 0.7, "first": 1, "second": 2}
    assert Outer.parse(page) == settings


def test_settings_do_not_change():
    with pytest.raises(AttributeError):
        Outer().crop = 3


# --- what `--set` changes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({}, {}),
        ({"crop": "128"}, {"crop": 128}),
        ({"flag": "true"}, {"flag": True}),
        ({"turns": "8"}, {"turns": 8}),
        ({"number": "1e-3"}, {"number": 0.001}),
        ({"text": "a = b"}, {"text": "a = b"}),
        ({"inner.blur": "0.4"}, {"inner": Inner(blur=0.4)}),
        ({"first": "0"}, {"inner": Inner(first=0)}),
        ({"first": "5", "second": "6"}, {"inner": Inner(first=5, second=6)}),
        ({"other.blur": "1"}, {"other": Other(blur=1.0)}),
    ],
)
def test_fields_are_changed_by_texts(given, changed):
    assert change(Outer(), given) == Outer().replace(**changed)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"blur": "1"}, "blur may be inner.blur or other.blur: name one of them whole"),
        ({"nope": "1"}, "there is no field nope; there are crop, fields, "),
        ({"inner": "1"}, "there is no field inner; there are"),
        ({"inner.nope": "1"}, "there is no field inner.nope; there are"),
        ({"crop": "33"}, "crop is '33'; expected a multiple of 32"),
        ({"crop": ""}, "crop is ''; expected"),
        ({"inner.blur": "2"}, "inner.blur is '2'; expected a number from 0 to 1"),
        ({"first": "9"}, "from 9 to 2; expected the first first"),
        ({"number": "nan"}, "number is "),
        ({"number": "inf"}, "number is "),
        ({"number": "1e999"}, "number is "),
    ],
)
def test_bad_texts_are_named(given, message):
    with pytest.raises(HandlensError) as caught:
        change(Outer(), given)
    assert str(caught.value).startswith(message)


def test_the_whole_name_wins_over_a_nested_one():
    class Both(Settings, frozen=True, kw_only=True):
        blur: Annotated[float, setting("its own")] = 0.0
        inner: Inner = Inner()

    assert change(Both(), {"blur": "0.5"}) == Both(blur=0.5)


# --- fields for the command line ----------------------------------------------------------------------------------


def test_fields_are_listed_with_nested_ones():
    fields = {field.path: field for field in fields_of(Outer)}
    assert list(fields)[-4:] == ["inner.blur", "inner.first", "inner.second", "other.blur"]
    assert (fields["word"].choices, fields["word"].commands) == (("x", "y"), ("solve", "train"))
    assert (fields["share"].minimum, fields["share"].maximum, fields["share"].default) == (0, 1, 0.5)
    assert (fields["limit"].type, fields["limit"].maximum, fields["limit"].help) == (float, 3, "at most three")
    assert fields["crop"].multiple == 32
    assert fields["turns"].choices == (1, 8)
    assert (fields["inner.blur"].help, fields["inner.blur"].commands) == ("share of crops", ())
    assert fields["other.blur"].default == 0.3
    changed = {field.path: field.default for field in fields_of(Outer(crop=96, other=Other(blur=0.9)))}
    assert (changed["crop"], changed["other.blur"]) == (96, 0.9)


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_every_field_of_a_challenge_says_what_it_is(name):
    challenge = registry.challenge(name)
    known = {"check", "score", "solve", "judge", "train", "sample", "encode", "decode"}
    for field in fields_of(challenge.settings_type):
        assert field.help, field.path
        assert field.commands, field.path
        assert set(field.commands) <= known, field.path
    for settings in challenge.training_fields:
        for field in fields_of(settings):
            assert field.help, field.path
            if field.type in (int, float):
                assert field.minimum is not None, field.path
    paths = [field.path for settings in challenge.training_fields for field in fields_of(settings)]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_the_defaults_of_a_challenge_are_valid(name):
    challenge = registry.challenge(name)
    assert challenge.settings(**challenge.settings().plain()) == challenge.settings()
    for settings in challenge.training_fields:
        assert type(settings).parse(settings.plain()) == settings
    with pytest.raises(HandlensError, match=f"^{name}: there is no field nope; there are "):
        challenge.settings(nope=1)
