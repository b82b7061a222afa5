"""What uvicorn serves."""

import os

from django.core.asgi import get_asgi_application

from console.body_limit import limit_bodies

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings.production")
application = limit_bodies(get_asgi_application())
