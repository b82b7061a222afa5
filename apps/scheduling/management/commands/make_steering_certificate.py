"""`manage.py make_steering_certificate`: what the steering webhook needs to speak TLS."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from apps.scheduling.certificates import provide_certificates


class Command(BaseCommand):
    help = "Write ca.crt, tls.crt and tls.key for the steering webhook; good ones are kept."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--folder", type=Path, required=True)
        parser.add_argument(
            "--host", required=True, help="name or address by which the API server reaches the webhook"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        files = provide_certificates(options["folder"], options["host"])
        self.stdout.write(f"STEERING_CA_FILE={files.ca}")
