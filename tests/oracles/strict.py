"""What a strict decoder says about a file: its content, that it is damaged, or nothing, where it is of a rarer kind."""


class DamagedError(Exception):
    """The file breaks its format's own rules."""


class UnsureError(Exception):
    """Sound or not: this plain decoder does not know such files."""


def demand(holds, what):
    if not holds:
        raise DamagedError(what)


def know(holds, what):
    if not holds:
        raise UnsureError(what)
