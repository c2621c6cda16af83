import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { InvalidOptionError, messageOf, nearest } from '@akrijs/runtime'
import {
  type DeviceList,
  DiscoveryProperties,
  findHandlerPackage,
  type HandlerPackage,
} from '@akrijs/runtime/handler'
import { handlerSpecifier, type ProcessContext } from '@akrijs/runtime/program'
import { openDiscovery } from '@akrijs/sdk/host'
import { BUILT_IN_HANDLERS, HANDLERS_FROM } from '../built-in-handlers.js'
import type { DiscoverOptions } from '../command-options.js'
import { propertiesText } from '../view/object-text.js'
import { formatTable } from '../view/table.js'

/** `akri discover`: shows the devices that a handler finds, without an agent. */
export async function discover(
  handler: string,
  options: DiscoverOptions,
  { log, signal, stop, mayBlock }: ProcessContext,
): Promise<void> {
  const { loaded, details, properties } = await mayBlock(async () => ({
    loaded: await (await findHandler(handler, HANDLERS_FROM)).load(),
    details: await detailsOf(options),
    properties: await propertiesOf(options.property),
  }))
  const lists = openDiscovery(loaded, { details, properties, signal, log })
  for await (const list of lists) {
    process.stdout.write(`${options.json ? JSON.stringify(list) : table(list)}\n`)
    if (!options.watch) stop()
  }
}

/**
 * Finds a handler by the name of a built-in handler, the name of a package, or a path.
 * @throws InvalidOptionError if the name is a misspelt name of a built-in handler
 */
export async function findHandler(handler: string, from: string): Promise<HandlerPackage> {
  const builtIn = Object.hasOwn(BUILT_IN_HANDLERS, handler) ? BUILT_IN_HANDLERS[handler] : undefined
  if (builtIn !== undefined) return findHandlerPackage(builtIn, from)
  return findHandlerPackage(handlerSpecifier(handler), from).catch((error: unknown) => {
    const similar = nearest(handler, Object.keys(BUILT_IN_HANDLERS))
    if (similar === undefined) throw error
    const message = `there is no handler ${handler}; did you mean ${similar}?`
    throw new InvalidOptionError(message, { cause: error })
  })
}

function table(list: DeviceList): string {
  if (list.length === 0) return 'nothing found'
  return formatTable(
    ['ID', 'PROPERTIES', 'NODES'],
    list.map(({ id, properties = {}, deviceSpecs = [] }) => [
      id,
      propertiesText(Object.entries(properties).filter(([, value]) => value !== id)),
      deviceSpecs.map(({ hostPath, permissions }) => `${hostPath}:${permissions}`).join(' '),
    ]),
  )
}

async function detailsOf({ details, detailsText }: DiscoverOptions): Promise<string> {
  if (details !== undefined && detailsText !== undefined)
    throw new InvalidOptionError('give one of --details and --details-text')
  return details === undefined ? (detailsText ?? '') : await readText(details, '--details')
}

async function propertiesOf(properties: readonly string[]): Promise<DiscoveryProperties> {
  const values = properties.map(async (property): Promise<[string, Uint8Array]> => {
    const [, name, at, value] = /^([_A-Za-z]\w*)=(@?)(.*)$/s.exec(property) ?? []
    if (name === undefined || value === undefined)
      throw new InvalidOptionError(
        `--property ${JSON.stringify(property)} is not NAME=VALUE or NAME=@FILE`,
      )
    return [name, Buffer.from(at === '@' ? await readText(value, '--property') : value)]
  })
  return new DiscoveryProperties(await Promise.all(values))
}

async function readText(file: string, option: string): Promise<string> {
  try {
    // Not /dev/stdin, which cannot be opened if it is a socket.
    return await (file === '-' ? text(process.stdin) : readFile(file, 'utf8'))
  } catch (error) {
    throw new InvalidOptionError(`${option} ${file} cannot be read: ${messageOf(error)}`, {
      cause: error,
    })
  }
}
