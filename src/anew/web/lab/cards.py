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
from anew.web.lab.controls import Control, blame, control, for_a_box, read
from anew.web.lab.parts import take_apart

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
    card.form = {"preset": preset.name}
    for name, kind in preset.parameters.items():
        default = preset.defaults[name]
        known = None if default is None else kind.read(default, name)
        _add(card, name, kind, own, known, placeholder="its own")
    card.policy = _build(card, card.form)
    if card.policy is not None:
        _add_shared(card, card.policy, own)
    if card.changed:
        card.summary = f"{card.label[2:]}, changed."
    if card.policy is not None:
        card.json = compact(card.policy)
    if card.policy is not None and "jitter" in card.form:
        for item, kind in zip(card.controls, preset.parameters.values(), strict=False):
            item.idle = _does_nothing(item, kind, card)
    return card


def _add(card: Card, name: str, kind: Kind, own: Mapping[str, str], default: Any, **rest: Any) -> Control:
    """Add a field's control to a card, and to its form what was said there."""
    path = f"{card.key}.{name}"
    made, value = control(kind, path, own.get(path), default, **rest)
    card.controls.append(made)
    if made.said and not made.error:
        card.form[name] = kind.write(value)
    return made


def _add_shared(card: Card, base: Policy, own: Mapping[str, str]) -> None:
    """Add the fields that any preset can be given beside its own parameters, and build the policy with them."""
    taken, said = {item.name.partition(".")[2] for item in card.controls}, len(card.form)
    for name in _SHARED:
        if name not in taken:
            attribute, kind = fields_of(Policy)[name]
            seldom = name not in ("limit", "cap")
            _add(card, name, kind, own, getattr(base, attribute), more=seldom, placeholder="none")
    if "jitter" not in taken:
        jitter = base.to_json().get("jitter", "none")
        label = jitter if isinstance(jitter, str) else next(iter(jitter))
        made = _add(card, "jitter", Choice(*_SIMPLE_JITTERS), own, "")
        made.options = (("", f"its own ({label})"), *made.options)
    if len(card.form) > said:
        card.policy = _build(card, card.form)


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
    card.policy = _build(card, taken.tree) if own else policy
    if card.policy is not None:
        card.json = compact(card.policy)
    card.of = _of(card.json)
    return card


def compact(policy: Policy) -> str:
    """Give a policy's canonical JSON in one line that is easy to read."""
    return json.dumps(policy.to_json(), ensure_ascii=False)


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
        json.loads(card.json, object_pairs_hook=json_object)  # it alone tells a name that stands there twice
        value = msgspec.json.decode(card.json)
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
        if not blame(card.controls, f"{card.key}.{error.field}", error):
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
