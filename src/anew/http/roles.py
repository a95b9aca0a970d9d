"""Which roles a route takes: a row for each method and path of every port that speaks HTTP. What has no row cannot be served.

`admin` may do everything. `read` looks, at payloads too, but not at the secrets of subscriptions. `producer` brings work, and
sees by its id what has become of it. `worker` takes work and says how it has ended. It may look at jobs, since who takes them
sees them anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anew.config.token_file import ROLES
from anew.errors import InternalError

Roles = frozenset[str]

_OPEN: Final = Roles({"open", *ROLES})
"""No token is needed: probes, and what has a token in its path."""
_ANY: Final = Roles(ROLES)
_ADMIN: Final = Roles({"admin"})
_READ: Final = Roles({"admin", "read"})
_PRODUCER: Final = Roles({"admin", "producer"})
_WORKER: Final = Roles({"admin", "worker"})
_OWN: Final = _PRODUCER | _READ
"""What a producer sees of what it has brought."""
_LOOK: Final = _WORKER | _READ
_JOB: Final = _OWN | _WORKER

ROWS: Final[Mapping[str, Roles]] = {
    "GET /healthz": _OPEN,
    "GET /readyz": _OPEN,
    "GET /v1/confirm/{token}": _OPEN,
    "POST /v1/confirm/{token}": _OPEN,
    # -- the server
    "GET /health": _ANY,
    "GET /version": _ANY,
    "GET /openapi.json": _ANY,
    "GET /metrics": _READ,
    "POST /reset": _ADMIN,
    # -- jobs
    "POST /jobs": _PRODUCER,
    "POST /jobs/bulk": _PRODUCER,
    "POST /v1/jobs/bulk": _PRODUCER,
    "GET /jobs": _LOOK,
    "GET /v1/jobs": _LOOK,
    "GET /jobs/count": _LOOK,
    "GET /jobs/{id}": _JOB,
    "GET /v1/jobs/{id}": _JOB,
    "GET /jobs/{id}/errors": _JOB,
    "GET /jobs/{id}/errors/{attempt}": _JOB,
    "PATCH /jobs": _ADMIN,
    "PATCH /jobs/{id}": _ADMIN,
    "DELETE /jobs": _ADMIN,
    "DELETE /jobs/{id}": _ADMIN,
    "POST /v1/jobs/retry": _ADMIN,
    "POST /v1/jobs/replan": _ADMIN,
    "POST /v1/jobs/{id}/retry": _ADMIN,
    "POST /v1/jobs/{id}/cancel": _ADMIN,
    "POST /v1/batches": _PRODUCER,
    "POST /v1/batches/{batch}/close": _PRODUCER,
    "GET /v1/batches/{batch}": _JOB,
    # -- work
    "GET /jobs/take": _WORKER,
    "POST /jobs/success": _WORKER,
    "POST /jobs/{id}/success": _WORKER,
    "POST /jobs/{id}/failure": _WORKER,
    "POST /v1/jobs/failure": _WORKER,
    "POST /v1/jobs/reports": _WORKER,
    "POST /v1/jobs/{id}/progress": _WORKER,
    "POST /v1/breakers": _WORKER,
    "POST /v1/workers/{worker}/quiet": _WORKER,
    "POST /v1/workers/{worker}/terminate": _ADMIN,
    "GET /v1/workers": _READ,
    "GET /v1/breakers": _READ,
    "POST /v1/breakers/{breaker}/close": _ADMIN,
    # -- queues
    "GET /queues": _READ,
    "GET /v1/queues": _READ,
    "POST /v1/queues/{queue}/pause": _ADMIN,
    "POST /v1/queues/{queue}/resume": _ADMIN,
    "PUT /v1/queues/{queue}/limit": _ADMIN,
    "DELETE /v1/queues/{queue}/limit": _ADMIN,
    # -- cron entries
    "GET /v1/crons": _LOOK,
    "PUT /v1/crons/{group}": _ADMIN,
    "DELETE /v1/crons/{group}": _ADMIN,
    "DELETE /v1/crons/{group}/{name}": _ADMIN,
    "GET /crons": _READ,
    "DELETE /crons": _ADMIN,
    "GET /crons/{group}": _READ,
    "PUT /crons/{group}": _ADMIN,
    "PATCH /crons/{group}": _ADMIN,
    "DELETE /crons/{group}": _ADMIN,
    "POST /crons/{group}/entries": _ADMIN,
    "GET /crons/{group}/entries/{entry}": _READ,
    "PUT /crons/{group}/entries/{entry}": _ADMIN,
    "PATCH /crons/{group}/entries/{entry}": _ADMIN,
    "DELETE /crons/{group}/entries/{entry}": _ADMIN,
    # -- topics
    "GET /v1/topics": _READ,
    "GET /v1/topics/{topic}": _READ,
    "PUT /v1/topics/{topic}": _ADMIN,
    "PATCH /v1/topics/{topic}": _ADMIN,
    "DELETE /v1/topics/{topic}": _ADMIN,
    "POST /v1/topics/{topic}/messages": _PRODUCER,
    "GET /v1/messages/{message}": _OWN,
    "GET /v1/topics/{topic}/subscriptions": _READ,
    "POST /v1/topics/{topic}/subscriptions": _ADMIN,
    "GET /v1/subscriptions/{subscription}": _READ,
    "PATCH /v1/subscriptions/{subscription}": _ADMIN,
    "DELETE /v1/subscriptions/{subscription}": _ADMIN,
    "POST /v1/subscriptions/{subscription}/confirm": _ADMIN,
    "POST /v1/subscriptions/{subscription}/resend-confirmation": _ADMIN,
    "POST /v1/subscriptions/{subscription}/pause": _ADMIN,
    "POST /v1/subscriptions/{subscription}/resume": _ADMIN,
    "POST /v1/subscriptions/{subscription}/disable": _ADMIN,
    "POST /v1/subscriptions/{subscription}/enable": _ADMIN,
    "POST /v1/subscriptions/{subscription}/test": _ADMIN,
    "GET /v1/subscriptions/{subscription}/secret": _ADMIN,
    "POST /v1/subscriptions/{subscription}/secret/rotate": _ADMIN,
    "POST /v1/subscriptions/{subscription}/replay": _ADMIN,
    "GET /v1/deliveries": _READ,
    "POST /v1/deliveries/redeliver": _ADMIN,
    "GET /v1/deliveries/{delivery}": _READ,
    "DELETE /v1/deliveries/{delivery}": _ADMIN,
    "GET /v1/deliveries/{delivery}/attempts": _READ,
    "POST /v1/deliveries/{delivery}/redeliver": _ADMIN,
    "POST /v1/deliveries/{delivery}/cancel": _ADMIN,
    "GET /v1/attempts/{attempt_id}": _READ,
    "GET /v1/tasks/{task}": _READ,
    "DELETE /v1/tasks/{task}": _ADMIN,
    "POST /v1/delivery-policies/preview": _ADMIN,
    "POST /v1/delivery-policies/convert": _ADMIN,
    # -- pages and their forms
    "GET /": _READ,
    "GET /lab": _READ,
    "GET /static/{version}/{name}": _ANY,
    "GET /ui": _READ,
    "GET /ui/": _READ,
    "GET /ui/queues": _READ,
    "GET /ui/failures": _READ,
    "GET /ui/workers": _READ,
    "GET /ui/crons": _READ,
    "GET /ui/jobs": _READ,
    "GET /ui/jobs/{id}": _READ,
    "GET /ui/replan": _READ,
    "GET /ui/webhooks": _READ,
    "GET /ui/webhooks/{topic}": _READ,
    "GET /ui/subscriptions/{subscription}": _READ,
    "GET /ui/deliveries/{delivery}": _READ,
    "GET /ui/limits": _READ,
    "GET /ui/server": _READ,
    "POST /ui/jobs": _ADMIN,
    "POST /ui/jobs/{id}/{action}": _ADMIN,
    "POST /ui/queues/{queue}/{action}": _ADMIN,
    "POST /ui/workers/{worker}/{action}": _ADMIN,
    "POST /ui/crons/{group}/{name}/{action}": _ADMIN,
    "POST /ui/replan": _ADMIN,
    "POST /ui/subscriptions/{id}/pause": _ADMIN,
    "POST /ui/subscriptions/{id}/resume": _ADMIN,
    "POST /ui/subscriptions/{id}/disable": _ADMIN,
    "POST /ui/subscriptions/{id}/enable": _ADMIN,
    "POST /ui/subscriptions/{id}/ask": _ADMIN,
    "POST /ui/subscriptions/{id}/replay": _ADMIN,
    "POST /ui/subscriptions/{id}/test": _ADMIN,
    "POST /ui/deliveries/{id}/send": _ADMIN,
    "POST /ui/deliveries/{id}/stop": _ADMIN,
    "POST /ui/breakers/{breaker}/close": _ADMIN,
    # -- the admin listener
    "GET /events": _ADMIN,
    "POST /backup": _ADMIN,
    "POST /compact": _ADMIN,
    # -- Faktory's web port, which asks for its own password: that carries every right
    "GET /stats": _READ,
    "GET /busy": _READ,
    "GET /queues/{queue}": _READ,
    "GET /retries": _READ,
    "GET /scheduled": _READ,
    "GET /morgue": _READ,
    "GET /cron": _READ,
}


def roles_of(method: str, template: str) -> Roles:
    """Give the roles of which one is needed for a method of a path.

    Raises:
        InternalError: The table has no row for it.
    """
    row = f"{method} {template}"
    if row not in ROWS:
        raise InternalError(f"{row} cannot be served: anew.http.roles has no row that says who may use it")
    return ROWS[row]


def listed(roles: Roles, joint: str) -> str:
    """Write roles one after the other; that of an administrator, who needs no other one, only where it stands alone."""
    return joint.join(role for role in ROLES if role in roles - {"admin"}) or "admin"
