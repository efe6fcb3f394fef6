# handlens in a container.
#   docker build --target run -t handlens . && docker run --rm -v "$PWD:/data" handlens solve cells /data -o /data/out
#   docker build --target demo .      the demo
#   docker build --target test .      all checks
FROM python:3.11-slim AS run
WORKDIR /handlens
COPY . .
RUN scripts/setup
ENTRYPOINT ["/handlens/.venv/bin/handlens"]
CMD ["--help"]

FROM run AS demo
RUN scripts/demo -o /demo

FROM run AS test
RUN scripts/test
