-- The ids of rules, by their text, in the order given; new ones are made. A rule that another
-- transaction has made meanwhile is not seen and has no id here: ask again.
-- $1 definitions, each once
with wanted as (
    select definition, nth
    from unnest($1::text[]) with ordinality as w (definition, nth)
),
known as (
    select wanted.nth, rule.id
    from wanted
    join sexton.rule on md5(rule.definition) = md5(wanted.definition)
        and rule.definition = wanted.definition
),
made as (
    insert into sexton.rule (definition)
    select wanted.definition
    from wanted
    where wanted.nth not in (select known.nth from known)
    order by md5(wanted.definition)
    on conflict (md5(definition)) do nothing
    returning id, definition
)
select wanted.nth, coalesce(known.id, made.id) as id
from wanted
left join known on known.nth = wanted.nth
left join made on made.definition = wanted.definition
order by wanted.nth
