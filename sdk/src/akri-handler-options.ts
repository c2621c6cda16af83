import { integer, logLevelOption, text } from '@akrijs/runtime/program'

const port = [0, 65_535] as const
/** The options of `akri-handler`. The flags and the docs come from here. */
export const akriHandlerOptions = {
  directory: text({
    argument: '<path>',
    meaning: "the directory of the agent's agent-registration.sock and of the handlers' sockets",
    variable: 'DISCOVERY_HANDLERS_DIRECTORY',
  }),
  podIp: text({
    argument: '<address>',
    meaning: 'serve on this address instead of a unix socket',
    variable: 'POD_IP',
  }),
  port: integer(port, {
    argument: '<port>',
    meaning: 'port on that address; each further handler takes the next port',
    default: 10_000,
  }),
  metricsPort: integer(port, {
    argument: '<port>',
    meaning: 'serve /healthz, /readyz and /metrics there',
    variable: 'METRICS_PORT',
  }),
  logLevel: logLevelOption(),
}
