"""`manage.py serve_steering`: the admission webhook that gates replacements, over TLS."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from aiohttp import web
from django.core.management.base import BaseCommand, CommandError

from apps.scheduling.webhook import make_app, make_tls


class Command(BaseCommand):
    help = "Serve the steering webhook. make_steering_certificate writes what --cert and --key want."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--port", type=int, required=True)
        parser.add_argument("--cert", type=Path, required=True)
        parser.add_argument("--key", type=Path, required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        for file in (options["cert"], options["key"]):
            if not file.is_file():
                raise CommandError(
                    f"there is no file {file}: make it with make_steering_certificate", returncode=2
                )
        tls = make_tls(str(options["cert"]), str(options["key"]))
        where = f"https://{options['host']}:{options['port']}"
        web.run_app(
            make_app(),
            host=options["host"],
            port=options["port"],
            ssl_context=tls,
            access_log=None,
            print=lambda *_: self.stdout.write(f"steering webhook listens on {where}"),
            shutdown_timeout=2,
        )
