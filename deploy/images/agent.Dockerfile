# The image of the agent. Build it from a clone:
#   docker build -f deploy/images/agent.Dockerfile -t localhost/akri-agent:0.1.0 .
# The controller (node /app/akri-controller.js), the webhook (node /app/akri-webhook.js) and
# handlers in containers of their own use the same image:
#   node /app/node_modules/@akrijs/sdk/dist/akri-handler.js @akrijs/handler-udev
FROM node:24-slim AS build
WORKDIR /src
COPY . .
RUN node scripts/prepare.mjs && node scripts/image-tree.mjs /tree

FROM node:24-slim
COPY --from=build /tree/app /app
WORKDIR /app
ENV NODE_ENV=production
# The agent and handlers need root: the kubelet's sockets belong to root, and so does the directory
# that agent and handlers share. The controller and the webhook do not: their containers have a
# runAsUser.
USER 0
ENTRYPOINT ["node"]
CMD ["/app/akri-agent.js"]
