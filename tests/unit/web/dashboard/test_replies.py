"""How a browser is answered when there is no page."""

from __future__ import annotations

import pytest

from anew.errors import Overloaded
from anew.http.formats import JSON
from anew.web.dashboard import rendering
from anew.web.dashboard.replies import refuse
from tests.unit.http.asked import Asked


def test_a_refusal_needs_no_template_since_it_is_written_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "_environment", lambda: pytest.fail("a template was asked for"))
    asked = Asked("GET", "/ui")
    refuse(asked, JSON, Overloaded("too many <pages> are waiting"))
    answer = asked.answer
    assert answer is not None
    assert answer.status == 503
    assert "too many &lt;pages&gt; are waiting" in answer.body.decode()
    assert (b"retry-after", b"1") in answer.extra
