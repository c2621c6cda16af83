// The process in which a handler runs of `akri discover FILE --watch`, and of the page that tries
// Configurations. Node.js loads a module once, so each version of the author's files gets a process
// of its own. A trial cannot hurt the agent there.
import { fileURLToPath } from 'node:url'
import { detailsWarnings } from '@akrijs/api'
import { chainOf, fieldOf, systemClock } from '@akrijs/runtime'
import { createLogger, failureText, redirectOutput, watchLoop } from '@akrijs/runtime/program'
import { DiscoveryProperties } from '@akrijs/sdk/handler'
import { endWithStdin, followDiscovery } from '@akrijs/sdk/host'
import { HANDLERS_FROM } from './built-in-handlers.js'
import { type Showing, showLists } from './commands/discover.js'
import { findHandler } from './handler-source.js'
import { listText } from './view/list-text.js'
import { terminalLogger } from './view/terminal-log.js'
import type {
  DiscoveryProcessMessage,
  DiscoveryProcessRequest,
} from './watch/discovery-messages.js'

const stop = new AbortController()
// The terminal sends Ctrl-C to this process too; its parent ends it.
process.on('SIGINT', () => {})
process.on('SIGTERM', () => stop.abort())
// If the parent is killed, also while a handler blocks this thread.
endWithStdin()
process.on('disconnect', () => process.exit())
process.on('uncaughtException', fail)

process.once('message', (request: DiscoveryProcessRequest) => {
  followHandler(request).then(() => process.exit(), fail)
})

async function followHandler(request: DiscoveryProcessRequest): Promise<void> {
  const { logFormat, logLevel } = request
  const log =
    logFormat === 'json'
      ? createLogger('akri', { level: logLevel })
      : terminalLogger(logLevel, request.isColored)
  redirectOutput(log, 'warn')
  watchLoop(new URL('./loop-watch.js', import.meta.url), {
    program: 'akri',
    isText: logFormat !== 'json',
  })
  const load = async () => (await findHandler(request.handler, HANDLERS_FROM)).load()
  const properties = new DiscoveryProperties(request.properties)
  const { details } = request
  if (request.isOnce) return followOnce({ ...request, properties, load, log })
  const handler = await load()
  for (const warning of await detailsWarnings(details, handler))
    log.warn({ warning }, 'details may be wrong')
  for await (const list of followDiscovery(handler, {
    details,
    properties,
    signal: stop.signal,
    log,
  }))
    await send({ list: listText(list, request.form) })
}

/** The code of `akri discover` without `--watch`. */
async function followOnce(
  showing: Pick<Showing, 'details' | 'properties' | 'load' | 'log'> &
    Pick<DiscoveryProcessRequest, 'handler' | 'form'>,
): Promise<void> {
  let sent = Promise.resolve()
  await showLists({
    ...showing,
    watch: false,
    once: false,
    handlerName: showing.handler,
    signal: stop.signal,
    stop: () => stop.abort(),
    clock: systemClock,
    show: (list) => {
      sent = send({ list: listText(list, showing.form) })
    },
    tell: (message, text) => showing.log.warn({ text }, message),
  })
  await sent
}

async function fail(error: unknown): Promise<void> {
  await send({ failure: failureText('akri', error), missing: missingFile(error) })
  process.exit(1)
}

/** The file that an import has not found: the error, or a cause of it, has its URL. */
function missingFile(error: unknown): string | undefined {
  for (const link of chainOf(error)) {
    const url = fieldOf(link, 'url')
    const isMissing = fieldOf(link, 'code') === 'ERR_MODULE_NOT_FOUND'
    if (isMissing && typeof url === 'string' && url.startsWith('file:')) return fileURLToPath(url)
  }
  return undefined
}

function send(message: DiscoveryProcessMessage): Promise<void> {
  return new Promise((resolve) => process.send?.(message, undefined, undefined, () => resolve()))
}
