"""What both wires ask of a request's head, and how they refuse it: target, host, sizes."""

from __future__ import annotations

import re

from anew.net.seam import Refusal, WireLimits, refusal

Rule = tuple[int, str, str]
"""How the breach of a rule is answered: status, a short fixed word for the counter, and what was expected."""

bad_host = (400, "host", "a request names exactly one valid host")
bad_target = (400, "target", "a request target is a path, or an http URL without user and fragment")
no_proxy = (501, "method", "this is no proxy")
too_many_bodies = (503, "bodies", "too many bodies are coming in; try again in a second")

max_length_digits = 18
above_every_limit = 1 << 64
"""What a Content-Length with more digits counts as. It is never read as a number: of more than 4,300 digits `int` makes none."""

path_target = re.compile(rb"/[!\"$-~]*")
_host = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]*)(?::0*([0-9]{0,5}))?")
"""A host and perhaps a port (RFC 3986, 3.2), without the comma."""


def large_body(limits: WireLimits) -> Rule:
    """Give the rule about the size of bodies."""
    return 413, "body_size", f"a request body has at most {limits.max_body} bytes"


def large_head(limits: WireLimits) -> Rule:
    """Give the rule about the number and the size of header lines."""
    return 431, "head_size", f"a head has at most {limits.max_headers} lines and {limits.max_head} bytes"


def large_target(limits: WireLimits) -> Rule:
    """Give the rule about the size of request targets."""
    return 414, "target_size", f"a request target has at most {limits.max_target} bytes"


def answer_to(rule: Rule) -> Refusal:
    """Give the answer to who breaks a rule."""
    status, reason, message = rule
    return refusal(status, message, reason)


def stated_length(value: bytes) -> int:
    """Give the length that a Content-Length of nothing but digits states; leading zeros say nothing."""
    digits = value.lstrip(b"0")
    return int(digits or b"0") if len(digits) <= max_length_digits else above_every_limit


def is_target(target: bytes, method: bytes) -> bool:
    """Say whether a target is a path, or the whole server, of which OPTIONS may ask."""
    return path_target.fullmatch(target) is not None or (target == b"*" and method == b"OPTIONS")


def is_host(value: bytes) -> bool:
    """Say whether a value is a host, perhaps with a port that can be one."""
    found = _host.fullmatch(value)
    return found is not None and int(found[1] or b"0") <= 65535
