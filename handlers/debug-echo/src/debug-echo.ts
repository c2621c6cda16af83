import { open } from 'node:fs/promises'
import path from 'node:path'
import {
  type DeviceList,
  type DiscoveryHandler,
  defineDiscoveryHandler,
  every,
  InvalidHandlerError,
} from '@akrijs/sdk'
import * as z from 'zod'

export interface DebugEchoOptions {
  /** Whether the nodes share the devices. @default true */
  readonly shared?: boolean
  /**
   * While this file contains `OFFLINE`, there are no devices. @default
   * '/tmp/debug-echo-availability.txt'
   */
  readonly availabilityFile?: string
  /** The interval between reads of that file, in milliseconds. @default 1000 */
  readonly intervalMs?: number
}

/** The handler reads only the start of the availability file. */
const MAX_BYTES = 64 * 1024

const details = z.strictObject({
  descriptions: z.array(z.string().min(1)).max(10_000),
})

/** A handler for tests and first steps: it offers one device for each of `descriptions`. */
export function createDebugEcho(
  options: DebugEchoOptions = {},
): DiscoveryHandler<z.infer<typeof details>> {
  const {
    shared = true,
    availabilityFile = '/tmp/debug-echo-availability.txt',
    intervalMs = 1000,
  } = options
  return defineDiscoveryHandler({
    name: 'debugEcho',
    shared,
    details,
    async *discover({ details: { descriptions }, signal, log }) {
      const online: DeviceList = [...new Set(descriptions)].map((description) => ({
        id: description,
        properties: { DEBUG_ECHO_DESCRIPTION: description },
      }))
      let wasOffline = false
      for await (const _ of every(intervalMs, { signal })) {
        const offline = await isOffline(availabilityFile)
        if (offline !== wasOffline) log.info({ offline, availabilityFile }, 'availability changed')
        wasOffline = offline
        yield offline ? [] : online
      }
    },
  })
}

/**
 * Reads `DEBUG_ECHO_INSTANCES_SHARED`, which Akri's chart sets, and `DEBUG_ECHO_AVAILABILITY_FILE`,
 * so that several agents on one machine can have separate files.
 * @throws InvalidHandlerError if the first is neither `true` nor `false`, or the second is not an
 * absolute path
 */
export function optionsFromEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
): DebugEchoOptions {
  const {
    DEBUG_ECHO_INSTANCES_SHARED: shared = 'true',
    DEBUG_ECHO_AVAILABILITY_FILE: availabilityFile,
  } = environment
  if (shared !== 'true' && shared !== 'false')
    throw new InvalidHandlerError(
      `DEBUG_ECHO_INSTANCES_SHARED is ${JSON.stringify(shared)}; it must be true or false`,
    )
  if (availabilityFile !== undefined && !path.isAbsolute(availabilityFile))
    throw new InvalidHandlerError(
      `DEBUG_ECHO_AVAILABILITY_FILE is ${JSON.stringify(availabilityFile)}; it must be an ` +
        'absolute path',
    )
  return {
    shared: shared === 'true',
    ...(availabilityFile === undefined ? {} : { availabilityFile }),
  }
}

/** With an unreadable file, the devices are available. */
async function isOffline(file: string): Promise<boolean> {
  try {
    await using handle = await open(file)
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(MAX_BYTES), 0, MAX_BYTES, 0)
    return buffer.subarray(0, bytesRead).includes('OFFLINE')
  } catch {
    return false
  }
}
