"""The service that is being called: books invoices, after an outage. A process of its own, standard library only.

For its first seconds nothing listens on its port, so connections are refused. Then it answers 503 for a while, as a service
does whose database is still coming up. Then it works, and takes its time over each invoice.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REFUSES_S = 4.0
"""From its start: nothing listens."""

STARTS_UP_S = 6.5
"""From its start: until then the answer is 503."""

WORK_S = 0.1
"""What it takes to book one invoice."""

CUSTOMERS = {f"C-{number}" for number in range(100, 140)}

started = time.monotonic()
booked: Counter[str] = Counter()
lock = threading.Lock()


def judge(invoice: dict[str, str]) -> tuple[int, str]:
    """Give status and text of the answer to one invoice."""
    if time.monotonic() - started < STARTS_UP_S:
        return 503, "the ledger is still starting"
    if not re.fullmatch(r"\d+\.\d\d", invoice["amount"]):
        return 422, f"amount {invoice['amount']!r} is not a sum of money"
    if invoice["customer"] not in CUSTOMERS:
        return 404, f"there is no customer {invoice['customer']}"
    return 200, "booked"


class Receiver(BaseHTTPRequestHandler):
    """``POST /`` books an invoice; ``GET /`` tells how often each has been delivered."""

    def do_POST(self) -> None:
        """Book one invoice. Delivered twice, it is still booked once: its number is the key."""
        invoice = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, text = judge(invoice)
        if status == 200:
            time.sleep(WORK_S)
            with lock:
                booked[invoice["invoice"]] += 1
        self._answer(status, {"message": text})

    def do_GET(self) -> None:
        """Show the books."""
        with lock:
            self._answer(200, dict(booked))

    def _answer(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


def main() -> None:
    """Bind at once, so that the port is known and ours; listen when the outage is over."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver, bind_and_activate=False)
    server.daemon_threads = True
    server.request_queue_size = 128
    server.server_bind()
    print(server.server_port, flush=True)
    # The demo holds the other end of stdin; when it is gone, so are we.
    threading.Thread(target=lambda: os._exit(len(sys.stdin.read())), daemon=True).start()
    time.sleep(REFUSES_S)
    server.server_activate()
    server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main()
