"""Django's settings, all from the environment (hitl/env.py)."""

from __future__ import annotations

from typing import Any

from hitl import env as environment
from hitl import logging as logs

ENV = environment.load()
BASE_DIR = environment.root()
_database_url, REDIS_URL = environment.addresses(ENV)

SECRET_KEY = environment.secret_key(ENV)
DEBUG = environment.debugging(ENV)
ALLOWED_HOSTS = ENV.allowed_hosts

HITL_DATA_DIR = ENV.data_dir
HITL_ATTACHMENT_BYTES = ENV.attachment_mb * 1024 * 1024
HITL_LEASE_SECONDS = ENV.lease_seconds
HITL_SLICE_STEPS = ENV.slice_steps
HITL_SLICE_SECONDS = ENV.slice_seconds
HITL_POISON_CRASHES = ENV.poison_crashes
HITL_WORKERS = ENV.workers
HITL_WORKER_QUEUES = ENV.worker_queues  # empty: all that workflows name
HITL_HINTS_AHEAD = ENV.hints_ahead
HITL_PREPARE = ENV.prepare
HITL_BASE_URL = ENV.base_url or f"http://127.0.0.1:{ENV.port}"
HITL_LINK_HOURS = ENV.link_hours
HITL_MAIL = ENV.smtp_url is not None
HITL_WEBHOOK_ALLOWED_NETS = ENV.webhook_allowed_nets
HITL_WEBHOOK_HTTP = ENV.webhook_http
HITL_WORKFLOW_APPS = ENV.workflow_apps
HITL_RETENTION = ENV.retention
HITL_RETENTION_COMPLETED_DAYS = ENV.retention_completed_days
HITL_RETENTION_FAILED_DAYS = ENV.retention_failed_days
HITL_RETENTION_CANCELLED_DAYS = ENV.retention_cancelled_days
HITL_RETENTION_COMPACT_DAYS = ENV.retention_compact_days
HITL_RETENTION_NOTES_DAYS = ENV.retention_notes_days
HITL_RETENTION_WAITS_DAYS = ENV.retention_waits_days
HITL_RETENTION_AUDIT_DAYS = ENV.retention_audit_days
HITL_RETENTION_WORKERS_DAYS = ENV.retention_workers_days
HITL_RETENTION_REMOVED_DAYS = ENV.retention_removed_days
HITL_RETENTION_BATCH = ENV.retention_batch

INSTALLED_APPS = [
    "hitl",
    "runs",
    *HITL_WORKFLOW_APPS,
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_htmx",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]

MIDDLEWARE = [
    "hitl.middleware.RequestId",
    "hitl.middleware.ContentPolicy",
    "runs.api.middleware.ProblemPages",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "runs.web.reader.Reader",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "runs.web.outage.Outage",
]

ROOT_URLCONF = "hitl.urls"
WSGI_APPLICATION = "hitl.wsgi.application"
APPEND_SLASH = True

LOADERS = [
    "django.template.loaders.filesystem.Loader",
    "django.template.loaders.app_directories.Loader",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": not DEBUG,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.debug",
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "runs.web.context.frame",
            ],
            # Read anew for each page, so that a changed template shows without a restart.
            **({"loaders": LOADERS} if DEBUG else {}),
        },
    }
]

DATABASES = {
    "default": {
        **environment.database(_database_url),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "ATOMIC_REQUESTS": False,
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "runs.User"
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/inbox/"
LOGOUT_REDIRECT_URL = "/sign-in/"
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
    "django.contrib.auth.hashers.ScryptPasswordHasher",
]

LANGUAGE_CODE = "en"  # of workers, commands, logs and the API as well
LANGUAGES = [("en", "English"), ("de", "Deutsch")]  # texts: runs/locale, an ordinary app's folder
FORMAT_MODULE_PATH = "runs.formats"
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

# Whitenoise serves the source folders as they are. Where the folder staticfiles/ was made and `collectstatic`
# filled it (the image does), names carry a hash and may be cached for ever.
_collected = BASE_DIR / "staticfiles"
STATIC_URL = "/static/"
STATIC_ROOT = _collected if _collected.exists() else None
STATICFILES_DIRS = [path for path in [BASE_DIR / "static"] if path.exists()]
WHITENOISE_USE_FINDERS = STATIC_ROOT is None
WHITENOISE_AUTOREFRESH = DEBUG
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "attachments": environment.attachments(ENV),
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if STATIC_ROOT
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_ENGINE = "runs.models.sessions"
SESSION_COOKIE_NAME = "hitl_session"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_NAME = "hitl_csrf"
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "runs.web.door.csrf_failure"
FILE_UPLOAD_HANDLERS = [
    "runs.uploads.Bounded",
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "django.core.files.uploadhandler.TemporaryFileUploadHandler",
]
# A state of 8 MiB, percent-encoded in a form; the doors have their own limits.
DATA_UPLOAD_MAX_MEMORY_SIZE = 12 * 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 20_000  # of many arguments, some with a tick or a mark beside them
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

if ENV.smtp_url:
    EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    globals().update(
        {f"EMAIL_{name}": value for name, value in environment.mail_server(ENV.smtp_url).items()}
    )
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = ENV.mail_from

LOGGING = logs.config(ENV.log_format)

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "hitl",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "SERVE_INCLUDE_SCHEMA": False,
    "DESCRIPTION": "Durable agent runs with a human at the gate.",
    "TAGS": [
        {"name": "runs", "description": "Start runs, watch them, steer them."},
        {"name": "attachments", "description": "Files of runs."},
        {"name": "approvals", "description": "What people are asked, and their answers."},
        {"name": "webhooks", "description": "Where what happens is told."},
        {"name": "deliveries", "description": "What was told to whom, and how that went."},
        {"name": "workflows", "description": "What can be started."},
        {"name": "project", "description": "The project that one is in."},
        {"name": "notification-preferences", "description": "What you are told, and how."},
        {"name": "members", "description": "Who belongs to the project, and what they may do."},
        {"name": "service-accounts", "description": "Accounts of programs."},
        {"name": "invitations", "description": "Ways in."},
        {"name": "teams", "description": "People who are asked together."},
        {"name": "tokens", "description": "Credentials of programs."},
        {"name": "audit", "description": "Who administered what."},
        {"name": "problems", "description": "Every error by its code."},
    ],
    "PREPROCESSING_HOOKS": ["runs.api.schema.without_slashes"],
    "POSTPROCESSING_HOOKS": ["runs.api.schema.add_components"],
}
