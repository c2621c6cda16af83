import { INSTANCES } from '@akrijs/api'
import { type ApiClient, objectKey, Reflector, Resource } from '@akrijs/kube'
import { systemClock } from '@akrijs/runtime'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'
import { accessOfCluster, clientOfCluster } from './support/client.js'
import { describeOnCluster, makeNamespace, removeNamespace } from './support/cluster.js'
import { FaultProxy } from './support/fault-proxy.js'
import { type InstanceObject, instanceOf } from './support/instances.js'

describeOnCluster('the client on an API server', () => {
  let client: ApiClient
  let instances: Resource

  beforeAll(async () => {
    client = await clientOfCluster()
    instances = new Resource(client, INSTANCES)
  })

  afterAll(() => client.close())

  describe('a reflector', () => {
    let ownNamespace: string
    let stop: AbortController
    let running: Promise<void>[]
    let ends: (() => unknown)[]

    beforeEach(async () => {
      ownNamespace = await makeNamespace(client)
      stop = new AbortController()
      running = []
      ends = []
    })

    afterEach(async () => {
      stop.abort()
      await Promise.all(running)
      for (const end of ends) await end()
      await removeNamespace(client, ownNamespace)
    })

    const there = (name: string) => objectKey(ownNamespace, name)
    const put = (name: string, spec: object = {}) =>
      instances.create(ownNamespace, instanceOf(ownNamespace, name, spec))

    function follow(
      through = client,
      options: {
        pageSize?: number
        listsNewest?: boolean
        onError?: () => void
      } = {},
    ) {
      const reflector = new Reflector<InstanceObject>({
        client: through,
        clock: systemClock,
        path: instances.path(ownNamespace),
        parse: (object) => object as InstanceObject,
        onError: () => {},
        ...options,
      })
      running.push(reflector.run(stop.signal))
      return reflector
    }

    const stateOf = (objects: readonly InstanceObject[]) =>
      objects
        .map(
          ({ metadata, spec }) =>
            `${metadata.name} ${metadata.resourceVersion} ${JSON.stringify(spec)}`,
        )
        .toSorted()

    async function truth(): Promise<string[]> {
      const list = (await client.request({
        method: 'GET',
        path: instances.path(ownNamespace),
      })) as {
        items: InstanceObject[]
      }
      return stateOf(list.items)
    }

    const converged = (reflector: Reflector<InstanceObject>) =>
      eventually(async () => expect(stateOf(reflector.list())).toEqual(await truth()))

    it('reads 20 objects in pages of 3', async () => {
      await Promise.all(Array.from({ length: 20 }, (_, i) => put(`thing-${i}`)))
      let answers = 0
      const counted = await clientOfCluster(undefined, { onAnswer: () => answers++ })
      ends.push(() => counted.close())
      const reflector = follow(counted, { pageSize: 3, listsNewest: true })
      await reflector.synced
      expect(reflector.list()).toHaveLength(20)
      expect(answers).toBeGreaterThanOrEqual(7)
      expect(stateOf(reflector.list())).toEqual(await truth())
    })

    it('reads objects of which an answer can have only a few', async () => {
      const brokerProperties = { TEXT: 'x'.repeat(20_000) }
      await Promise.all(
        Array.from({ length: 20 }, (_, i) => put(`thing-${i}`, { brokerProperties })),
      )
      const narrow = await clientOfCluster(undefined, { maxBytes: 100_000 })
      ends.push(() => narrow.close())
      const reflector = follow(narrow, { listsNewest: true })
      await reflector.synced
      expect(stateOf(reflector.list())).toEqual(await truth())
    })

    it('begins with a stream of objects, or a list of a server without streams', async () => {
      await Promise.all(Array.from({ length: 20 }, (_, i) => put(`thing-${i}`)))
      const refused: number[] = []
      const counted = await clientOfCluster(undefined, {
        onAnswer: ({ status }) => void (status >= 400 && refused.push(status)),
      })
      ends.push(() => counted.close())
      const first = follow(counted)
      await first.synced
      await converged(first)
      const isRefused = refused.length > 0
      expect(refused.every((status) => status === 400 || status === 422)).toBe(true)
      const second = follow(counted)
      await second.synced
      await converged(second)
      // The refusal is remembered.
      expect(refused).toHaveLength(isRefused ? 1 : 0)
      await put('later')
      await Promise.all([converged(first), converged(second)])
    })

    it('follows objects that come, change and go', async () => {
      const reflector = follow()
      await reflector.synced
      await put('a')
      await eventually(() => expect(reflector.get(there('a'))?.spec.capacity).toBe(2))
      await instances.patch(there('a'), 'merge', { spec: { capacity: 5 } })
      await eventually(() => expect(reflector.get(there('a'))?.spec.capacity).toBe(5))
      await instances.delete(there('a'))
      await eventually(() => expect(reflector.get(there('a'))).toBeUndefined())
    })

    it('reports 250 concurrent writes exactly', async () => {
      const reflector = follow()
      const told = new Map<string, number>()
      reflector.onChange((changed) => told.set(changed, (told.get(changed) ?? 0) + 1), stop.signal)
      await reflector.synced
      const all = Array.from({ length: 100 }, (_, i) => `thing-${i}`)
      await Promise.all(
        all.map(async (name, i) => {
          await put(name)
          await instances.patch(there(name), 'merge', { spec: { capacity: i + 3 } })
          if (i % 2 === 0) await instances.delete(there(name))
        }),
      )
      await converged(reflector)
      expect(reflector.list()).toHaveLength(50)
      for (const [i, name] of all.entries()) expect(told.get(there(name))).toBe(i % 2 === 0 ? 3 : 2)
    })

    it('that observes the answers to writes is never behind its own writes', async () => {
      const reflector = follow()
      await reflector.synced
      await Promise.all(
        Array.from({ length: 20 }, async (_, i) => {
          reflector.observe(await put(`thing-${i}`))
          for (let capacity = 3; capacity < 8; capacity++) {
            reflector.observe(
              await instances.patch(there(`thing-${i}`), 'merge', { spec: { capacity } }),
            )
            expect(reflector.get(there(`thing-${i}`))?.spec.capacity).toBe(capacity)
          }
        }),
      )
      await converged(reflector)
    })

    it('has the state of the server after cut connections, and after refusals', async () => {
      await put('changed')
      await put('gone')
      const proxy = await FaultProxy.open(await accessOfCluster())
      const through = await clientOfCluster(proxy.access, { timeoutMs: 3000 })
      ends.push(
        () => through.close(),
        () => proxy.close(),
      )
      let failures = 0
      const reflector = follow(through, { onError: () => failures++ })
      await reflector.synced
      /** Something comes, something changes and something goes. */
      const change = async (round: string) => {
        await put(`new-${round}`)
        await put(`gone-${round}`)
        await instances.delete(there(`gone-${round}`))
        await instances.patch(there('changed'), 'merge', { spec: { brokerProperties: { round } } })
        await instances.delete(there('gone'))
        await put('gone', { brokerProperties: { round } })
      }
      for (const round of ['a', 'b']) {
        proxy.cut()
        await change(round)
        await converged(reflector)
      }
      expect(failures).toBeGreaterThan(0)
      failures = 0
      proxy.refuse(503)
      proxy.cut()
      await change('refused')
      await eventually(() => expect(failures).toBeGreaterThan(1))
      proxy.heal()
      await converged(reflector)
    })
  })
})
