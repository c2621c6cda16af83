import { INSTANCES } from '@akrijs/api'
import { type ApiClientOptions, Reflector, Resource } from '@akrijs/kube'
import { systemClock } from '@akrijs/runtime'
import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest'
import { eventually } from '../support/eventually.js'
import { clientOfCluster } from './support/client.js'
import { describeOnCluster, OwnNamespace } from './support/cluster.js'
import { type InstanceObject, instanceOf } from './support/instances.js'

describeOnCluster('a reflector on an API server', () => {
  let home: OwnNamespace
  let instances: Resource
  let stop: AbortController
  let running: Promise<void>[]

  beforeEach(async () => {
    home = await OwnNamespace.make()
    instances = new Resource(home.client, INSTANCES)
    stop = new AbortController()
    running = []
  })

  afterEach(async () => {
    stop.abort()
    await Promise.all(running)
    await home.remove()
  })

  const put = (name: string) => instances.create(home.name, instanceOf(home.name, name))
  const putMany = () => Promise.all(Array.from({ length: 20 }, (_, i) => put(`thing-${i}`)))

  /** A client that reports its answers. */
  async function counted(onAnswer: NonNullable<ApiClientOptions['onAnswer']>) {
    const client = await clientOfCluster(undefined, { onAnswer })
    onTestFinished(() => client.close())
    return client
  }

  function follow(
    client = home.client,
    options: { pageSize?: number; listsNewest?: boolean } = {},
  ) {
    const reflector = new Reflector<InstanceObject>({
      client,
      clock: systemClock,
      path: instances.path(home.name),
      parse: (object) => object as InstanceObject,
      onError: () => {},
      ...options,
    })
    running.push(reflector.run(stop.signal))
    return reflector
  }

  const stateOf = (objects: readonly InstanceObject[]) =>
    objects
      .map(({ metadata: { name, resourceVersion }, spec }) => [name, resourceVersion, spec])
      .toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1))

  const converged = (reflector: Reflector<InstanceObject>) =>
    eventually(async () => {
      const list = await home.client.request({ method: 'GET', path: instances.path(home.name) })
      expect(stateOf(reflector.list())).toEqual(stateOf((list as { items: [] }).items))
    })

  it('reads 20 objects in pages of 3', async () => {
    await putMany()
    let answers = 0
    const options = { pageSize: 3, listsNewest: true }
    const reflector = follow(await counted(() => answers++), options)
    await reflector.synced
    expect(reflector.list()).toHaveLength(20)
    expect(answers).toBeGreaterThanOrEqual(7)
    await converged(reflector)
  })

  it('begins with a stream of objects, or a list of a server without streams', async () => {
    await putMany()
    const refused: number[] = []
    const client = await counted(({ status }) => void (status >= 400 && refused.push(status)))
    const first = follow(client)
    await first.synced
    await converged(first)
    const isRefused = refused.length > 0
    expect(refused.every((status) => status === 400 || status === 422)).toBe(true)
    const second = follow(client)
    await second.synced
    await converged(second)
    // The refusal is remembered.
    expect(refused).toHaveLength(isRefused ? 1 : 0)
    await put('later')
    await Promise.all([converged(first), converged(second)])
  })

  it('reports 250 concurrent writes exactly', async () => {
    const reflector = follow()
    const told = new Map<string, number>()
    reflector.onChange((changed) => told.set(changed, (told.get(changed) ?? 0) + 1), stop.signal)
    await reflector.synced
    const all = Array.from({ length: 100 }, (_, i) => home.key(`thing-${i}`))
    await Promise.all(
      all.map(async (key, i) => {
        await put(`thing-${i}`)
        await instances.patch(key, 'merge', { spec: { capacity: i + 3 } })
        if (i % 2 === 0) await instances.delete(key)
      }),
    )
    await converged(reflector)
    expect(reflector.list()).toHaveLength(50)
    for (const [i, key] of all.entries()) expect(told.get(key)).toBe(i % 2 === 0 ? 3 : 2)
  })
})
