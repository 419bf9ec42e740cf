"""Cron schedules against a clock that shows every minute of two years."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest

from quintet.apis.checkup.schedule import ScheduleError, parse

START = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2028, 1, 1, tzinfo=UTC)
QUARTER = timedelta(minutes=15)
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Cairo",
)


@cache
def wall_clock(zone: str) -> list[datetime]:
    """What a clock in a time zone shows every quarter of an hour for two years, with the UTC offset."""
    there, count = ZoneInfo(zone), (END - START) // QUARTER
    return [(START + number * QUARTER).astimezone(there) for number in range(count)]


@cache
def existing_minutes(zone: str) -> set[tuple[date, int, int]]:
    return {(shown.date(), shown.hour, shown.minute) for shown in wall_clock(zone)}


def times(text: str, zone: str, start: datetime = START, end: datetime = END) -> list[datetime]:
    def until() -> Iterator[datetime]:
        for moment in parse(text, zone).times_after(start - timedelta(seconds=1)):
            if moment >= end:
                return
            yield moment

    return list(until())


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("text", ["*/15 * * * *", "0 */2 * * *", "30 * * * 1", "15,45 * 1 * *"])
def test_schedule_of_every_hour_runs_whenever_the_clock_shows_a_matching_time(text: str, zone: str):
    minutes, hours = {
        "*/15 * * * *": ({0, 15, 30, 45}, set(range(24))),
        "0 */2 * * *": ({0}, set(range(0, 24, 2))),
        "30 * * * 1": ({30}, set(range(24))),
        "15,45 * 1 * *": ({15, 45}, set(range(24))),
    }[text]
    expected = [
        shown.astimezone(UTC)
        for shown in wall_clock(zone)
        if shown.minute in minutes
        and shown.hour in hours
        and (text[-1] == "*" or shown.isoweekday() == 1)
        and (" 1 * *" not in text or shown.day == 1)
    ]
    assert times(text, zone) == expected


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(("hour", "minute"), [(0, 0), (1, 30), (2, 15), (2, 30), (3, 0), (12, 0), (23, 45)])
def test_fixed_time_runs_once_on_each_local_day_of_two_years(zone: str, hour: int, minute: int):
    there = ZoneInfo(zone)
    shown = [moment.astimezone(there) for moment in times(f"{minute} {hour} * * *", zone)]
    per_day = Counter(moment.date() for moment in shown)
    existing = existing_minutes(zone)
    days = {day for day, _, _ in existing}
    assert set(per_day.values()) == {1}
    assert len(days - set(per_day)) <= 1, "only the day that the two years begin in the middle of"
    moved = [moment for moment in shown if (moment.hour, moment.minute) != (hour, minute)]
    assert all((moment.date(), hour, minute) not in existing for moment in moved), "skipped times only"
    assert all(moment.fold == 0 for moment in shown), "a repeated time runs the first time"


def test_skipped_time_runs_as_much_later_as_the_clocks_were_put_forward():
    found = times(
        "30 2 * * *", "Europe/Berlin", datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 3, 31, tzinfo=UTC)
    )
    assert [moment.isoformat()[:16] for moment in found] == [
        "2026-03-28T01:30", "2026-03-29T01:30", "2026-03-30T00:30",
    ]  # fmt: skip
    assert found[1].astimezone(ZoneInfo("Europe/Berlin")).hour == 3


def test_midnight_that_the_clocks_skip_runs_at_one():
    # Cairo puts the clocks forward at midnight.
    found = times(
        "@daily", "Africa/Cairo", datetime(2026, 4, 23, tzinfo=UTC), datetime(2026, 4, 26, tzinfo=UTC)
    )
    assert [moment.isoformat()[:16] for moment in found] == [
        "2026-04-23T22:00",
        "2026-04-24T21:00",
        "2026-04-25T21:00",
    ]


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("0 0 29 2 *", "2026-01-01T00:00", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("0 0 29 2 *", "2096-03-01T00:00", ["2104-02-29T00:00"]),
        ("0 0 13 * 5", "2026-02-01T00:00", ["2026-02-06T00:00", "2026-02-13T00:00", "2026-02-20T00:00"]),
        ("0 0 */2 * 1", "2026-06-01T00:00", ["2026-06-03T00:00", "2026-06-05T00:00"]),
        ("0 0 1 jan-mar/2 *", "2026-01-02T00:00", ["2026-03-01T00:00", "2027-01-01T00:00"]),
        ("0 12 * * SAT,7", "2026-01-01T00:00", ["2026-01-03T12:00", "2026-01-04T12:00", "2026-01-10T12:00"]),
        ("50/4 8 * * ?", "2026-01-01T00:00", ["2026-01-01T08:50", "2026-01-01T08:54", "2026-01-01T08:58"]),
        ("@hourly", "2026-01-01T00:00", ["2026-01-01T01:00", "2026-01-01T02:00"]),
        ("@yearly", "2026-01-01T00:00", ["2027-01-01T00:00"]),
    ],
)
def test_schedule_has_these_times(text: str, start: str, expected: list[str]):
    found = parse(text).times_after(datetime.fromisoformat(start).replace(tzinfo=UTC))
    assert [next(found).isoformat()[:16] for _ in expected] == expected


def test_day_of_month_with_step_and_day_of_week_need_only_one_match_like_cronjob():
    # `*/2` is not `*`: CronJob then runs on either day.
    days = {moment.day for moment in times("0 0 */2 * 1", "UTC", START, datetime(2026, 2, 1, tzinfo=UTC))}
    assert days == {*range(1, 32, 2), 5, 12, 19, 26}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("text", ["*/15 * * * *", "30 2 * * *", "0 0 29 2 *", "15 1 1 * 0"])
def test_last_until_and_next_after_enclose_every_moment(text: str, zone: str):
    schedule = parse(text, zone)
    for number in range(400):
        moment = START + timedelta(hours=number * 43, minutes=number * 7)
        last, following = schedule.last_until(moment), schedule.next_after(moment)
        assert last <= moment < following
        assert schedule.next_after(last) == following
        assert schedule.last_until(following) == following


@pytest.mark.parametrize(
    ("text", "zone", "problem"),
    [
        ("", "", "must have five fields"),
        ("* * * *", "", "must have five fields"),
        ("0 * * * * *", "", "not 6"),
        ("60 * * * *", "", "minute: 60 is not between 0 and 59"),
        ("* 24 * * *", "", "hour: 24 is not between 0 and 23"),
        ("* * 0 * *", "", "day of the month: 0 is not between 1 and 31"),
        ("* * * foo *", "", "month: 'foo' is not a number or a name"),
        ("* * * * 8", "", "day of the week: 8 is not between 0 and 7"),
        ("*/0 * * * *", "", "the step in '*/0' must be at least 1"),
        ("5-1 * * * *", "", "the range '5-1' ends before it begins"),
        ("1- * * * *", "", "minute: '' is not a number"),
        ("-1 * * * *", "", "minute: '' is not a number"),
        ("1/2/3 * * * *", "", "minute: '2/3' is not a number"),
        ("² * * * *", "", "minute: '²' is not a number"),
        ("0 0 31 2,4 *", "", "never comes"),
        ("@every 1h", "", "must have five fields"),
        ("@reboot", "", "must be five fields or one of @yearly"),
        ("TZ=UTC 0 0 * * *", "", "set spec.timeZone"),
        ("* * * * *", "Mars/Olympus", "is not the name of a time zone"),
        ("* * * * *", "../etc/passwd", "is not the name of a time zone"),
        ("* * * * *", "Europe", "is not the name of a time zone"),
        ("* * * * *", "Local", "is not the name of a time zone"),
    ],
)
def test_invalid_schedule_is_refused_with_the_reason(text: str, zone: str, problem: str):
    with pytest.raises(ScheduleError) as raised:
        parse(text, zone)
    assert problem in str(raised.value)
