"""One process that makes the embedded default ready: tables, static files, people, certificate.

Run by `console.up` as `python -m console.prepare FOLDER`; prints one JSON line with the passwords of
the people it added. Separate commands would pay Django's start four times.
"""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

PEOPLE = {
    "planner": ["viewer", "planner", "operator", "admin", "auditor"],
    "approver": ["viewer", "approver"],
}


def main(certificates: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings.production")
    import django
    from django.contrib.auth import get_user_model
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0, interactive=False)
    call_command("collectstatic", verbosity=0, interactive=False)
    call_command(
        "make_steering_certificate", folder=Path(certificates), host="127.0.0.1", stdout=io.StringIO()
    )
    added = {}
    for name, roles in PEOPLE.items():
        if get_user_model().objects.filter(username=name).exists():
            continue
        told = io.StringIO()
        call_command("create_person", name, role=roles, json=True, stdout=told)
        added[name] = json.loads(told.getvalue())["password"]
    print(json.dumps(added))


if __name__ == "__main__":
    main(sys.argv[1])
