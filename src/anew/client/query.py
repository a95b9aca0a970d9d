"""Which jobs are meant: the filters that list, count, patch, delete and redrive share."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from urllib.parse import quote

from anew.client.requests import comma_set
from anew.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """A set of conditions that must all hold. Nothing set means every job.

    Attributes:
        id, status, queue, type: Any of these values; empty means all.
        priority, ready_at, attempts: A number or an inclusive range: ``"7"``, ``"10..20"``, ``"..5"``,
            ``"9.."``.

    Raises:
        InvalidInput: A value is empty or holds a comma: the server would read it as no condition or as two.
    """

    id: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    type: tuple[str, ...] = ()
    priority: str | None = None
    ready_at: str | None = None
    attempts: str | None = None

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            for item in (value,) if isinstance(value, str) else value:
                if not item.strip() or "," in item:
                    raise InvalidInput(
                        f"{name}: {item!r} is not valid; expected a value without commas",
                        field=name,
                        value=item,
                    )

    def given(self) -> dict[str, str | tuple[str, ...]]:
        """The conditions that are set."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value not in (None, ())}

    def also(self, *, id: tuple[str, ...] = (), status: tuple[str, ...] = ()) -> Filters:
        """The same conditions, and these in place of its own where they are given."""
        return dataclasses.replace(self, id=id or self.id, status=status or self.status)

    def query(self) -> dict[str, str]:
        """The conditions as query parameters, values percent-encoded."""
        return {
            name: quote(value, safe="") if isinstance(value, str) else comma_set(value)
            for name, value in self.given().items()
        }

    def insist(self, *, everything: bool) -> None:
        """Make sure that a change of all jobs is meant where no condition is set.

        Raises:
            InvalidInput: It has not been said.
        """
        if not self.given() and not everything:
            raise InvalidInput("filters: none given; expected at least one condition, or everything=True")
