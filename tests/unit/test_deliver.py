"""What a server tells the processes that deliver for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from anew.app.deliver import variables
from anew.config import Settings, load_settings


def test_a_deliverer_has_the_settings_of_its_server(tmp_path: Path) -> None:
    usual = Settings()
    server = replace(
        usual,
        store=replace(usual.store, root_dir=tmp_path),
        timing=replace(usual.timing, drain_timeout_ms=120_000, heartbeat_interval_ms=50),
        webhooks=replace(
            usual.webhooks, slots=7, allow_http=True, allow_cidrs=("127.0.0.1/32", "10.0.0.0/8")
        ),
        log=replace(usual.log, level="debug"),
    )
    its = load_settings({}, variables(server), None).settings
    assert (its.store, its.webhooks, its.log) == (server.store, server.webhooks, server.log)
    assert its.timing == replace(usual.timing, drain_timeout_ms=120_000)
