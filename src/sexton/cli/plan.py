"""What a change would do to a schedule, for people and for scripts."""

from sexton.cli import output
from sexton.cli.output import count, dated, say, show, show_json, when
from sexton.remote.views import Plan


def show_plan(plan: Plan, as_json: bool) -> None:
    if as_json:
        show_json(plan)
        return
    if not plan.changes:
        say("it says so already: nothing would change")
        return
    made = output.table("what", "now", "then", shrinks=("now", "then"))
    for each in plan.changes:
        output.row(made, each.field, output.compact(each.before), output.compact(each.after))
    show(made)
    for word, fires in (("gone", plan.gone), ("new", plan.new)):
        if fires:
            shown = ", ".join(map(when, fires[:5])) + (", …" if len(fires) > 5 else "")
            say(f"{count(len(fires), 'fire')} {word}: {shown}")
    if plan.after:
        say(f"the next fire would be {dated(plan.after[0].fire_at)}")
