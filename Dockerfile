# One image for web, worker, sweeper and beat; docker-compose.yml says which command each runs.
ARG BASE=python:3.12-slim-bookworm
FROM ${BASE}

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PATH=/opt/venv/bin:$PATH
WORKDIR /srv/hitl

# The lock pins everything with hashes, uv too. The tools of the workshop stay out of the way: nothing imports them.
COPY requirements.lock ./
RUN python3 -m venv /opt/venv \
 && sed -n '/^uv==/,/^[^ ]/{/^uv==/p;/^ /p;}' requirements.lock > /tmp/uv.lock \
 && pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /tmp/uv.lock \
 && VIRTUAL_ENV=/opt/venv uv pip sync --no-cache --require-hashes requirements.lock

COPY manage.py ./
COPY hitl hitl
COPY runs runs
COPY examples examples
COPY static static
COPY templates templates

RUN mkdir staticfiles \
 && HITL_DATA_DIR=/tmp/build python manage.py collectstatic --no-input --verbosity 0 \
 && useradd --system --home-dir /srv/hitl --shell /usr/sbin/nologin hitl \
 && install --directory --owner hitl /tmp/hitl /tmp/hitl/attachments

USER hitl
ENV HITL_HOST=0.0.0.0 HITL_DATA_DIR=/tmp/hitl
EXPOSE 8000
CMD ["python", "-m", "hitl.serve"]
