"""What the wire refuses by itself, with the words that the peer reads and the word that is counted."""

from __future__ import annotations

from anew.errors import MalformedRequest
from anew.net.seam import WireLimits


class Refused(MalformedRequest):
    """A request that is answered by the wire itself, after which the connection closes.

    Args:
        status: HTTP status of the answer.
        reason: Short fixed word for the counter.
        message: What was expected; goes into the answer's body, so it holds nothing from the peer.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


def malformed(message: str) -> Refused:
    """Make the refusal of bytes that are no HTTP."""
    return Refused(400, "malformed", message)


def bad_chunk() -> Refused:
    """Make the refusal of a body whose chunks cannot be told apart."""
    return Refused(400, "chunk", "a chunk is a hexadecimal size, CRLF, that many bytes and CRLF")


def bad_encoding() -> Refused:
    """Make the refusal of a Transfer-Encoding other than ``chunked``."""
    return Refused(400, "transfer_encoding", "the only Transfer-Encoding is one chunked")


def bad_host() -> Refused:
    """Make the refusal of no Host, two, or one that cannot be a host."""
    return Refused(400, "host", "a request names exactly one valid Host")


def bad_length() -> Refused:
    """Make the refusal of a Content-Length that is not one plain number."""
    return Refused(400, "content_length", "a request has one Content-Length, a plain decimal number")


def bad_target() -> Refused:
    """Make the refusal of a request target that is neither path nor URL."""
    return Refused(400, "target", "a request target is a path, or an http URL without user and fragment")


def bad_version() -> Refused:
    """Make the refusal of a version that is HTTP's, but not spoken here."""
    return Refused(505, "version", "this port speaks HTTP/1.0, HTTP/1.1 and HTTP/2")


def two_framings() -> Refused:
    """Make the refusal of a body that two servers could end at two places."""
    return Refused(400, "framing", "a request has a Content-Length or a Transfer-Encoding, not both")


def large_body(limits: WireLimits) -> Refused:
    """Make the refusal of a body above the limit."""
    return Refused(413, "body_size", f"a request body has at most {limits.max_body} bytes")


def large_head(limits: WireLimits) -> Refused:
    """Make the refusal of too many header lines, or too long ones."""
    return Refused(
        431, "head_size", f"a head has at most {limits.max_headers} lines and {limits.max_head} bytes"
    )


def large_target(limits: WireLimits) -> Refused:
    """Make the refusal of a request target above the limit."""
    return Refused(414, "target_size", f"a request target has at most {limits.max_target} bytes")
