"""What holds in every environment. Every value that differs between places comes from the environment."""

from pathlib import Path

import environ
import structlog
from csp.constants import NONE, SELF
from kombu import Queue

env = environ.Env()
BASE_DIR = Path(__file__).resolve().parents[2]

SECRET_KEY = env.str("SECRET_KEY", default="")
DEBUG = False
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "knox",
    "drf_spectacular",
    "django_filters",
    "django_htmx",
    "django_celery_beat",
    "axes",
    "csp",
    "django_structlog",
    "apps.audit",
    "apps.accounts",
    "apps.clusters",
    "apps.telemetry",
    "apps.fragmentation",
    "apps.placing",
    "apps.pending",
    "apps.plans",
    "apps.executions",
    "apps.alerts",
    "apps.webhooks",
    "apps.scheduling",
    "apps.dashboard",
    "apps.simulator",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "console.request_log.RequestMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

# PostgreSQL only: the row locks, SKIP LOCKED and advisory locks that safety stands on need it.
if "DATABASE_URL" not in env.ENVIRON:
    raise SystemExit(
        "DATABASE_URL is not set. Give it as postgres://user:password@host/name, or use ./dev manage."
    )
DATABASES = {"default": {**env.db("DATABASE_URL"), "ATOMIC_REQUESTS": False}}
DATABASES["default"]["CONN_MAX_AGE"] = 0
DATABASES["default"].setdefault("OPTIONS", {})["pool"] = {"min_size": 0, "max_size": 16, "timeout": 15}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.str("REDIS_URL", default="redis://127.0.0.1:6379/0")

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
AXES_FAILURE_LIMIT = 8
AXES_COOLOFF_TIME = 0.25
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_LOCKOUT_CALLABLE = "apps.accounts.views.locked_out"
AXES_HANDLER = "axes.handlers.database.AxesDatabaseHandler"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
CSRF_COOKIE_HTTPONLY = False

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024

STATIC_URL = "static/"
STATIC_ROOT = env.path("STATIC_ROOT", default=str(BASE_DIR / ".static"))
STATICFILES_DIRS = [BASE_DIR / "static"]

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.accounts.authentication.ByToken",
        "apps.accounts.authentication.BySession",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "apps.accounts.authentication.WithinScope",
        "console.api_parameters.KnownParameters",
    ],
    "DEFAULT_THROTTLE_CLASSES": ["apps.accounts.authentication.CallRate"],
    "DEFAULT_SCHEMA_CLASS": "console.api_schema.ConsoleSchema",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["console.api_parsers.SmallJSON"],
    "EXCEPTION_HANDLER": "console.api_errors.handle",
    "DEFAULT_PAGINATION_CLASS": "console.pagination.Pages",
    "PAGE_SIZE": 50,
}
# API tokens: only a digest is kept, in a table of ours (knox's own is not made).
KNOX_TOKEN_MODEL = "accounts.ApiToken"
REST_KNOX = {"TOKEN_PREFIX": "gdc_", "AUTH_HEADER_PREFIX": "Bearer"}
MIGRATION_MODULES = {"knox": None}
API_TOKEN_LONGEST_DAYS = env.int("API_TOKEN_LONGEST_DAYS", default=90)
API_TOKENS_A_PERSON = env.int("API_TOKENS_A_PERSON", default=20)
TOKEN_LOGIN_MAX_AGE_SECONDS = env.int("TOKEN_LOGIN_MAX_AGE_SECONDS", default=3600)
# How many of which kind in how many seconds, by one caller (a person's browser, or one of his tokens).
API_RATES = {
    "calls": (env.int("API_CALLS_A_MINUTE", default=600), 60),
    "planning": (env.int("API_PLANS_A_MINUTE", default=30), 60),
    "deciding": (env.int("API_DECISIONS_A_MINUTE", default=60), 60),
    "operating": (env.int("API_OPERATIONS_A_MINUTE", default=60), 60),
    "tokens": (env.int("API_NEW_TOKENS_AN_HOUR", default=20), 3600),
    "bad-tokens": (env.int("API_BAD_TOKENS_A_MINUTE", default=60), 60),
}
SPECTACULAR_SETTINGS = {
    "TITLE": "GPU Defrag Console",
    "VERSION": "1",
    "DESCRIPTION": (
        "What the console knows and does, for programs. Times are RFC 3339 in UTC, units are in field names, "
        "every error is application/problem+json. Lists have page, page_size and ordering. How to begin: "
        "docs/api.md."
    ),
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_PERMISSIONS": [
        "rest_framework.permissions.IsAuthenticated",
        "apps.accounts.authentication.WithinScope",
    ],
    "ENUM_NAME_OVERRIDES": {
        "GpuStateEnum": "apps.clusters.device_facts.STATES",
        "PlanState": "apps.plans.states.PlanState",
        "ExecutionState": "apps.executions.states.ExecutionState",
        "StepState": "apps.executions.states.StepState",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "console.api_schema.describe_problems",
    ],
}

CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_IGNORE_RESULT = True
# Searches for plans take minutes: in a queue of their own they keep nobody waiting who lands a pod. A worker
# without --queues serves both.
CELERY_TASK_QUEUES = [Queue("celery"), Queue("planning")]
CELERY_TASK_DEFAULT_QUEUE = "celery"
CELERY_TASK_ROUTES = {
    "apps.plans.tasks.compute_*": {"queue": "planning"},
}
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TIMEZONE = "UTC"
CELERY_ENABLE_UTC = True
CELERY_TASK_TIME_LIMIT = 300
CELERY_TASK_SOFT_TIME_LIMIT = 240
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 3600,
    # A broker that hangs costs a request seconds, not for ever: a message is only a wake-up.
    "socket_connect_timeout": 2,
    "socket_timeout": 5,
    "socket_keepalive": True,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
DJANGO_STRUCTLOG_CELERY_ENABLED = True

# So long a request waits for an answer of the planner that is found beside it; then the page asks again.
PLANNER_PATIENCE_SECONDS = env.float("PLANNER_PATIENCE_SECONDS", default=1.0)

# How the console behaves towards a cluster. Seconds everywhere.
KUBE_CONNECT_SECONDS = env.float("KUBE_CONNECT_SECONDS", default=3)
KUBE_READ_SECONDS = env.float("KUBE_READ_SECONDS", default=10)
KUBE_WATCH_SECONDS = env.int("KUBE_WATCH_SECONDS", default=270)
SNAPSHOT_MIN_INTERVAL_SECONDS = env.float("SNAPSHOT_MIN_INTERVAL_SECONDS", default=1.0)
SNAPSHOT_HEARTBEAT_SECONDS = env.float("SNAPSHOT_HEARTBEAT_SECONDS", default=15.0)
SNAPSHOTS_KEPT = env.int("SNAPSHOTS_KEPT", default=200)
SNAPSHOT_LIVE_SECONDS = 30
SNAPSHOT_FOLLOWERS = ["apps.fragmentation.tasks.measure_snapshots"]  # woken by each new snapshot
REPORT_FOLLOWERS = [  # called by whoever measured it
    "apps.pending.tasks.note_stays",
    "apps.dashboard.prepared.prepare_measured_grid",
    "apps.dashboard.mig_changes.follow_mig_changes",
]
SNAPSHOT_STALE_SECONDS = 120
# The fair order of what waits: a wait of so many seconds doubles a weight (0: no ageing), and what has waited
# for longer than so many does not keep others of its tenant back (0: for ever).
QUEUE_AGEING_SECONDS = env.float("QUEUE_AGEING_SECONDS", default=3600)
QUEUE_PLACE_SECONDS = env.float("QUEUE_PLACE_SECONDS", default=24 * 3600)
QUEUE_HISTORY_DAYS = env.int("QUEUE_HISTORY_DAYS", default=30)  # of waits, starts and lengths of runs
# What fragmentation is measured against: the pods asked for in so many hours, and what is pending.
FRAGMENTATION_WINDOW_HOURS = env.float("FRAGMENTATION_WINDOW_HOURS", default=24)
PLAN_EXPIRES_AFTER_SECONDS = env.int("PLAN_EXPIRES_AFTER_SECONDS", default=4 * 3600)
APPROVAL_LOGIN_MAX_AGE_SECONDS = env.int("APPROVAL_LOGIN_MAX_AGE_SECONDS", default=12 * 3600)

# Reading a cluster's Prometheus. The window: over so many minutes low use is judged, if so many are measured.
TELEMETRY_CONNECT_SECONDS = env.float("TELEMETRY_CONNECT_SECONDS", default=3)
TELEMETRY_READ_SECONDS = env.float("TELEMETRY_READ_SECONDS", default=10)
TELEMETRY_BUDGET_SECONDS = env.float("TELEMETRY_BUDGET_SECONDS", default=30)
TELEMETRY_STALE_SECONDS = 120
TELEMETRY_WINDOW_MINUTES = env.int("TELEMETRY_WINDOW_MINUTES", default=15)
TELEMETRY_LEAST_MINUTES = env.int("TELEMETRY_LEAST_MINUTES", default=10)
TELEMETRY_KEPT_MINUTES = env.int("TELEMETRY_KEPT_MINUTES", default=60)
DEVICE_READINGS = "apps.telemetry.rows.readings_told"  # asked for what is told of a node
DEVICE_SIGHTINGS = "apps.telemetry.sightings.sightings_of"  # asked by the watcher: the last source of holders
LOW_USE_PERCENT = env.float("LOW_USE_PERCENT", default=30)

# Outgoing webhooks. Allowed: host names or nets that may be private. CA file: of private receivers.
WEBHOOK_ALLOWED = env.list("WEBHOOK_ALLOWED", default=[])
WEBHOOK_SECONDS = env.float("WEBHOOK_SECONDS", default=5)
WEBHOOK_CA_FILE = env.str("WEBHOOK_CA_FILE", default="")

# /metrics for Prometheus: by this bearer token, or for anybody where it is open. Neither: no such address.
METRICS_TOKEN = env.str("METRICS_TOKEN", default="")
METRICS_OPEN = env.bool("METRICS_OPEN", default=False)

# The admission webhook that gates replacements (spec: steering). Empty URL: no steering by webhook.
STEERING_URL = env.str("STEERING_URL", default="")
STEERING_CA_FILE = env.str("STEERING_CA_FILE", default="")
STEERING_NAMESPACE = env.str("STEERING_NAMESPACE", default="gpu-defrag")
STEERING_SETTLE_SECONDS = env.float("STEERING_SETTLE_SECONDS", default=0.5)

# Where a cluster's scheduler reaches its extender; {cluster} stands for the cluster's name. Empty URL:
# its configuration is shown with a placeholder.
EXTENDER_URL = env.str("EXTENDER_URL", default="")
EXTENDER_CA_FILE = env.str("EXTENDER_CA_FILE", default="")

# Carrying out plans. A visit is one runner's stay at one execution; the lease outlives any one request.
EXECUTION_LEASE_SECONDS = env.float("EXECUTION_LEASE_SECONDS", default=60)
EXECUTION_VISIT_SECONDS = env.float("EXECUTION_VISIT_SECONDS", default=20)
EXECUTION_LONG_VISIT_SECONDS = env.float("EXECUTION_LONG_VISIT_SECONDS", default=120)
EXECUTION_IDLE_SECONDS = env.float("EXECUTION_IDLE_SECONDS", default=3)
EXECUTION_POLL_SECONDS = env.float("EXECUTION_POLL_SECONDS", default=0.3)
EXECUTION_DEADLINE_SECONDS = env.float("EXECUTION_DEADLINE_SECONDS", default=4 * 3600)
EXECUTION_STEP_SECONDS = env.float("EXECUTION_STEP_SECONDS", default=900)
EXECUTION_CHECKPOINT_SECONDS = env.float("EXECUTION_CHECKPOINT_SECONDS", default=600)
EXECUTION_REPLACEMENT_SECONDS = env.float("EXECUTION_REPLACEMENT_SECONDS", default=300)
EXECUTION_HAND_OVER_SECONDS = env.float("EXECUTION_HAND_OVER_SECONDS", default=300)
# A MIG reconfiguration: the whole wait for mig-manager, what a reboot adds to it, how long the new resources
# must stand, how long a reported success may stay without them, and when a wait is told as long.
EXECUTION_MIG_SECONDS = env.float("EXECUTION_MIG_SECONDS", default=1800)
EXECUTION_MIG_REBOOT_SECONDS = env.float("EXECUTION_MIG_REBOOT_SECONDS", default=900)
EXECUTION_MIG_NODES_AT_ONCE = env.int("EXECUTION_MIG_NODES_AT_ONCE", default=8)
EXECUTION_MIG_SYNC_SECONDS = env.float("EXECUTION_MIG_SYNC_SECONDS", default=120)
EXECUTION_MIG_SETTLE_SECONDS = env.float("EXECUTION_MIG_SETTLE_SECONDS", default=60)
EXECUTION_MIG_MISMATCH_SECONDS = env.float("EXECUTION_MIG_MISMATCH_SECONDS", default=300)
EXECUTION_MIG_LONG_SECONDS = env.float("EXECUTION_MIG_LONG_SECONDS", default=600)
MIG_MANAGER_NAMESPACE = env("MIG_MANAGER_NAMESPACE", default="gpu-operator")
MIG_MANAGER_DAEMONSET = env("MIG_MANAGER_DAEMONSET", default="nvidia-mig-manager")
EXECUTION_FAILURES_BEFORE_PAUSE = env.int("EXECUTION_FAILURES_BEFORE_PAUSE", default=3)
# So many failures on one cluster without a success between them, and the console throws its kill switch.
EXECUTION_FAILURES_BEFORE_STOP = env.int("EXECUTION_FAILURES_BEFORE_STOP", default=3)
# The Lease in each cluster that tells consoles apart: how long it holds, and how often it is renewed.
CONSOLE_LEASE_SECONDS = env.int("CONSOLE_LEASE_SECONDS", default=60)
CONSOLE_RENEW_SECONDS = env.float("CONSOLE_RENEW_SECONDS", default=10)
EXECUTION_CRASHES_BEFORE_STOP = env.int("EXECUTION_CRASHES_BEFORE_STOP", default=8)

# Keys that encrypt stored cluster credentials, newest first. Without any, SECRET_KEY is stretched into one.
CREDENTIAL_KEYS = env.list("CREDENTIAL_KEYS", default=[])

# A traceback shows lines of code, never the values at hand: among those are passwords and tokens.
LOG_RENDERERS = (
    [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    if env.bool("LOG_JSON", default=False)
    else [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]
)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "lines": {
            "()": structlog.stdlib.ProcessorFormatter,
            "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *LOG_RENDERERS],
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
    "root": {"handlers": ["stderr"], "level": env.str("LOG_LEVEL", default="INFO")},
    "loggers": {"django_structlog": {"level": "WARNING"}, "axes": {"level": "WARNING"}},
}
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.filter_by_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.format_exc_info,
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    cache_logger_on_first_use=True,
)
