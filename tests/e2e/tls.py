"""A small TLS server with certificates that only these tests trust."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from pathlib import Path

CERTIFICATES = Path(__file__).parent / "certificates"

_ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\nConnection: close\r\n\r\n{"status":"ok"}'


def path(name: str) -> str:
    """The path of one of the files."""
    return str(CERTIFICATES / name)


def pair(folder: Path, name: str = "server") -> dict[str, Path]:
    """The flags of a server that shows one of the certificates; its key is closed to others, as git keeps none."""
    folder.mkdir(parents=True, exist_ok=True)
    flags = {"tls_cert": folder / f"{name}.pem", "tls_key": folder / f"{name}.key"}
    for file in flags.values():
        file.write_bytes((CERTIFICATES / file.name).read_bytes())
        file.chmod(0o600)
    return flags


def trusting(*alpn: str, certified: bool = False) -> ssl.SSLContext:
    """What a client has that trusts these servers.

    Args:
        alpn: The protocols that it offers.
        certified: It has a certificate of its own.
    """
    context = ssl.create_default_context(cafile=path("root.pem"))
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if certified:
        context.load_cert_chain(path("client.pem"), path("client.key"))
    return context


class TlsServer:
    """Answers every request with ``{"status": "ok"}`` over TLS.

    Args:
        asks: Whether it asks for a client certificate.

    Attributes:
        url: Its address.
        clients: The common name of each client that has been answered; "" for one without a certificate.
    """

    def __init__(self, *, asks: bool = False) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(path("server.pem"), path("server.key"))
        if asks:
            self._context.load_verify_locations(path("root.pem"))
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"
        self.clients: list[str] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            with peer, contextlib.suppress(OSError):
                self._answer(peer)

    def _answer(self, peer: socket.socket) -> None:
        peer.settimeout(10)
        with self._context.wrap_socket(peer, server_side=True) as secure:
            shown = secure.getpeercert() or {}
            names = [value for part in shown.get("subject", ()) for _, value in part]
            if secure.recv(65536):
                self.clients.append("".join(map(str, names)))
                secure.sendall(_ANSWER)
