"""What a deployment runs with. `./dev up` uses it too, over plain HTTP on loopback (INSECURE_HTTP=1)."""

from console.settings.base import *  # noqa: F403
from console.settings.base import SECRET_KEY, env

if not SECRET_KEY:
    raise SystemExit("SECRET_KEY is not set. Put a long random string into the environment and start again.")

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "console.static_storage.StaticFiles"},
}
INSECURE_HTTP = env.bool("INSECURE_HTTP", default=False)
SESSION_COOKIE_SECURE = not INSECURE_HTTP
CSRF_COOKIE_SECURE = not INSECURE_HTTP
SECURE_SSL_REDIRECT = not INSECURE_HTTP
# Asked by the machine next door, without TLS.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_SECONDS = 0 if INSECURE_HTTP else 31_536_000
SECURE_HSTS_INCLUDE_SUBDOMAINS = not INSECURE_HTTP
SECURE_HSTS_PRELOAD = not INSECURE_HTTP
if env.bool("BEHIND_TLS_PROXY", default=False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
