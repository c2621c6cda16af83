import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { HostController } from './support/host-controller.js'
import { missing, NODES, unless } from './support/nodes.js'
import { echoYaml, eventually, World } from './support/world.js'

// The load of a controller on the API server. There are no agents: the Pods ask for a resource that
// no node has, so only the controller and the API server work.

const INSTANCES = 200
const BROKERS = INSTANCES * NODES.length
/** Lists, watches, the Lease and its renewals. */
const OVERHEAD = 60

interface Made {
  readonly metadata: {
    readonly name: string
    readonly uid: string
    readonly labels: Readonly<Record<string, string>>
  }
}

describe.skipIf(missing() !== undefined)(`the load of a controller${unless}`, () => {
  let world: World
  let controller: HostController

  const requests = async () => {
    const { GET = 0, POST = 0, PATCH = 0, DELETE = 0 } = await controller.requests()
    return { GET, POST, PATCH, DELETE }
  }

  beforeAll(async () => {
    world = await World.open()
    controller = new HostController('one', world.namespace)
    const limits = { '{{PLACEHOLDER}}': '1' }
    const brokerPodSpec = { containers: [{ name: 'c', image: 'x', resources: { limits } }] }
    const ports = [{ name: 'p', port: 80, protocol: 'TCP' }]
    await world.apply(
      echoYaml('cam', [], 2, { brokerSpec: { brokerPodSpec }, instanceServiceSpec: { ports } }),
    )
    const configuration = (await world.get<Made>('Configuration', 'cam')) ?? expect.fail()
    const owner = {
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      name: 'cam',
      uid: configuration.metadata.uid,
      controller: true,
    }
    for (let index = 0; index < INSTANCES; index++) {
      const name = `cam-${String(index).padStart(6, '0')}`
      await world.api('Instance').create(world.namespace, {
        apiVersion: 'akri.sh/v0',
        kind: 'Instance',
        metadata: { name, labels: { 'akri.sh/shared': 'true' }, ownerReferences: [owner] },
        spec: {
          configurationName: 'cam',
          cdiName: `akri.sh/${name}`,
          capacity: 2,
          shared: true,
          nodes: [...NODES],
        },
      })
    }
  })

  afterAll(async () => {
    await controller?.stop()
    await world?.close()
  })

  it(`creates ${BROKERS} brokers of ${INSTANCES} Instances with one request for each`, async () => {
    await controller.lead()
    await eventually(async () => expect(await world.list('Pod')).toHaveLength(BROKERS), 120_000)
    // The API server counts a request after its answer.
    const { GET, POST, PATCH, DELETE } = await eventually(async () => {
      const now = await requests()
      expect(now.POST).toBeGreaterThanOrEqual(BROKERS)
      return now
    })
    expect(GET + POST + PATCH + DELETE).toBeLessThanOrEqual(BROKERS + OVERHEAD)
  })

  it(`creates ${INSTANCES} Services with two requests for each`, async () => {
    const before = await requests()
    const pods = await world.list<Made>('Pod')
    // Sets the status that a kubelet would set, for one broker of each Instance.
    for (const { metadata } of pods.filter(
      ({ metadata: { labels } }) => labels['akri.sh/target-node'] === NODES[0],
    )) {
      const conditions = [{ type: 'Ready', status: 'True' }]
      await world
        .api('Pod')
        .patch(
          world.key(metadata.name),
          'merge',
          { status: { phase: 'Running', conditions } },
          { subresource: 'status' },
        )
    }
    await eventually(
      async () => expect(await world.list('Service')).toHaveLength(INSTANCES),
      120_000,
    )
    const after = await eventually(async () => {
      const now = await requests()
      expect(now.PATCH - before.PATCH).toBeGreaterThanOrEqual(INSTANCES)
      return now
    })
    expect(after.PATCH - before.PATCH).toBe(INSTANCES)
    expect(after.GET - before.GET).toBeLessThanOrEqual(INSTANCES + OVERHEAD)
    expect([after.POST, after.DELETE]).toEqual([before.POST, before.DELETE])
  })

  it('changes nothing after a restart, and sends only its lists', async () => {
    const uids = async () =>
      (await world.list<Made>('Pod')).map(({ metadata }) => metadata.uid).sort()
    const before = await uids()
    await controller.stop()
    await controller.lead()
    // The last action shows that all others are done.
    await world.remove('Pod', (await world.list<Made>('Pod'))[0]?.metadata.name ?? '')
    await eventually(async () => {
      const now = await uids()
      expect(now).toHaveLength(BROKERS)
      expect(now).not.toEqual(before)
    })
    expect((await uids()).filter((uid) => before.includes(uid))).toHaveLength(BROKERS - 1)
    const { GET, POST, PATCH, DELETE } = await eventually(async () => {
      const now = await requests()
      expect(now.POST).toBeGreaterThan(0)
      return now
    })
    // The broker, and at most one renewal of the Lease.
    expect([POST, PATCH, DELETE]).toEqual([1, 0, 0])
    expect(GET).toBeLessThanOrEqual(OVERHEAD)
  })
})
