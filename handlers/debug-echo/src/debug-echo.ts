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
  /** Whether other nodes are to be thought to see the same devices. @default true */
  readonly shared?: boolean
  /** While this file contains `OFFLINE`, all devices are gone. @default '/tmp/debug-echo-availability.txt' */
  readonly availabilityFile?: string
  /** How often that file is looked at, in milliseconds. @default 1000 */
  readonly intervalMs?: number
}

/** As much of the availability file as is looked at. */
const MAX_BYTES = 64 * 1024

const details = z.strictObject({
  descriptions: z.array(z.string().min(1)).max(10_000),
})

/** A handler that finds what it is told to find: one device for each of `descriptions`. For tests and first steps. */
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
 * `DEBUG_ECHO_INSTANCES_SHARED` as the chart of the existing system sets it, and `DEBUG_ECHO_AVAILABILITY_FILE`, which is ours:
 * agents beside each other on one machine need not lose their devices together.
 * @throws {InvalidHandlerError} where the first is neither `true` nor `false`, or the second no absolute path
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
      `DEBUG_ECHO_AVAILABILITY_FILE is ${JSON.stringify(availabilityFile)}; it must be an absolute path`,
    )
  return {
    shared: shared === 'true',
    ...(availabilityFile === undefined ? {} : { availabilityFile }),
  }
}

/** A file that cannot be read says nothing: the devices are there. */
async function isOffline(file: string): Promise<boolean> {
  try {
    await using handle = await open(file)
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(MAX_BYTES), 0, MAX_BYTES, 0)
    return buffer.subarray(0, bytesRead).includes('OFFLINE')
  } catch {
    return false
  }
}
