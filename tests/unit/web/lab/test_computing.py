"""The helper process from within: every question gets an answer, and memory has an end."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from anew.web.lab.computing import Ask, Made, answer, framed


def test_a_page_that_is_made_is_the_answer() -> None:
    made = Made(b"<p>", trace="line 1")
    assert answer(lambda ask: made, Ask(b"")) is made


def test_too_little_memory_is_told_in_words() -> None:
    def greedy(ask: Ask) -> Made:
        raise MemoryError

    assert answer(greedy, Ask(b"")).problem.startswith("this needs more than 256 MiB of memory")


def test_a_mistake_of_ours_goes_to_the_log_and_not_to_the_page() -> None:
    def wrong(ask: Ask) -> Made:
        raise RuntimeError("the secret of row 7")

    made = answer(wrong, Ask(b""))
    assert "secret" not in made.problem
    assert "the secret of row 7" in made.trace


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is told by Linux only")
def test_memory_beyond_the_bound_is_refused_by_the_kernel() -> None:
    """In a process of its own, since a bound cannot be lifted again. NumPy asks for memory as Python does."""
    script = (
        "import numpy\n"
        "from anew.web.lab.computing import bound_memory\n"
        "bound_memory(64 << 20)\n"
        "numpy.ones(4 << 20)\n"  # 32 MiB
        "for take in (lambda: bytearray(128 << 20), lambda: numpy.ones(16 << 20)):\n"
        "    try:\n"
        "        take()\n"
        "    except MemoryError:\n"
        "        print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["refused", "refused"]


def test_what_computes_without_end_is_ended_by_the_kernel() -> None:
    script = (
        "from anew.web.lab import computing, page\n"
        "def endless(ask):\n"
        "    while True: pass\n"
        "page.make, page.warm_up, computing.CPU_S = endless, lambda: None, 0.2\n"
        "computing.main()\n"
    )
    asked = framed(Ask(b""))
    ended = subprocess.run([sys.executable, "-c", script], input=asked, stdout=subprocess.PIPE, timeout=60)
    assert -ended.returncode == signal.SIGPROF
