"""The lab's page alone, without any store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from anew import logs
from anew.app.certificates import certificates_of
from anew.app.running import address_of, cannot_listen, run_loop, stop_signals
from anew.app.settled import api_settings, wire_limits
from anew.config import Fwp, Listen, Settings, require_safe_bind
from anew.http.api import Api
from anew.http.router import Router
from anew.net.certificate import Certificate
from anew.net.listener import NetServer
from anew.net.port import HttpPort
from anew.net.seam import WireCounters
from anew.web import assets
from anew.web.lab import routes as lab
from anew.web.lab.helper_process import HelperProcess


def serve_lab(listen: Listen, ready: Callable[[str], None] | None = None) -> int:
    """Serve the lab alone, without any store, until told to stop.

    Args:
        listen: Where, and for whom.
        ready: Called with the page's address once it is served.

    Returns:
        The process's exit code.

    Raises:
        InvalidConfig: The bind is not safe, or its certificate cannot be used.
        Unavailable: The address cannot be listened on.
    """
    settings = Settings(listen=listen, fwp=Fwp(off=True))
    require_safe_bind(settings)
    logs.set_up("auto", "warn")
    return run_loop(_serve_lab(settings, certificates_of(settings), ready))


async def _serve_lab(
    settings: Settings, certificates: Mapping[str, Certificate], ready: Callable[[str], None] | None
) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in stop_signals():
        loop.add_signal_handler(number, stopping.set)
    counters = WireCounters()
    helper = HelperProcess()
    router = Router()
    router.add("GET", "/", lab.to_the_lab, streams=True)
    lab.add_routes(router, helper)
    assets.add_routes(router)
    server = NetServer(wire_limits(settings), counters)
    http = HttpPort(server, Api(api_settings(settings, secure=bool(certificates)), counters, router))
    try:
        host, port = await server.listen(
            settings.listen.host, settings.listen.port, http.connection, tls=certificates.get("primary")
        )
    except OSError as error:
        raise cannot_listen(settings.listen.host, settings.listen.port, error) from error
    if ready is not None:
        scheme = "https" if certificates else "http"
        ready(f"{scheme}://{address_of(host, port)}{lab.LAB}")
    await stopping.wait()
    server.close()
    await helper.close()
    return 0
