"""Crontab files, line by line; and importing them, again and again."""

import pytest

from sexton import InvalidSchedule, Sexton
from sexton.domain.crontab import parse_crontab

FILE = r"""
# a comment
SHELL=/bin/bash
MAILTO = "me@example.com"
'PATH' = '/usr/bin:/bin'

17 *	* * *	cd / && run-parts --report /etc/cron.hourly
*/5 9-17 * * mon-fri  /usr/bin/date +\%H:\%M   # not a comment
CRON_TZ=Europe/Paris
@daily   mail -s "it's 10pm" joe%Joe,%%Where are your kids?%
30 2 * * * backup
30 3 * * * backup
CRON_TZ=
@hourly true
"""


def test_a_users_crontab_is_read() -> None:
    found = parse_crontab(FILE)
    assert found.bad == ()
    assert found.variables == {
        "SHELL": "/bin/bash",
        "MAILTO": "me@example.com",
        "PATH": "/usr/bin:/bin",
    }
    assert [(line.line, line.cron, line.timezone, line.command) for line in found.lines] == [
        (7, "17 * * * *", None, "cd / && run-parts --report /etc/cron.hourly"),
        (8, "*/5 9-17 * * mon-fri", None, "/usr/bin/date +%H:%M   # not a comment"),
        (10, "@daily", "Europe/Paris", 'mail -s "it\'s 10pm" joe'),
        (11, "30 2 * * *", "Europe/Paris", "backup"),
        (12, "30 3 * * *", "Europe/Paris", "backup"),
        (14, "@hourly", None, "true"),
    ]
    assert found.lines[2].stdin == "Joe,\n\nWhere are your kids?\n"
    assert {line.stdin for line in found.lines[:2]} == {None}


def test_a_system_crontab_names_the_user() -> None:
    found = parse_crontab("25 6\t* * *\troot\ttest -x /usr/sbin/anacron\n@daily bob x", system=True)
    assert [(line.user, line.command) for line in found.lines] == [
        ("root", "test -x /usr/sbin/anacron"),
        ("bob", "x"),
    ]


def test_names_follow_from_the_command_and_are_all_different() -> None:
    first = parse_crontab(FILE, prefix="web-")
    names = [line.name for line in first.lines]
    assert len(set(names)) == len(names)
    assert names[0].startswith("web-cd-run-parts-report-etc-cron-hourly-")
    moved = parse_crontab(FILE.replace("30 2", "45 4").replace("17 *", "18 *"), prefix="web-")
    assert [line.name for line in moved.lines] == names
    assert all(len(line.name) < 200 for line in parse_crontab(f"@daily {'x' * 5000}").lines)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("61 * * * * x", "minute: 61 is not"),
        ("* * * *", "a line has five fields and a command"),
        ("* * * * *", "a line has five fields and a command"),
        ("@daily", "a line has a word like @daily and a command"),
        ("@reboot x", "@reboot is no instant"),
        ("@fortnightly x", "@fortnightly"),
        ("* * * * * %x", "no command before the first %"),
        ("CRON_TZ=Mars/Base", "Mars/Base"),
        ("0 0 31 2 * x", "0 0 31 2"),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_read(line: str, why: str) -> None:
    found = parse_crontab(f"@daily a\n{line}\n@daily b")
    [bad] = found.bad
    assert (bad.line, bad.text) == (2, line)
    assert why in bad.why
    assert [each.command for each in found.lines] == ["a", "b"]
    [bad] = parse_crontab("@daily a\n@daily  root", system=True).bad[1:]
    assert "a user and a command" in bad.why


async def test_a_file_is_imported_and_again_only_what_changed_changes(app: Sexton) -> None:
    @app.task
    async def shell(command: str, stdin: str = "") -> None: ...

    async with app:
        dry = await app.schedules.import_crontab(FILE, shell, timezone="Asia/Tokyo", dry_run=True)
        assert {done for _, done in dry.lines} == {"added"}
        assert await app.schedules.list() == []
        done = await app.schedules.import_crontab(FILE, shell, timezone="Asia/Tokyo")
        assert len(done.lines) == 6
        made = {each.name: each for each in await app.schedules.list(tag="crontab")}
        line, _ = done.lines[2]
        assert made[line.name].said == {
            "cron": "@daily",
            "timezone": "Europe/Paris",
            "tags": ["crontab"],
        }
        assert made[line.name].payload == {"command": line.command, "stdin": line.stdin}
        assert made[done.lines[0][0].name].said["timezone"] == "Asia/Tokyo"
        again = await app.schedules.import_crontab(
            FILE.replace("30 2", "30 1") + "\n@weekly new", shell, timezone="Asia/Tokyo"
        )
        assert [what for _, what in again.lines] == [
            *("kept", "kept", "kept", "changed", "kept", "kept", "added")
        ]


async def test_one_bad_line_refuses_the_file_unless_it_may_be_skipped(app: Sexton) -> None:
    async with app:
        text = "@daily a\n* * * * x\n61 * * * * y\n@daily b"
        with pytest.raises(InvalidSchedule, match=r"^line 2: .*; line 3: .*minute: 61"):
            await app.schedules.import_crontab(text, "shell")
        assert await app.schedules.list() == []
        done = await app.schedules.import_crontab(text, "shell", skip_bad=True)
        assert ([bad.line for bad in done.bad], len(done.lines)) == ([2, 3], 2)
        assert len(await app.schedules.list()) == 2


async def test_a_task_that_does_not_take_a_command_is_refused(app: Sexton) -> None:
    @app.task
    async def ring(n: int) -> None: ...

    async with app:
        with pytest.raises(InvalidSchedule, match="has no argument 'command'"):
            await app.schedules.import_crontab("@daily a", ring)


async def test_a_line_that_an_operator_has_cancelled_stays_so_when_the_file_comes_again(
    app: Sexton,
) -> None:
    text = "0 5 * * * /bin/x\n0 6 * * * /bin/y\n"
    async with app:
        names = [line.name for line, _ in (await app.schedules.import_crontab(text, "sh")).lines]
        await app.schedules.cancel(names[0], "never again")
        for file in (text, text.replace("0 5", "0 4").replace("0 6", "0 7")):
            again = await app.schedules.import_crontab(file, "sh")
            assert again.lines[0][1] == "stays cancelled"
            assert (await app.schedules.get(names[0])).state == "cancelled"
        assert again.lines[1][1] == "changed"
