from django.apps import AppConfig


class PendingConfig(AppConfig):
    name = "apps.pending"
    label = "pending"
    default_auto_field = "django.db.models.BigAutoField"
