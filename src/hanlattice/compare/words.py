"""The events of a comparison as lines for a reader, with rich or without."""

from __future__ import annotations

from hanlattice.events import Event


class Words:
    """Gives the lines that an event is worth; what all seeds of a row have to note is said once."""

    def __init__(self) -> None:
        self._noted: set[str] = set()

    def of(self, event: Event) -> list[str]:
        say = getattr(self, f"_{event['event']}", None)
        return [] if say is None else say(event)

    def _plan(self, event: Event) -> list[str]:
        kept = f", {event['kept']} of them done already" if event["kept"] else ""
        return [f"{event['runs']} runs{kept}, on {', '.join(event['devices'])}"]

    def _start(self, event: Event) -> list[str]:
        new = [notice for notice in event["notices"] if notice not in self._noted]
        self._noted.update(new)
        return [f"note: {notice}" for notice in new]

    def _notice(self, event: Event) -> list[str]:
        return [f"note: {event['text']}"]

    def _again(self, event: Event) -> list[str]:
        return [f"{event['run']}: {event['reason']}; it is tried again, alone"]

    def _failed(self, event: Event) -> list[str]:
        return [f"{event['run']} failed: {event['reason']}"]

    def _finished(self, event: Event) -> list[str]:
        test = f", test F1 {100 * event['test']:.2f}" if "test" in event else ""
        where = f"epoch {event['epoch']}, {event['seconds']:,.0f} s on {event['device']}"
        return [f"{event['run']}: dev F1 {100 * event['dev']:.2f}{test}, {where}"]

    def _rates(self, event: Event) -> list[str]:
        train, decode = (event[what]["sentences_per_second"] for what in ("train", "decode"))
        return [f"{event['run']}: trains {train:,.0f} and decodes {decode:,.0f} sentences/s"]
