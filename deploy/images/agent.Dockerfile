# The image of the agent, from a clone:  docker build -f deploy/images/agent.Dockerfile -t localhost/akri-agent:0.1.0 .
# It also serves handlers as containers of their own:
#   node /app/node_modules/@akrijs/sdk/dist/akri-handler.js @akrijs/handler-udev
FROM node:24-slim AS build
WORKDIR /src
COPY . .
RUN node scripts/prepare.mjs && node scripts/image-tree.mjs /tree

FROM node:24-slim
COPY --from=build /tree/app /app
WORKDIR /app
ENV NODE_ENV=production
# The sockets of the kubelet are root's. A handler that runs by itself needs no root: give its container a runAsUser.
USER 0
ENTRYPOINT ["node"]
CMD ["/app/akri-agent.js"]
