"""The Celery application. A message is only a wake-up; all that is known stands in the database."""

import os

from celery import Celery
from celery.signals import setup_logging
from django_structlog.celery.steps import DjangoStructLogInitStep

from console.pipeline import SCHEDULE

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings.production")

app = Celery("console")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.steps["worker"].add(DjangoStructLogInitStep)
app.conf.beat_schedule = SCHEDULE
app.conf.beat_scheduler = "django_celery_beat.schedulers:DatabaseScheduler"
app.autodiscover_tasks()


@setup_logging.connect
def keep_our_logging(**kwargs: object) -> None:
    """Celery would replace the logging that the settings configured; Django sets ours up."""
    from logging.config import dictConfig

    from django.conf import settings

    dictConfig(settings.LOGGING)
