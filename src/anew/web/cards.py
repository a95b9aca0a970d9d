"""One policy on the page: chosen by name or given as JSON, with a control for each of its parameters."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from anew.backoff import Policy, find_preset
from anew.backoff.fields import fields_of
from anew.backoff.form import json_object
from anew.backoff.kinds import Choice, Kind
from anew.backoff.policy import MAX_POLICY_BYTES
from anew.backoff.presets.registry import ALIASES
from anew.errors import InvalidInput
from anew.web.controls import Control, control, for_a_box, read
from anew.web.parts import take_apart

JSON: Final = "json"
"""The choice of a policy that has no name."""

_SIMPLE_JITTERS: Final = ("none", "full", "equal", "even", "decorrelated")
"""Jitters that need no number and so can be put on any preset."""

_SHARED: Final = ("limit", "cap", "floor", "ceil", "deadline")

KNOWN_AS: Final = {"sidekiq": "sidekiq (up to 6.2.1)"}
"""What presets are called whose name alone would be taken for another law."""

_SUCH_AS: Final = 'an object such as {"curve": {"exponential": {"base": "1s"}}}'


@dataclass(slots=True, kw_only=True)
class Card:
    """One policy as the page shows it.

    Attributes:
        key: Its letter.
        title: What a policy without a name is called here; "" if nothing is known of it.
        choice: A preset's name or alias, or `JSON`.
        preset: The preset's own name; "" if there is none.
        policy: What it comes to; None where something does not fit.
        form: A preset's short JSON, with what was changed.
        controls: Its parameters.
        json: Its canonical JSON; what was given, where that does not fit.
        of: What the controls belong to. If the choice is another one, they say nothing.
        summary: One line about the preset.
        traps: What surprises people about it.
        error: What is wrong with it as a whole.
        restructured: It has other controls than the page that asked.
        unread: Its JSON cannot be read. A page that is open keeps the controls of the JSON before, out of reach.
        unknown: Names of the query that nothing has read.
    """

    key: str
    title: str = ""
    choice: str
    preset: str = ""
    policy: Policy | None = None
    form: dict[str, Any] = field(default_factory=dict)
    controls: list[Control] = field(default_factory=list)
    json: str = ""
    of: str = ""
    summary: str = ""
    traps: tuple[str, ...] = ()
    error: str = ""
    restructured: bool = False
    unread: bool = False
    unknown: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """What charts and tables call it."""
        name = self.title or "custom" if self.choice == JSON else KNOWN_AS.get(self.choice, self.choice[:40])
        return f"{self.key.upper()} {name}"

    @property
    def changed(self) -> bool:
        """It is a preset, but not as it comes."""
        return len(self.form) > 1

    def errors(self) -> dict[str, str]:
        """Give what is wrong by the name of the field."""
        own = {self.key: self.error} if self.error else {}
        return own | {item.name: item.error for item in self.controls if item.error}

    def kind(self) -> list[tuple[str, str]]:
        """Give the pairs that say what it is made of, without its numbers and texts."""
        return [(self.key, self.choice), *((item.name, item.text) for item in self.controls if item.options)]

    def link(self) -> list[tuple[str, str]]:
        """Give the pairs that bring this policy back; what is wrong stays in, so that a link shows the same."""
        if self.choice == JSON:
            return [(self.key, JSON), (f"{self.key}.json", self.json)]
        said = [(item.name, item.text) for item in self.controls if item.said]
        return [(self.key, self.choice), *said]


def read_card(key: str, given: Mapping[str, str]) -> Card:
    """Read one policy out of a query.

    Args:
        given: The query's texts by whole name; those of other policies are left alone.
    """
    own = {name: text for name, text in given.items() if name == key or name.startswith(f"{key}.")}
    choice, before = own.pop(key, "").strip(), own.pop(f"{key}.of", "")
    text = own.pop(f"{key}.json", None)
    if choice[:1] in ("{", "["):
        choice, text = JSON, choice
    if choice == JSON:
        return _read_json(key, text, before, own)
    moved = bool(before) and before not in (choice, ALIASES.get(choice))
    card = _read_preset(key, choice, {} if moved else own)
    card.restructured = moved
    return card


def _unknown(card: Card, own: Mapping[str, str]) -> list[str]:
    return [name for name in own if name not in {item.name for item in card.controls}]


# ---- by name


def _read_preset(key: str, choice: str, own: Mapping[str, str]) -> Card:
    card = Card(key=key, choice=choice, of=choice)
    try:
        preset = find_preset(choice)
    except InvalidInput as error:
        card.error = str(error)
        return card
    card.preset = card.of = preset.name
    card.summary, card.traps = preset.summary, preset.traps
    form: dict[str, Any] = {"preset": preset.name}
    for name, kind in preset.parameters.items():
        made, value = _parameter(kind, f"{key}.{name}", own, preset.defaults[name])
        card.controls.append(made)
        if made.said and not made.error:
            form[name] = kind.write(value)
    card.form, card.policy = form, _build(card, form)
    _add_shared(card, form, own, taken=set(preset.parameters))
    card.unknown = _unknown(card, own)
    if card.changed:
        card.summary = f"After {card.label[2:]}, changed."
    if card.policy is not None:
        card.json = compact(card.policy)
    if card.policy is not None and "jitter" in card.form:
        for item, kind in zip(card.controls, preset.parameters.values(), strict=False):
            item.idle = _does_nothing(item, kind, card)
    return card


def _parameter(kind: Any, name: str, own: Mapping[str, str], default: Any) -> tuple[Control, Any]:
    leaf = name.rpartition(".")[2]
    known = None if default is None else kind.read(default, leaf)
    return control(kind, name, own.get(name), known, placeholder="its own")


def _add_shared(card: Card, form: dict[str, Any], own: Mapping[str, str], taken: set[str]) -> None:
    """Add the fields that any preset can be given beside its own parameters, and build the policy with them."""
    base = card.policy
    if base is None:
        return
    said: dict[str, Any] = {}
    for name in _SHARED:
        if name in taken:
            continue
        attribute, kind = fields_of(Policy)[name]
        path, seldom = f"{card.key}.{name}", name not in ("limit", "cap")
        default = getattr(base, attribute)
        made, value = control(kind, path, own.get(path), default, more=seldom, placeholder="none")
        card.controls.append(made)
        if made.said and not made.error:
            said[name] = kind.write(value)
    if "jitter" not in taken:
        said |= _jitter(card, base, own)
    if said:
        card.form = form | said
        card.policy = _build(card, card.form)


def _jitter(card: Card, base: Policy, own: Mapping[str, str]) -> dict[str, Any]:
    name = f"{card.key}.jitter"
    own_name = base.to_json().get("jitter", "none")
    label = own_name if isinstance(own_name, str) else next(iter(own_name))
    made, chosen = control(Choice(*_SIMPLE_JITTERS), name, own.get(name), "")
    made.options = (("", f"its own ({label})"), *made.options)
    card.controls.append(made)
    return {"jitter": chosen} if made.said and not made.error else {}


# ---- as JSON


def _read_json(key: str, text: str | None, before: str, own: Mapping[str, str]) -> Card:
    card = Card(key=key, choice=JSON, json=text or "", of=before)
    if text is None and before and not before.startswith(JSON):
        # A preset was on the page, and all its parts are wanted.
        start = _read_preset(key, before, own)
        card.json, card.restructured, own = start.json, True, {}
    elif text is None:
        card.json = compact(Policy.from_json("even"))
    elif before and before != _of(text):
        # The text was edited: what the controls hold belongs to the text before.
        card.restructured, own = True, {}
    policy = _parse(card)
    if policy is None:
        # Whatever can be read next has controls that this page does not have yet.
        card.unread, card.of = True, before or JSON
        card.restructured = card.restructured and not before.startswith(JSON)
        return card
    taken = take_apart(policy, key, own)
    card.controls, card.restructured = taken.controls, card.restructured or taken.changed
    card.unknown = [] if taken.changed else _unknown(card, own)
    card.policy = _build(card, taken.tree) if own else policy
    if card.policy is not None:
        card.json = compact(card.policy)
    card.of = _of(card.json)
    return card


def _of(text: str) -> str:
    return f"{JSON}:{hashlib.sha256(text.strip().encode()).hexdigest()[:12]}"


def _parse(card: Card) -> Policy | None:
    if not card.json.strip():
        card.error = f"policy: the box is empty; expected {_SUCH_AS}"
        return None
    if len(card.json) > MAX_POLICY_BYTES:
        card.error = f"policy: {len(card.json)} characters are too many; expected at most {MAX_POLICY_BYTES}"
        return None
    try:
        value = decoded(card.json)
    except RecursionError:
        card.error = "policy: this is not JSON yet: nested too deeply"
    except json.JSONDecodeError as error:
        card.error = f"policy: this is not JSON yet: line {error.lineno}, column {error.colno}: {error.msg}"
    except ValueError as error:  # so are msgspec's
        card.error = f"policy: this is not JSON yet: {error}"
    else:
        return _build(card, value)
    return None


def _build(card: Card, form: Any) -> Policy | None:
    """Build the policy; what does not fit is told beside the field that it is about, where there is one."""
    try:
        return Policy.from_json(form)
    except InvalidInput as error:
        path = f"{card.key}.{error.field}"
        for item in card.controls:
            if item.name == path and not item.error:
                item.error = for_a_box(error)
                return None
        card.error = card.error or (str(error) if card.choice == JSON else for_a_box(error))
        return None


# ---- parameters of a preset that do nothing: those of its own jitter, once another one has been put in its place


def _does_nothing(item: Control, kind: Kind, card: Card) -> bool:
    """Tell whether a parameter could be anything: the policy would be the same."""
    name, tried = item.name.partition(".")[2], 0
    for text in item.others:
        try:
            made = Policy.from_json({**card.form, name: kind.write(read(kind, text, name))})
        except InvalidInput:
            continue
        if made != card.policy:
            return False
        tried += 1
    return tried > 0


# ---- a policy's JSON as the page writes and reads it


def compact(policy: Policy) -> str:
    """Give a policy's canonical JSON in one line that is easy to read."""
    return json.dumps(policy.to_json(), ensure_ascii=False)


def decoded(text: str) -> Any:
    """Give the value that a text stands for.

    Raises:
        ValueError: It is no JSON, or has an object with the same name twice.
        RecursionError: It is nested too deeply.
    """
    json.loads(text, object_pairs_hook=json_object)
    return msgspec.json.decode(text)
