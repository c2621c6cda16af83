# The images. Build from a clone, with BuildKit, which Docker 23 and newer have:
#   docker build -f deploy/images/agent.Dockerfile -t localhost/akri-agent:0.1.0 .
# That image has all programs and handlers. The other targets are smaller images, or have a further
# layer. deploy/images/bake.json has their names, docs/images.md describes them.

# The digest is that of all platforms. After a release of Node.js, or a fix in Debian, take the new
# tag and digest, and run node scripts/shipped.mjs --check:
#   docker buildx imagetools inspect node:24-bookworm-slim --format '{{.Manifest.Digest}}'
ARG NODE_IMAGE=node:24.21.0-bookworm-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6

FROM ${NODE_IMAGE} AS node

# Every RUN is in a stage of the platform of the builder: an image of another platform needs no
# emulation. Programs and handlers are the same files on all platforms.
FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS dependencies
# Another registry of npm packages.
ARG NPM_REGISTRY
WORKDIR /src
# Only what npm reads, so that a change of sources installs nothing again.
COPY .npmrc package.json package-lock.json ./
COPY agent/package.json agent/
COPY api/package.json api/
COPY bench/package.json bench/
COPY cli/package.json cli/
COPY controller/package.json controller/
COPY create-handler/package.json create-handler/
COPY dns-sd/package.json dns-sd/
COPY examples/http-sensor/package.json examples/http-sensor/
COPY examples/onvif-snapshot/package.json examples/onvif-snapshot/
COPY examples/opcua-subscriber/package.json examples/opcua-subscriber/
COPY handlers/debug-echo/package.json handlers/debug-echo/
COPY handlers/mdns/package.json handlers/mdns/
COPY handlers/modbus/package.json handlers/modbus/
COPY handlers/mqtt/package.json handlers/mqtt/
COPY handlers/onvif/package.json handlers/onvif/
COPY handlers/opcua/package.json handlers/opcua/
COPY handlers/snmp/package.json handlers/snmp/
COPY handlers/ssdp/package.json handlers/ssdp/
COPY handlers/udev/package.json handlers/udev/
COPY handlers/usb/package.json handlers/usb/
COPY kube/package.json kube/
COPY proto/package.json proto/
COPY runtime/package.json runtime/
COPY scripts/package.json scripts/
COPY sdk/package.json sdk/
COPY standalone/package.json standalone/
COPY test/package.json test/
COPY ui/package.json ui/
COPY webhook/package.json webhook/
# No package runs a script. `npm ci` would want the binaries of every platform in the lock file, which
# a registry can lack: installed.mjs checks below that all is as the lock file says. npm installs the
# binary of usb for its own platform only, and usb-binary.mjs checks those of the images.
RUN --mount=type=cache,target=/root/.npm \
    npm install --no-save --include=dev --ignore-scripts ${NPM_REGISTRY:+--registry=$NPM_REGISTRY} && \
    version=$(node -p "require('./handlers/usb/package.json').dependencies.usb") && \
    mkdir -p .cache/usb-binaries && \
    npm pack --silent --pack-destination .cache/usb-binaries ${NPM_REGISTRY:+--registry=$NPM_REGISTRY} \
    "@node-usb/usb-linux-x64-gnu@$version" "@node-usb/usb-linux-arm64-gnu@$version"

FROM dependencies AS build
COPY . .
RUN --network=none node scripts/images/installed.mjs && node scripts/prepare.mjs && \
    node scripts/image-trees.mjs trees

# The files of all images, one directory for each target. Without access to npm, another directory
# can replace this stage: see docs/images.md.
FROM scratch AS trees
COPY --from=build /src/trees /

# The base image without its package managers, in one layer that all images share.
FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS base-files
WORKDIR /base
COPY --from=node / ./
RUN rm -rf usr/local/lib/node_modules usr/local/include/node opt/yarn-* \
    usr/local/bin/npm usr/local/bin/npx usr/local/bin/corepack \
    usr/local/bin/yarn usr/local/bin/yarnpkg usr/local/bin/docker-entrypoint.sh

FROM scratch AS base
COPY --from=base-files /base /
# The thresholds of glibc grow with the first large buffer, unless one is set. Then free memory stays
# with the process.
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    NODE_ENV=production \
    MALLOC_TRIM_THRESHOLD_=131072
WORKDIR /app
# Only the agent needs root, because the kubelet's sockets belong to root. Its Pod has a runAsUser. A
# number, so that runAsNonRoot can be checked.
USER 1000:1000
ENTRYPOINT ["node"]
ARG VERSION=0.1.0
# The commit and the address of the sources, if the builder knows them: bake.json passes both on.
ARG REVISION=""
ARG SOURCE=""
LABEL org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.licenses="Apache-2.0"

# The binary of the npm package usb for the platform of the image.
FROM base AS with-usb
ARG TARGETARCH
COPY --from=trees /usb-$TARGETARCH/app /app

FROM with-usb AS agent
COPY --from=trees /agent/app /app
LABEL org.opencontainers.image.title="akri-agent-slim" \
      org.opencontainers.image.description="The agent of Akri with the handlers that run in it"
CMD ["/app/akri-agent.js"]

FROM base AS controller
COPY --from=trees /controller/app /app
LABEL org.opencontainers.image.title="akri-controller" \
      org.opencontainers.image.description="The controller of Akri, and the clean-up before an uninstall"
CMD ["/app/akri-controller.js"]

FROM base AS webhook
COPY --from=trees /webhook/app /app
LABEL org.opencontainers.image.title="akri-webhook" \
      org.opencontainers.image.description="The webhook of Akri, with the handlers whose details it checks"
CMD ["/app/akri-webhook.js"]

# A Pod names the handlers: node node_modules/@akrijs/sdk/dist/akri-handler.js @akrijs/handler-onvif
FROM with-usb AS handlers
COPY --from=trees /handlers/app /app
LABEL org.opencontainers.image.title="akri-handlers" \
      org.opencontainers.image.description="The discovery handlers of Akri"
CMD ["/app/node_modules/@akrijs/sdk/dist/akri-handler.js"]

# What `serverDetails` of the OPC UA handler needs besides, 9 MB: see docs/handlers/opcua.md.
FROM handlers AS handlers-with-opcua-client
COPY --from=trees /handlers-with-opcua-client/app /app
LABEL org.opencontainers.image.title="akri-handlers-opcua-client"

FROM with-usb AS all
COPY --from=trees /all/app /app
LABEL org.opencontainers.image.title="akri-agent" \
      org.opencontainers.image.description="All programs and discovery handlers of Akri"
CMD ["/app/akri-agent.js"]

FROM all AS with-opcua-client
COPY --from=trees /with-opcua-client/app /app
LABEL org.opencontainers.image.title="akri-agent-opcua-client"

# Without a target, docker builds the last stage.
FROM all
