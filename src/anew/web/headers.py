"""What every answer to a browser carries, so that a page can do nothing but what this server gave it to do."""

from __future__ import annotations

from typing import Final

from anew.net.seam import Headers

CONTENT_SECURITY_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing from elsewhere, nothing inline: text that slipped through unescaped could still not run."""

_ALWAYS: Final[Headers] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY),
    (b"x-content-type-options", b"nosniff"),
    # Other sites are told nothing. Our own are: without a referrer a browser says of a form that it comes from nowhere.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

PAGE: Final[Headers] = (*_ALWAYS, (b"cache-control", b"no-store"))
"""For pages: one address gives a whole page or a part of it, so nobody may keep either."""

FILE: Final[Headers] = (*_ALWAYS, (b"cache-control", b"public, max-age=31536000, immutable"))
"""For files under an address that holds their hash: they never change."""

HTML: Final = b"text/html; charset=utf-8"
