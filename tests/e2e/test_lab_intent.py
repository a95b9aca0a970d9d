"""The head of the lab's page in Chromium: somebody says what he wants, sees a verdict, and changes what was proposed."""

from __future__ import annotations

from .browser import LabPage, box


def test_a_wish_is_answered_and_stays_while_a_policy_is_changed(lab: LabPage) -> None:
    page = lab.page
    page.get_by_label("outlive an outage of").fill("1h")
    page.get_by_label("jobs failing together").fill("2,000")
    page.get_by_label("calls a second afterwards").fill("20")
    page.get_by_label("what you have today").fill("aws_full")
    with page.expect_navigation():
        page.get_by_role("button", name="Propose policies").click()
    page.wait_for_function("() => document.documentElement.dataset.drawn")
    rows = page.locator("#verdict tbody tr")
    assert rows.count() == 3
    assert "100 % die" in rows.nth(0).inner_text()
    assert "none dies" in rows.nth(1).inner_text()
    assert "within 20" in rows.nth(2).inner_text()
    assert [herd["label"] for herd in lab.data()["herds"]] == ["A aws_full", "B few calls", "C soon done"]
    data = lab.set(box("b.limit"), "3")
    assert data["herds"][1]["label"] == "B custom"
    page.wait_for_function(
        "() => document.querySelectorAll('#verdict tbody tr')[1].innerText.includes('100 % die')"
    )
    assert "want.calls=20" in lab.address()
