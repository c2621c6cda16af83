import { Latest } from '@akrijs/runtime'
import {
  type Device,
  type DeviceList,
  type DiscoveryHandler,
  defineDiscoveryHandler,
} from '@akrijs/sdk'
import * as z from 'zod'
import type { DeviceLists, HandlerName } from './protocol.js'

/** What the handlers of one node find: the bench decides. */
export class CommandedDevices {
  readonly #devices = new Map<string, Device>()
  readonly #found = new Map<string, DeviceList>()
  readonly #readers = new Set<{ readonly of: string; readonly lists: Latest<DeviceList> }>()

  find(devices: DeviceLists): void {
    for (const [configuration, ids] of Object.entries(devices))
      this.#give(
        configuration,
        ids.map((id) => this.#device(id)),
      )
  }

  findMore(devices: DeviceLists): void {
    for (const [configuration, ids] of Object.entries(devices)) {
      const before = this.#found.get(configuration) ?? []
      this.#give(configuration, [...before, ...ids.map((id) => this.#device(id))])
    }
  }

  handler(name: HandlerName): DiscoveryHandler {
    return defineDiscoveryHandler<unknown>({
      name,
      shared: name === 'benchShared',
      details: z.unknown(),
      discover: ({ details, signal }) => this.#lists(String(details), signal),
    })
  }

  #give(configuration: string, list: DeviceList): void {
    this.#found.set(configuration, list)
    for (const { of, lists } of this.#readers) if (of === configuration) lists.push(list)
  }

  /** A device that is still there is the same object, as in the lists of udev. */
  #device(id: string): Device {
    const device = this.#devices.get(id) ?? { id, properties: { BENCH_DEVICE: id } }
    this.#devices.set(id, device)
    return device
  }

  async *#lists(of: string, signal: AbortSignal): AsyncGenerator<DeviceList, void, void> {
    const lists = new Latest<DeviceList>()
    signal.addEventListener('abort', () => lists.end())
    const reader = { of, lists }
    this.#readers.add(reader)
    lists.push(this.#found.get(of) ?? [])
    try {
      yield* lists
    } finally {
      this.#readers.delete(reader)
    }
  }
}
