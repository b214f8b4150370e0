"""The role that requests run as: without it there is no second line between tenants."""

import asyncpg

from sexton.errors import ConfigurationError
from sexton.store import Pool, Store


async def demand_role(store: Store, pool: Pool) -> None:
    """Refuse to serve unless it can be assumed, and shows no more than its policies do."""
    role = f"{store.schema}_tenant"
    found = await store.tenants.role(role)
    if found is None:
        raise _missing(f"there is no role {role}", store.schema, role)
    sees_all, granted = found
    if sees_all:
        raise ConfigurationError(
            f"the role {role} sees the rows of every tenant: run as a superuser\n"
            f"    alter role {role} nosuperuser nobypassrls;"
        )
    if not granted:
        # Somebody has made it since the schema was migrated; what it is granted is ours to say.
        await store.tenants.grant()
    try:
        async with pool.transaction(ours=True, begin=f"begin; set local role {role}"):
            pass
    except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidParameterValueError) as error:
        raise _missing(str(error), store.schema, role) from None


def _missing(why: str, schema: str, role: str) -> ConfigurationError:
    return ConfigurationError(
        f"the service keeps tenants apart by a role that it cannot assume ({why}): run as somebody "
        "who may make roles, with the user of SEXTON_DATABASE_URL for USER\n"
        f"    create role {role} nologin noinherit;  -- if there is none\n"
        f"    grant {role} to USER;\n"
        f"    select {schema}.grant_to_tenants();"
    )
