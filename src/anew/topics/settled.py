"""From settings to what holds for topics: for a server, for a deliverer, and for a program on a file."""

from __future__ import annotations

import secrets
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from anew.config import Webhooks
from anew.errors import InvalidConfig, InvalidInput
from anew.topics.delivery_policy import layer_of
from anew.topics.guard import GuardSettings
from anew.topics.keys import Box, load_or_make_secret
from anew.topics.terms import TopicTerms


def guard_of(chosen: Webhooks) -> GuardSettings:
    """Give which webhooks may be delivered to."""
    return GuardSettings(
        allow_http=chosen.allow_http, allow_cidrs=chosen.allow_cidrs, allow_hosts=chosen.allow_hosts
    )


def terms_of(chosen: Webhooks, key: Path | None) -> TopicTerms:
    """Give what holds for topics.

    Args:
        chosen: The settings.
        key: Where the secret of the store's keys is; None: the store is in memory.

    Raises:
        InvalidConfig: The delivery policy does not fit.
    """
    policy = (chosen.policy or "{}").encode()
    try:
        layer_of(msgspec.json.decode(policy))
    except (InvalidInput, msgspec.DecodeError) as error:
        raise InvalidConfig(
            f"--delivery-policy: {error}", field="delivery-policy", value=chosen.policy
        ) from error
    return TopicTerms(
        box=Box(lambda: secrets.token_bytes(32) if key is None else load_or_make_secret(key)),
        policy=policy,
        confirmation=chosen.confirmation,
        public_url=(chosen.public_url or "").rstrip("/"),
        origin=urlsplit(chosen.public_url or "").netloc or "anew",
    )
