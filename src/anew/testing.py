"""Tests of an application: its jobs in memory, on the engine that a file has too, with a clock that the test moves.

    with app.test() as test:
        welcome.enqueue("ada")
        test.assert_enqueued(welcome, "ada")
        test.clock.advance("3d")

See docs/testing.md. A pytest plugin brings the fixture `anew_test`.
"""

from anew.tasks.harness import AppClock, AppTest, FoundJob, Ran, Report

__all__ = ["AppClock", "AppTest", "FoundJob", "Ran", "Report"]
