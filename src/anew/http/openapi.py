"""``/openapi.json``: the whole API as an OpenAPI 3.1 document."""

from __future__ import annotations

from typing import Any

import msgspec

from anew import __version__
from anew.http.api import Context
from anew.http.formats import Format
from anew.http.openapi_paths import paths
from anew.http.openapi_schemas import SCHEMAS
from anew.http.router import Router
from anew.net.seam import Request

TAGS = {
    "jobs": "New jobs, and jobs that are sent round again or called off.",
    "work": "Taking jobs, and reporting how they went.",
    "queries": "Looking at stored jobs.",
    "changes": "Changing and removing stored jobs.",
    "server": "The server itself.",
}


def document() -> dict[str, Any]:
    """Give the document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Anew",
            "version": __version__,
            "summary": "A durable job queue.",
            "description": "Bodies and answers are JSON or MessagePack, each as its own header says.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "tags": [{"name": name, "description": about} for name, about in TAGS.items()],
        "paths": paths(),
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def add_routes(router: Router, context: Context) -> None:
    """Serve the document, in JSON whatever `Accept` says."""
    written = msgspec.json.encode(document())

    def show(request: Request, form: Format, params: tuple[str, ...]) -> None:
        request.reply(200, written)

    router.add("GET", "/openapi.json", show, streams=True)
