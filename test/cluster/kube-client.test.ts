import {
  type ApiClient,
  ApiError,
  type ApiObject,
  LeaderElection,
  type ObjectKey,
  objectKey,
  pointer,
  Reflector,
  Resource,
} from '@akrijs/kube'
import { systemClock } from '@akrijs/sdk'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { accessOfCluster, clientOfCluster, describeOnCluster, makeNamespace, removeNamespace } from './support/cluster.js'
import { FaultProxy } from './support/fault-proxy.js'

const API_VERSION = 'akri.sh/v0'
const CONFIGURATIONS = { group: 'akri.sh', version: 'v0', plural: 'configurations' }
const INSTANCES = { group: 'akri.sh', version: 'v0', plural: 'instances' }
const LEASES = { group: 'coordination.k8s.io', version: 'v1', plural: 'leases' }

interface InstanceObject extends ApiObject {
  readonly metadata: ApiObject['metadata'] & { readonly uid: string; readonly labels?: Record<string, string> }
  readonly spec: Record<string, unknown>
  readonly status?: unknown
}

describeOnCluster('the client on an API server', () => {
  let client: ApiClient
  let namespace: string
  let configurations: Resource
  let instances: Resource
  let names = 0

  beforeAll(async () => {
    client = await clientOfCluster()
    namespace = await makeNamespace(client)
    configurations = new Resource(client, CONFIGURATIONS)
    instances = new Resource(client, INSTANCES)
  })

  afterAll(async () => {
    await removeNamespace(client, namespace)
    client.close()
  })

  const uniqueName = () => `thing-${names++}`
  const key = (name: string) => objectKey(namespace, name)

  const instanceOf = (name: string, spec: object = {}) => ({
    apiVersion: API_VERSION,
    kind: 'Instance',
    metadata: { name, namespace },
    spec: { configurationName: 'c', cdiName: 'akri.sh/c=8120fe', capacity: 2, ...spec },
  })

  async function created(spec: object = {}, name = uniqueName()): Promise<{ key: ObjectKey; object: InstanceObject }> {
    return { key: key(name), object: (await instances.create(namespace, instanceOf(name, spec))) as InstanceObject }
  }

  const configurationOf = (spec: object, name = uniqueName()) => ({
    apiVersion: API_VERSION,
    kind: 'Configuration',
    metadata: { name, namespace },
    spec: { discoveryHandler: { name: 'debugEcho' }, ...spec },
  })

  async function refusal(work: Promise<unknown>): Promise<ApiError> {
    try {
      await work
    } catch (error) {
      if (error instanceof ApiError) return error
      throw error
    }
    return expect.fail('it was not refused')
  }

  describe('the schema of a Configuration', () => {
    const property = (one: object) => ({
      discoveryHandler: { name: 'debugEcho', discoveryProperties: [{ name: 'KEY', ...one }] },
    })
    const reference = { name: 'secret', key: 'password' }

    it.each([
      ['no discovery handler', { discoveryHandler: undefined }, 'discoveryHandler'],
      ['a discovery handler without a name', { discoveryHandler: {} }, 'name'],
      ['an empty name of a discovery handler', { discoveryHandler: { name: '' } }, 'name'],
      ['a capacity of 0', { capacity: 0 }, 'capacity'],
      ['a capacity below 0', { capacity: -1 }, 'capacity'],
      ['a capacity of 10001', { capacity: 10_001 }, 'capacity'],
      ['a capacity that is a text', { capacity: '1' }, 'capacity'],
      ['both kinds of brokers', { brokerSpec: { brokerPodSpec: {}, brokerJobSpec: {} } }, 'brokerSpec'],
      ['a property without a value', property({}), 'discoveryProperties'],
      [
        'a property with a value and a source',
        property({ value: 'a', valueFrom: { secretKeyRef: reference } }),
        'discoveryProperties',
      ],
      [
        'a property with two sources',
        property({ valueFrom: { secretKeyRef: reference, configMapKeyRef: reference } }),
        'valueFrom',
      ],
      ['a property with an empty source', property({ valueFrom: {} }), 'valueFrom'],
      ['a source without a key', property({ valueFrom: { secretKeyRef: { name: 'secret' } } }), 'key'],
      ['a property named as no variable can be', property({ name: '1-a', value: 'a' }), 'name'],
      ['a broker property that is no text', { brokerProperties: { A: 5 } }, 'brokerProperties'],
    ])('refuses %s, and says where', async (_what, spec, where) => {
      const error = await refusal(configurations.create(namespace, configurationOf(spec)))
      expect(error).toMatchObject({ status: 422, reason: 'Invalid', kind: 'terminal' })
      expect(error.message).toContain(where)
    })

    it('refuses a name that makes names of resources that are too long', async () => {
      const error = await refusal(configurations.create(namespace, configurationOf({}, 'x'.repeat(57))))
      expect(error).toMatchObject({ status: 422 })
      expect(error.message).toContain('metadata.name')
      await configurations.create(namespace, configurationOf({}, 'x'.repeat(56)))
    })

    it.each([
      ['a value', property({ value: 'a' })],
      ['a Secret', property({ valueFrom: { secretKeyRef: { ...reference, namespace: 'other', optional: true } } })],
      ['a ConfigMap', property({ valueFrom: { configMapKeyRef: reference } })],
      ['no properties', { discoveryHandler: { name: 'debugEcho', discoveryProperties: null } }],
      ['a Pod', { brokerSpec: { brokerPodSpec: { containers: [{ name: 'a', image: 'b' }], anything: { deep: [1] } } } }],
      ['a Job', { brokerSpec: { brokerJobSpec: { template: {} } } }],
      ['no broker', { brokerSpec: null }],
    ])('accepts %s and keeps it', async (_what, spec) => {
      expect(await configurations.create(namespace, configurationOf(spec))).toMatchObject({
        spec: JSON.parse(JSON.stringify(spec).replaceAll(',"discoveryProperties":null', '')) as object,
      })
    })

    it('has defaults', async () => {
      expect(await configurations.create(namespace, configurationOf({}))).toMatchObject({
        spec: { capacity: 1, discoveryHandler: { name: 'debugEcho', discoveryDetails: '' } },
      })
    })

    it('has a status that only a write to the status changes, and the spec is not changed by it', async () => {
      const object = configurationOf({})
      const own = key(object.metadata.name)
      const status = { devices: 3, conditions: [condition('Ready', 'True')] }
      expect(await configurations.create(namespace, { ...object, status })).not.toHaveProperty('status')
      await configurations.patch(own, 'merge', { status })
      expect(await configurations.get(own)).not.toHaveProperty('status')
      await configurations.patch(own, 'merge', { status, spec: { capacity: 9 } }, { subresource: 'status' })
      expect(await configurations.get(own)).toMatchObject({ status, spec: { capacity: 1 }, metadata: { generation: 1 } })
    })

    it('lets each node write what it has to say without a word of the others', async () => {
      const object = configurationOf({})
      const own = key(object.metadata.name)
      await configurations.create(namespace, object)
      const nodes = Array.from({ length: 10 }, (_, i) => `node-${i}`)
      await Promise.all(
        nodes.map((node, i) =>
          configurations.patch(own, 'merge', { status: { nodes: { [node]: { devices: i } } } }, { subresource: 'status' }),
        ),
      )
      expect(await configurations.get(own)).toMatchObject({
        status: { nodes: Object.fromEntries(nodes.map((node, i) => [node, { devices: i }])) },
      })
    })
  })

  describe('the schema of an Instance', () => {
    it('has defaults', async () => {
      const { object } = await created()
      expect(object.spec).toMatchObject({ nodes: [], deviceUsage: {}, brokerProperties: {}, shared: false })
    })

    it('refuses a node that is there already', async () => {
      const { key: own } = await created({ nodes: ['node-a'] })
      const join = (node: string) => instances.patch(own, 'json', [{ op: 'add', path: '/spec/nodes/-', value: node }])
      expect(await join('node-b')).toMatchObject({ spec: { nodes: ['node-a', 'node-b'] } })
      const error = await refusal(join('node-b'))
      expect(error).toMatchObject({ status: 422, reason: 'Invalid' })
      expect(error.message).toContain('Duplicate')
    })

    it('loses none of many nodes that join at the same time', async () => {
      const { key: own } = await created()
      const nodes = Array.from({ length: 20 }, (_, i) => `node-${i}`)
      await Promise.all(nodes.map((node) => instances.patch(own, 'json', [{ op: 'add', path: '/spec/nodes/-', value: node }])))
      const { spec } = (await instances.get(own)) as InstanceObject
      expect((spec.nodes as string[]).toSorted()).toEqual(nodes.toSorted())
    })
  })

  describe('patches', () => {
    it('by JSON: a test that fails is 422, says so, and nothing is written', async () => {
      const { key: own, object } = await created({ deviceUsage: { 'slot-0': '' } })
      const path = pointer('spec', 'deviceUsage', 'slot-0')
      const claim = (value: string) =>
        instances.patch(own, 'json', [
          { op: 'test', path, value: '' },
          { op: 'replace', path, value },
        ])
      expect(await claim('node-a')).toMatchObject({ spec: { deviceUsage: { 'slot-0': 'node-a' } } })
      const error = await refusal(claim('node-b'))
      expect(error).toMatchObject({ status: 422, reason: 'Invalid' })
      const after = (await instances.get(own)) as InstanceObject
      expect(after.spec.deviceUsage).toEqual({ 'slot-0': 'node-a' })
      expect(after.metadata.uid).toBe(object.metadata.uid)
    })

    it('by JSON: of many claims of one slot one succeeds', async () => {
      const { key: own } = await created({ deviceUsage: { 'slot-0': '' } })
      const path = pointer('spec', 'deviceUsage', 'slot-0')
      const outcomes = await Promise.allSettled(
        Array.from({ length: 20 }, (_, i) =>
          instances.patch(own, 'json', [
            { op: 'test', path, value: '' },
            { op: 'replace', path, value: `node-${i}` },
          ]),
        ),
      )
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
      for (const outcome of outcomes)
        if (outcome.status === 'rejected') expect([409, 422]).toContain((outcome.reason as ApiError).status)
    })

    it('by JSON: names with slashes and tildes are found', async () => {
      const { key: own } = await created({ deviceUsage: { 'a/b~c': '' } })
      const patched = await instances.patch(own, 'json', [
        { op: 'replace', path: pointer('spec', 'deviceUsage', 'a/b~c'), value: 'node-a' },
      ])
      expect(patched).toMatchObject({ spec: { deviceUsage: { 'a/b~c': 'node-a' } } })
    })

    it('by merging: what is null goes, what is not named stays', async () => {
      const { key: own } = await created({ deviceUsage: { a: '1', b: '2' } })
      const patched = (await instances.patch(own, 'merge', { spec: { deviceUsage: { a: null, c: '3' } } })) as InstanceObject
      expect(patched.spec).toMatchObject({ deviceUsage: { b: '2', c: '3' }, capacity: 2 })
    })

    it('by applying: makes the object, and takes away what it applied before', async () => {
      const name = uniqueName()
      const apply = (brokerProperties: object) => instances.apply(key(name), instanceOf(name, { brokerProperties }), 'tests')
      await apply({ A: '1', B: '2' })
      await instances.patch(key(name), 'merge', { spec: { brokerProperties: { other: 'x' } } })
      expect(await apply({ B: '3' })).toMatchObject({ spec: { brokerProperties: { B: '3', other: 'x' } } })
      const { spec } = (await instances.get(key(name))) as InstanceObject
      expect(spec.brokerProperties).toEqual({ B: '3', other: 'x' })
    })

    it('of what is not there are 404', async () => {
      expect(await refusal(instances.patch(key('nothing'), 'merge', {}))).toMatchObject({ status: 404, reason: 'NotFound' })
      expect(await instances.get(key('nothing'))).toBeUndefined()
    })
  })

  describe('writes', () => {
    it('create an object once', async () => {
      const { object } = await created()
      const again = instances.create(namespace, instanceOf(object.metadata.name))
      expect(await refusal(again)).toMatchObject({ status: 409, reason: 'AlreadyExists' })
    })

    it('replace what is as it was read only', async () => {
      const { key: own, object } = await created()
      await instances.replace(own, { ...object, spec: { ...object.spec, capacity: 3 } })
      const late = instances.replace(own, { ...object, spec: { ...object.spec, capacity: 4 } })
      expect(await refusal(late)).toMatchObject({ status: 409, reason: 'Conflict', kind: 'transient' })
    })

    it('delete what is as it must be only, and say whether it was there', async () => {
      const { key: own, object } = await created()
      const { uid, resourceVersion } = object.metadata
      await instances.patch(own, 'merge', { spec: { capacity: 3 } })
      expect(await refusal(instances.delete(own, { uid: 'another' }))).toMatchObject({ status: 409, reason: 'Conflict' })
      expect(await refusal(instances.delete(own, { uid, resourceVersion }))).toMatchObject({ status: 409 })
      expect(await instances.delete(own, { uid })).toBe(true)
      expect(await instances.delete(own)).toBe(false)
    })

    it('to a namespace that is not there are 404', async () => {
      expect(await refusal(instances.create('akri-test-nowhere', { ...instanceOf('a'), metadata: { name: 'a' } }))).toMatchObject(
        {
          status: 404,
        },
      )
    })
  })

  describe('a reflector', () => {
    let own: string
    let stop: AbortController
    let running: Promise<void>[]
    let ends: (() => unknown)[]

    beforeEach(async () => {
      own = await makeNamespace(client)
      stop = new AbortController()
      running = []
      ends = []
    })

    afterEach(async () => {
      stop.abort()
      await Promise.all(running)
      for (const end of ends) await end()
      await removeNamespace(client, own)
    })

    const there = (name: string) => objectKey(own, name)
    const put = (name: string, spec: object = {}) =>
      instances.create(own, { ...instanceOf(name, spec), metadata: { name, namespace: own } })

    function follow(through = client, options: { pageSize?: number; silenceMs?: number; onError?: () => void } = {}) {
      const reflector = new Reflector<InstanceObject>({
        client: through,
        clock: systemClock,
        path: instances.path(own),
        parse: (object) => object as InstanceObject,
        onError: () => {},
        ...options,
      })
      running.push(reflector.run(stop.signal))
      return reflector
    }

    const stateOf = (objects: readonly InstanceObject[]) =>
      objects.map(({ metadata, spec }) => `${metadata.name} ${metadata.resourceVersion} ${JSON.stringify(spec)}`).toSorted()

    async function truth(): Promise<string[]> {
      const list = (await client.request({ method: 'GET', path: instances.path(own) })) as { items: InstanceObject[] }
      return stateOf(list.items)
    }

    const converged = (reflector: Reflector<InstanceObject>, timeout = 20_000) =>
      vi.waitFor(async () => expect(stateOf(reflector.list())).toEqual(await truth()), { timeout, interval: 100 })

    it('reads 20 objects in pages of 3', async () => {
      await Promise.all(Array.from({ length: 20 }, (_, i) => put(`thing-${i}`)))
      let answers = 0
      const counted = await clientOfCluster(undefined, { onAnswer: () => answers++ })
      ends.push(() => counted.close())
      const reflector = follow(counted, { pageSize: 3 })
      await reflector.synced
      expect(reflector.list()).toHaveLength(20)
      expect(answers).toBeGreaterThanOrEqual(7)
      expect(stateOf(reflector.list())).toEqual(await truth())
    })

    it('follows what comes, changes and goes', async () => {
      const reflector = follow()
      await reflector.synced
      await put('a')
      await vi.waitFor(() => expect(reflector.get(there('a'))?.spec.capacity).toBe(2))
      await instances.patch(there('a'), 'merge', { spec: { capacity: 5 } })
      await vi.waitFor(() => expect(reflector.get(there('a'))?.spec.capacity).toBe(5))
      await instances.delete(there('a'))
      await vi.waitFor(() => expect(reflector.get(there('a'))).toBeUndefined())
    })

    it('tells of 600 writes at the same time exactly', async () => {
      const reflector = follow()
      const told = new Map<string, number>()
      reflector.onChange((changed) => told.set(changed, (told.get(changed) ?? 0) + 1), stop.signal)
      await reflector.synced
      const all = Array.from({ length: 200 }, (_, i) => `thing-${i}`)
      await Promise.all(
        all.map(async (name, i) => {
          await put(name)
          await instances.patch(there(name), 'merge', { spec: { capacity: i + 3 } })
          if (i % 2 === 0) await instances.delete(there(name))
        }),
      )
      await converged(reflector)
      expect(reflector.list()).toHaveLength(100)
      for (const [i, name] of all.entries()) expect(told.get(there(name))).toBe(i % 2 === 0 ? 3 : 2)
    })

    it('that takes over what writes answer is never behind its own writes', async () => {
      const reflector = follow()
      await reflector.synced
      await Promise.all(
        Array.from({ length: 20 }, async (_, i) => {
          reflector.observe(await put(`thing-${i}`))
          for (let capacity = 3; capacity < 8; capacity++) {
            reflector.observe(await instances.patch(there(`thing-${i}`), 'merge', { spec: { capacity } }))
            expect(reflector.get(there(`thing-${i}`))?.spec.capacity).toBe(capacity)
          }
        }),
      )
      await converged(reflector)
    })

    describe('behind a network in trouble', () => {
      async function behindProxy() {
        const proxy = await FaultProxy.open(await accessOfCluster())
        const through = await clientOfCluster(proxy.access, { timeoutMs: 3000 })
        ends.push(
          () => through.close(),
          () => proxy.close(),
        )
        let failures = 0
        // No shorter than a watch must last to count as one that works.
        const reflector = follow(through, { silenceMs: 6000, onError: () => failures++ })
        await reflector.synced
        return { proxy, reflector, failures: () => failures }
      }

      /** Something comes, something changes and something goes. */
      async function change(round: string): Promise<void> {
        await put(`new-${round}`)
        await put(`gone-${round}`)
        await instances.delete(there(`gone-${round}`))
        await instances.patch(there('changed'), 'merge', { spec: { brokerProperties: { round } } })
        await instances.delete(there('gone'))
        await put('gone', { brokerProperties: { round } })
      }

      beforeEach(async () => {
        await put('changed')
        await put('gone')
      })

      it('follows as without it', async () => {
        const { reflector, failures } = await behindProxy()
        await change('well')
        await converged(reflector)
        expect(failures()).toBe(0)
      })

      it('knows the truth after connections were cut, again and again', async () => {
        const { proxy, reflector, failures } = await behindProxy()
        for (const round of ['a', 'b', 'c']) {
          proxy.cut()
          await change(round)
          await converged(reflector)
        }
        expect(failures()).toBeGreaterThan(0)
      })

      it('knows the truth after the connection hung', async () => {
        const { proxy, reflector, failures } = await behindProxy()
        proxy.hang()
        await change('hung')
        await vi.waitFor(() => expect(failures()).toBeGreaterThan(0), { timeout: 15_000 })
        proxy.heal()
        await converged(reflector, 30_000)
      }, 60_000)

      it.each([429, 500, 503, 410, 401])(
        'knows the truth after all was refused with %i for a while',
        async (status) => {
          const { proxy, reflector, failures } = await behindProxy()
          proxy.refuse(status)
          proxy.cut()
          await change('refused')
          await vi.waitFor(() => expect(failures()).toBeGreaterThan(1), { timeout: 30_000 })
          const asked = proxy.requests
          proxy.heal()
          await converged(reflector, 30_000)
          expect(asked).toBeLessThan(30)
        },
        70_000,
      )
    })
  })

  describe('leader election', () => {
    interface Candidate {
      readonly election: LeaderElection
      stop(): Promise<void>
    }

    let name: string
    let leading: string[]
    let atOnce: number
    let candidates: Candidate[]
    let ends: (() => unknown)[]

    beforeEach(() => {
      name = uniqueName()
      leading = []
      atOnce = 0
      candidates = []
      ends = []
    })

    afterEach(async () => {
      await Promise.all(candidates.map(({ stop }) => stop()))
      for (const end of ends) await end()
    })

    function candidate(identity: string, through = client): Candidate {
      const stop = new AbortController()
      const election = new LeaderElection({
        client: through,
        clock: systemClock,
        namespace,
        name,
        identity,
        leaseMs: 6000,
        renewDeadlineMs: 4000,
        retryMs: 200,
        onError: () => {},
      })
      const ran = election.run(stop.signal, async (turn) => {
        leading.push(identity)
        atOnce = Math.max(atOnce, leading.length)
        await new Promise((resolve) => turn.addEventListener('abort', resolve, { once: true }))
        leading.splice(leading.indexOf(identity), 1)
      })
      const one = {
        election,
        stop() {
          stop.abort()
          return ran
        },
      }
      candidates.push(one)
      return one
    }

    const leads = (identity: string, timeout = 15_000) =>
      vi.waitFor(() => expect(leading).toEqual([identity]), { timeout, interval: 20 })

    it('lets one of two lead, and the other one as soon as it ends', async () => {
      const a = candidate('a')
      await leads('a')
      candidate('b')
      // Longer than the Lease is good: it is renewed.
      await systemClock.sleep(8000)
      expect(leading).toEqual(['a'])
      await a.stop()
      const lease = (await new Resource(client, LEASES).get(key(name))) as { spec: { holderIdentity: string } }
      expect(lease.spec.holderIdentity).not.toBe('a')
      await leads('b')
      expect(atOnce).toBe(1)
    }, 60_000)

    it('lets another one lead after the leader lost its connection, never both', async () => {
      const proxy = await FaultProxy.open(await accessOfCluster())
      const through = await clientOfCluster(proxy.access)
      ends.push(
        () => through.close(),
        () => proxy.close(),
      )
      candidate('a', through)
      await leads('a')
      candidate('b')
      proxy.hang()
      await leads('b')
      proxy.heal()
      await systemClock.sleep(1000)
      expect(leading).toEqual(['b'])
      expect(atOnce).toBe(1)
    }, 60_000)
  })
})

function condition(type: string, status: string) {
  return { type, status, reason: 'Reason', message: 'message', lastTransitionTime: '2026-01-01T00:00:00Z' }
}
