# The image of the agent. Build it from a clone:
#   docker build -f deploy/images/agent.Dockerfile -t localhost/akri-agent:0.1.0 .
# The controller (node /app/akri-controller.js), the webhook (node /app/akri-webhook.js) and
# handlers in containers of their own use the same image:
#   node /app/node_modules/@akrijs/sdk/dist/akri-handler.js @akrijs/handler-udev

# The digest is that of all platforms. After a release of Node.js, or a fix in Debian, take the new
# tag and digest, and run node scripts/shipped.mjs --check:
#   docker buildx imagetools inspect node:24-bookworm-slim --format '{{.Manifest.Digest}}'
FROM node:24.21.0-bookworm-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6 AS base

FROM base AS build
WORKDIR /src
COPY . .
RUN node scripts/prepare.mjs && node scripts/image-tree.mjs /tree

FROM base
COPY --from=build /tree/app /app
WORKDIR /app
ENV NODE_ENV=production
# The controller, the webhook and handlers in containers of their own need no root. The agent does:
# the kubelet's sockets belong to root. Its Pod has a runAsUser. A number, so that runAsNonRoot can
# be checked.
USER 1000:1000
ENTRYPOINT ["node"]
CMD ["/app/akri-agent.js"]
