# The system that Sightword needs: Python, git and make. .devcontainer/ uses this part alone.
FROM python:3.11-slim AS tools
RUN apt-get update && apt-get install -y --no-install-recommends git make && rm -rf /var/lib/apt/lists/*

# The last commit with the packages that constraints.txt pins, ready for `dvc repro`.
FROM tools
ARG PIP_EXTRA_INDEX_URL EXTRAS
WORKDIR /sightword
COPY .git .git
RUN git reset -q --hard && make install
ENV PATH=/sightword/.venv/bin:$PATH
CMD ["dvc", "repro"]
