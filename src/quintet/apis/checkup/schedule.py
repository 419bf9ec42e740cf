"""Cron schedules in a time zone. Pure: the caller passes the time.

The syntax is that of a CronJob: five fields, names of months and days, `@daily` and the like. Local times
that a change of the clocks skips or repeats run exactly once: a skipped one as much later as the clocks were
put forward, a repeated one the first time. Schedules of every hour (`*` or `*/n` as hours) run whenever the
clock shows one of their times.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import product
from typing import Final, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTH_LENGTHS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
T = TypeVar("T")


class ScheduleError(ValueError):
    """Raised for a text that is not a schedule; says why."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    lowest: int
    highest: int
    names: tuple[str, ...] = ()


_MINUTES = _Field("minute", 0, 59)
_HOURS = _Field("hour", 0, 23)
_DAYS_OF_MONTH = _Field("day of the month", 1, 31)
_MONTHS_OF_YEAR = _Field("month", 1, 12, _MONTHS)
_DAYS_OF_WEEK = _Field("day of the week", 0, 7, _DAYS)
_FIELDS: Final = (_MINUTES, _HOURS, _DAYS_OF_MONTH, _MONTHS_OF_YEAR, _DAYS_OF_WEEK)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A parsed schedule and its time zone."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """Sunday is 0."""
    any_day: bool
    """Whether the day of the month or the day of the week is `*`: then both must match, else one of them."""
    every_hour: bool
    """Whether the hours are `*` or `*/n`."""
    zone: ZoneInfo

    def next_after(self, moment: datetime) -> datetime:
        """Return the first time of the schedule after a moment, in UTC."""
        return next(self.times_after(moment))

    def times_after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the times of the schedule after a moment, in UTC and in order."""
        # A skipped time belongs to the day before where the clocks are put forward at midnight.
        day = moment.astimezone(self.zone).date() - _DAY
        while True:
            for found in self._times_on(day, moment):
                moment = found
                yield found
            day += _DAY

    def last_until(self, moment: datetime) -> datetime:
        """Return the last time of the schedule that is not after a moment, in UTC."""
        day = moment.astimezone(self.zone).date() + _DAY
        while True:
            for found in self._times_on(day, moment, backwards=True):
                return found
            day -= _DAY

    def _times_on(self, day: date, moment: datetime, *, backwards: bool = False) -> Iterator[datetime]:
        """Yield the times of a local day after a moment; backwards, those that are not after it."""
        if not self._is_on(day):
            return
        start = self._find_start(day)
        if start is None:
            found = self._times_on_change(day)
            yield from (at for at in _iterate(found, backwards) if (at <= moment) is backwards)
            return
        for hour in _iterate(self.hours, backwards):
            begin = start + hour * _HOUR
            if begin > moment if backwards else begin + _HOUR <= moment:
                continue
            for minute in _iterate(self.minutes, backwards):
                at = begin + minute * _MINUTE
                if (at <= moment) is backwards:
                    yield at

    def _find_start(self, day: date) -> datetime | None:
        """Return when a local day starts, in UTC; None if the clocks are changed on that day."""
        start, end = (datetime.combine(each, time(), self.zone) for each in (day, day + _DAY))
        return start.astimezone(UTC) if start.utcoffset() == end.utcoffset() else None

    def _times_on_change(self, day: date) -> list[datetime]:
        """Return the times of a local day on which the clocks are changed."""
        locals_ = [
            datetime.combine(day, time(hour, minute), self.zone)
            for hour, minute in product(self.hours, self.minutes)
        ]
        found = {local.astimezone(UTC) for local in locals_}
        if self.every_hour:
            second = {local.replace(fold=1).astimezone(UTC) for local in locals_}
            found = {moment for moment in found | second if self._shows(moment)}
        return sorted(found)

    def _is_on(self, day: date) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (
            (of_month and of_week) if self.any_day else (of_month or of_week)
        )

    def _shows(self, moment: datetime) -> bool:
        """Return whether the clocks really show a time of the schedule at a moment."""
        local = moment.astimezone(self.zone)
        return local.hour in self.hours and local.minute in self.minutes and self._is_on(local.date())


@lru_cache(maxsize=1024)
def parse(text: str, zone: str = "") -> Schedule:
    """Return a schedule; raise `ScheduleError` if the text or the name of the time zone is invalid."""
    words = _MACROS.get(text.strip().lower(), text).split()
    if text.strip().startswith("@") and len(words) == 1:
        raise ScheduleError(f"must be five fields or one of {', '.join(_MACROS)}")
    if words and re.match("(CRON_)?TZ=", words[0]):
        raise ScheduleError("must not contain a time zone: set spec.timeZone")
    if len(words) != len(_FIELDS):
        raise ScheduleError(
            "must have five fields (minute, hour, day of the month, month, day of the week), not "
            f"{len(words)}"
        )
    minutes, hours, days, months, weekdays = map(_values, _FIELDS, words)
    any_day = _is_star(words[2]) or _is_star(words[4])
    if any_day and not any(day <= _MONTH_LENGTHS[month - 1] for day, month in product(days, months)):
        raise ScheduleError("never comes: no such month has such a day")
    return Schedule(
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=frozenset(days),
        months=frozenset(months),
        weekdays=frozenset(day % 7 for day in weekdays),
        any_day=any_day,
        every_hour=words[1].startswith(("*", "?")),
        zone=find_zone(zone),
    )


def find_zone(name: str) -> ZoneInfo:
    """Return a time zone, by default UTC; raise `ScheduleError` if there is none of this name."""
    try:
        if name.lower() == "local":
            raise ValueError(name)
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ScheduleError("is not the name of a time zone such as Europe/Berlin or UTC") from error


def _iterate(items: Sequence[T], backwards: bool) -> Iterator[T]:
    return reversed(items) if backwards else iter(items)


def _is_star(word: str) -> bool:
    return any(part in ("*", "?") for part in word.split(","))


def _values(field: _Field, word: str) -> set[int]:
    """Return the values that a field of a schedule allows."""
    return {value for part in word.split(",") for value in _range(field, part)}


def _range(field: _Field, part: str) -> range:
    span, slash, step = part.partition("/")
    lowest, dash, highest = span.partition("-")
    if span in ("*", "?"):
        # Sunday is both 0 and 7: as a range, the week ends on Saturday.
        first, last = field.lowest, min(field.highest, 6) if field is _DAYS_OF_WEEK else field.highest
    else:
        first = _number(field, lowest)
        last = _number(field, highest) if dash else (field.highest if slash else first)
    width = _digits(field, step) if slash else 1
    if width < 1:
        raise ScheduleError(f"{field.name}: the step in '{part}' must be at least 1")
    if last < first:
        raise ScheduleError(f"{field.name}: the range '{part}' ends before it begins")
    return range(first, last + 1, width)


def _number(field: _Field, text: str) -> int:
    if text.lower() in field.names:
        return field.names.index(text.lower()) + field.lowest
    value = _digits(field, text)
    if not field.lowest <= value <= field.highest:
        raise ScheduleError(f"{field.name}: {text} is not between {field.lowest} and {field.highest}")
    return value


def _digits(field: _Field, text: str) -> int:
    if re.fullmatch("[0-9]{1,4}", text) is None:
        raise ScheduleError(f"{field.name}: '{text}' is not a number{' or a name' if field.names else ''}")
    return int(text)
