"""Expressions in jq's language over payloads, evaluated in processes that can be ended."""

from __future__ import annotations

from anew.jq.expressions import MOST_TEXT, Expressions

__all__ = ["MOST_TEXT", "Expressions"]
