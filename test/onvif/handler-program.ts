import { serve } from '@akrijs/sdk'
import { createOnvifHandler } from '../../handlers/onvif/src/index.js'
import { createLogger } from '../../runtime/src/program/create-logger.js'

// The ONVIF handler as a program with the interval of its rounds. Arguments: DIRECTORY INTERVAL_MS.

const [directory, intervalMs] = process.argv.slice(2)
const stop = new AbortController()
process.on('disconnect', () => stop.abort())
const server = await serve(createOnvifHandler({ intervalMs: Number(intervalMs) }), {
  directory: directory ?? '',
  log: createLogger('akri-handler', { level: process.env.LOG_LEVEL ?? 'error' }),
  signal: stop.signal,
})
await server.closed
process.exit(0)
