"""The policy that a job brings."""

from __future__ import annotations

import msgspec
import pytest

from anew.errors import InvalidPolicy
from anew.fwp.enterprise import custom_of
from anew.fwp.policies import _own_policy


def test_a_policy_that_is_none_is_named_by_its_member() -> None:
    with pytest.raises(InvalidPolicy, match=r"^custom\.anew_policy: ") as refused:
        _own_policy(custom_of(msgspec.Raw(b'{"anew_policy":"no such preset"}')), None)
    assert refused.value.field == "custom.anew_policy"
