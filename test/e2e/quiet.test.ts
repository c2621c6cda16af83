import { performance } from 'node:perf_hooks'
import { type ConfigurationStatus, NODE_REPORTS } from '@akrijs/api'
import { objectKey, Resource } from '@akrijs/kube'
import { systemClock } from '@akrijs/runtime'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { freePort } from './support/free-port.js'
import { NodeAgent } from './support/node-agent.js'
import { missingHere, NODE_1, NODES, setAvailable, unlessHere } from './support/nodes.js'
import { echoYaml, eventually, podYaml, World } from './support/world.js'

// Writes of agents to the API server, by their own metrics. Rejected writes and writes that change
// nothing count too.

const QUIET_MS = 30_000
/** Longer than changes are collected, and than a retry after a conflict takes. */
const SETTLED_MS = 3000
/** The least time between two reports of one node. */
const GATHER_MS = 100

const devices = (count: number) => Array.from({ length: count }, (_, index) => `device-${index}`)

describe.skipIf(missingHere() !== undefined)(`what agents write${unlessHere}`, () => {
  const open: { readonly agent: NodeAgent; readonly port: number }[] = []
  let world: World

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
    for (const node of NODES) {
      const port = await freePort()
      const agent = await NodeAgent.create(node, { METRICS_PORT: String(port) })
      open.push({ agent, port })
      await agent.start()
    }
  })

  afterEach(() => world.clear())

  afterAll(async () => {
    for (const { agent } of open) await agent.dispose()
    await world?.close()
  })

  /** Requests of all agents since their start, by method. */
  async function writes(): Promise<Record<string, number>> {
    const sums: Record<string, number> = { POST: 0, PUT: 0, PATCH: 0, DELETE: 0 }
    for (const { port } of open) {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
      for (const [, method = '', count] of text.matchAll(
        /^akri_api_requests_total\{method="([A-Z]+)",status="\d+"\} (\d+)$/gm,
      ))
        if (method in sums) sums[method] = (sums[method] ?? 0) + Number(count)
    }
    return sums
  }

  /** Waits until no agent has written for a while. */
  async function settled(): Promise<Record<string, number>> {
    return eventually(async () => {
      const before = await writes()
      await systemClock.sleep(SETTLED_MS)
      expect(await writes()).toEqual(before)
      return before
    })
  }

  async function status(): Promise<Pick<ConfigurationStatus, 'devices' | 'slots'>> {
    const usages = (await world.instances()).map(({ spec }) => Object.values(spec.deviceUsage))
    const slots = usages.flat()
    const claimed = slots.filter((usage) => usage !== '').length
    return { devices: usages.length, slots: { total: slots.length, claimed } }
  }

  /** The Pods that use slots of each Instance, in the report of the first node. */
  async function usedSlots(): Promise<string[][]> {
    const report = await new Resource(world.client, NODE_REPORTS).get(objectKey('', NODE_1))
    const { slots = {} } = report as { slots?: Record<string, { readonly pod: string }[]> }
    return Object.values(slots).map((used) => used.map(({ pod }) => pod))
  }

  it('is nothing for half a minute without changes, while a Pod uses a device', async () => {
    await world.apply(echoYaml('cam', devices(20), 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([20, 20]))
    await world.apply(podYaml('p', { 'akri.sh/cam': 1 }, { node: NODE_1 }))
    await eventually(() => world.running('p'))
    await eventually(async () =>
      expect(await status()).toEqual({ devices: 20, slots: { total: 40, claimed: 1 } }),
    )
    await eventually(async () => expect(await usedSlots()).toEqual([[`${world.namespace}/p`]]))
    const before = await settled()
    await systemClock.sleep(QUIET_MS)
    expect(await writes()).toEqual(before)
    await world.running('p')

    await world.remove('Pod', 'p')
    await eventually(async () => expect(await status()).toMatchObject({ slots: { claimed: 0 } }))
    await eventually(async () => expect(await usedSlots()).toEqual([]))
    const { PATCH: patches = 0, ...others } = await settled()
    expect(others).toMatchObject({ POST: before.POST, PUT: before.PUT, DELETE: before.DELETE })
    // The slot, again after a conflict, and the report that had the Pod.
    expect(patches - (before.PATCH ?? 0)).toBeGreaterThanOrEqual(2)
    expect(patches - (before.PATCH ?? 0)).toBeLessThanOrEqual(3)
  })

  it('is each of many new Instances once, and a report now and then', async () => {
    const count = 60
    const before = await settled()
    const begun = performance.now()
    await world.apply(echoYaml('cam', devices(count), 1))
    const made = async () =>
      (await world.instances()).filter(({ spec }) => spec.nodes.length === NODES.length)
    await eventually(async () => expect(await made()).toHaveLength(count))
    const tookMs = performance.now() - begun
    await eventually(async () =>
      expect(await status()).toEqual({ devices: count, slots: { total: count, claimed: 0 } }),
    )
    const after = await settled()
    // One node creates an Instance and the other node joins; if both try to create it, one request
    // is rejected.
    expect((after.POST ?? 0) - (before.POST ?? 0)).toBeLessThanOrEqual(2 * NODES.length * count)
    const statuses = (after.PATCH ?? 0) - (before.PATCH ?? 0) - count
    expect(statuses).toBeLessThan(NODES.length * (tookMs / GATHER_MS + 4))
    expect(statuses).toBeGreaterThan(0)
    expect(after).toMatchObject({ PUT: before.PUT, DELETE: before.DELETE })
  })
})
