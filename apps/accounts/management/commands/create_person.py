"""`manage.py create_person NAME --role ROLE …`: adds a person and prints a random password, once."""

from __future__ import annotations

import json
import secrets
from argparse import SUPPRESS
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.accounts.errors import UnusableName
from apps.accounts.models import Role
from apps.accounts.queries import cluster_model
from apps.accounts.services import create_person, grant_role


class Command(BaseCommand):
    help = "Add a person with roles, and print the random password that was made for him."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument("name")
        parser.add_argument("--role", action="append", default=[], choices=Role.values, help="repeatable")
        parser.add_argument(
            "--cluster", help="name of the cluster the roles hold on; without it, on every one"
        )
        parser.add_argument("--json", action="store_true", help="print one line of JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        cluster = self._find_cluster(options["cluster"])
        password = secrets.token_urlsafe(15)
        try:
            person = create_person(username=options["name"], password=password)
        except UnusableName as error:
            raise CommandError(str(error), returncode=2) from error
        for role in options["role"]:
            grant_role(user=person, role=role, cluster=cluster)
        if options["json"]:
            answer = {
                "username": person.username,
                "password": password,
                "roles": options["role"],
                "cluster": options["cluster"],
            }
            self.stdout.write(json.dumps(answer))
            return
        where = f"on {options['cluster']}" if cluster is not None else "on every cluster"
        roles = ", ".join(options["role"]) or "no role"
        self.stdout.write(f"{person.username} ({roles}, {where}) has the password {password}")

    def _find_cluster(self, name: str | None) -> Any:
        if name is None:
            return None
        found = cluster_model()._default_manager.filter(name=name).first()
        if found is None:
            raise CommandError(
                f"there is no cluster {name!r}: register it first, or leave --cluster out", returncode=2
            )
        return found
