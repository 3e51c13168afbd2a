"""The life of a database through a client in Python that was generated from the API's description; prints what it saw."""

import json
import os

from espalier_control_plane_client import AuthenticatedClient
from espalier_control_plane_client.api.databases import (
    create_database,
    delete_database,
    get_database,
    list_databases,
    update_database,
)
from espalier_control_plane_client.models import (
    CreateManagedDatabaseInput,
    Error,
    IPAllowlist,
    IPAllowlistRule,
    ManagedDatabase,
    UpdateManagedDatabaseInput,
)


def main() -> None:
    client = AuthenticatedClient(
        base_url=os.environ["API"], token=os.environ["TOKEN"], raise_on_unexpected_status=True, timeout=90
    )
    wanted = CreateManagedDatabaseInput(
        name="frompython",
        region="local",
        size="nano",
        ip_allowlist=IPAllowlist(rules=[IPAllowlistRule(cidr="127.0.0.1", label="this machine")]),
    )
    made = create_database.sync(client=client, body=wanted, prefer="wait=60", idempotency_key="frompython")
    assert isinstance(made, ManagedDatabase), made
    listed = list_databases.sync(client=client, limit=10, descending=True)
    assert isinstance(listed, list), listed
    read = get_database.sync(made.id, client=client)
    assert isinstance(read, ManagedDatabase), read

    # Sends back the allowlist that was read, with one more rule.
    read.ip_allowlist.rules.append(IPAllowlistRule(cidr="192.0.2.0/24"))
    change = UpdateManagedDatabaseInput(display_name="From Python", ip_allowlist=read.ip_allowlist)
    changed = update_database.sync(made.id, client=client, body=change, prefer="wait=60")
    assert isinstance(changed, ManagedDatabase), changed
    refused = create_database.sync(client=client, body=CreateManagedDatabaseInput("other", "nowhere", "nano"))
    assert isinstance(refused, Error), refused
    deleted = delete_database.sync_detailed(made.id, client=client, prefer="wait=60")
    gone = get_database.sync_detailed(made.id, client=client)
    print(
        json.dumps(
            {
                "created": made.status,
                "year": made.created_at.year >= 2026,
                "listed": made.id in [database.id for database in listed],
                "user": read.connection.username,
                "changed": [changed.display_name, [rule.cidr for rule in changed.ip_allowlist.rules]],
                "refused": [refused.code, refused.message],
                "deleted": [int(deleted.status_code), int(gone.status_code)],
            }
        )
    )


main()
