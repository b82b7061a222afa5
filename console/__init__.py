"""The project: settings, routes, the pipeline, and how its parts are started."""

from console.celery import app as celery_app

__all__ = ["celery_app"]
