from django.apps import AppConfig


class PlacingConfig(AppConfig):
    name = "apps.placing"
    label = "placing"
    default_auto_field = "django.db.models.BigAutoField"
