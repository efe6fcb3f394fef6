"""What torch is told about the machine."""

from handlens.training.device import choose_precision, choose_threads, keep_memory


def test_never_half_precision_on_a_cpu_unless_asked():
    assert choose_precision("auto", "cpu") == "32-true"
    assert choose_precision("bf16-mixed", "cpu") == "bf16-mixed"
    assert choose_threads(3, "cpu", 1) == 3
    assert choose_threads(0, "cpu", 10_000) == 1
    assert keep_memory() in (True, False)
