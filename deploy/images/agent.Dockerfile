# The image of the agent, from a clone:  docker build -f deploy/images/agent.Dockerfile -t localhost/akri-agent:0.1.0 .
# It is also that of the controller (node /app/akri-controller.js), of the webhook (node /app/akri-webhook.js), and of handlers as
# containers of their own:
#   node /app/node_modules/@akrijs/sdk/dist/akri-handler.js @akrijs/handler-udev
FROM node:24-slim AS build
WORKDIR /src
COPY . .
RUN node scripts/prepare.mjs && node scripts/image-tree.mjs /tree

FROM node:24-slim
COPY --from=build /tree/app /app
WORKDIR /app
ENV NODE_ENV=production
# For the agent and for handlers: the kubelet's sockets are root's, and so is the directory in which agent and handlers have theirs.
# The controller and the webhook need no root: their containers have a runAsUser.
USER 0
ENTRYPOINT ["node"]
CMD ["/app/akri-agent.js"]
