"""The Celery application. A message is only a wake-up; all that is known stands in the database."""

import os

from celery import Celery
from celery.signals import setup_logging
from django_structlog.celery.steps import DjangoStructLogInitStep

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings.production")

app = Celery("console")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.steps["worker"].add(DjangoStructLogInitStep)
app.autodiscover_tasks()


@setup_logging.connect
def keep_our_logging(**kwargs: object) -> None:
    """Celery would replace the logging that the settings configured; Django sets ours up."""
    from logging.config import dictConfig

    from django.conf import settings

    dictConfig(settings.LOGGING)
