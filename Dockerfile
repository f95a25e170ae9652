# One image for drivers, executors, gateway and projections: docs/deployment.md.
#     docker build --tag cqrs:0.9.0 .
ARG PYTHON=python:3.13-slim

# The package with its dependencies, in /opt/cqrs. Wheels in wheels/ have priority; with PIP_NO_INDEX=1 only they are used.
FROM ${PYTHON} AS site
ARG PIP_NO_INDEX=
ARG EXTRAS=gateway,personal,projections
ENV PIP_FIND_LINKS=/build/wheels PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
COPY constraints.txt wheels* wheels/
RUN python3 -m venv --without-pip /opt/cqrs
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY cqrs_cli cqrs_cli
# The examples of the demo: links in cqrs_cli lead here.
COPY aggregates aggregates
COPY processes processes
COPY projections projections
COPY deploy/image/strip /build/
RUN PIP_BUILD_CONSTRAINT=constraints.txt python3 -m pip --quiet --python /opt/cqrs/bin/python install \
        --constraint constraints.txt ".[${EXTRAS}]" dumb-init \
 && /build/strip /opt/cqrs

FROM ${PYTHON}
ARG PYTHON
LABEL org.opencontainers.image.title="cqrs" \
      org.opencontainers.image.description="Event-sourced commands, decided exactly once, on Kafka and Spark" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.9.0" \
      org.opencontainers.image.base.name="${PYTHON}"
# Java with all modules that Spark needs, unless the base image has Java.
RUN command -v java >/dev/null \
 || { apt-get update -q && apt-get install -q -y --no-install-recommends default-jre-headless && rm -rf /var/lib/apt/lists/*; }
RUN useradd --create-home --uid 1000 cqrs && install -d -o cqrs -g cqrs /app /app/.cqrs
COPY --from=site /opt/cqrs /opt/cqrs
COPY deploy/image/entrypoint deploy/image/healthy /usr/local/bin/
COPY deploy/image/decom.sh /opt/
ENV PATH=/opt/cqrs/bin:$PATH SPARK_HOME=/opt/cqrs/pyspark PYSPARK_PYTHON=/opt/cqrs/bin/python PIP_PYTHON=/opt/cqrs/bin/python \
    PYTHONUNBUFFERED=1
WORKDIR /app
# A number, by which Kubernetes knows that the user is not root.
USER 1000:1000
HEALTHCHECK --interval=10s --timeout=10s --retries=6 --start-period=120s CMD ["healthy"]
# PID 1 reaps orphaned processes, and forwards signals to the driver only, which then stops its workers.
ENTRYPOINT ["dumb-init", "--single-child", "--", "entrypoint"]
CMD ["--help"]
