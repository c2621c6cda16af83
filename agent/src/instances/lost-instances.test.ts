import type { ConfigurationName } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { DeviceSet } from '../discovery/device-set.js'
import { DEVICE_BOUNDS } from '../limits.js'
import { found, NODE, seen, setOf } from '../testing/objects.js'
import { ReconcilerHarness } from '../testing/reconciler-harness.js'

let world: ReconcilerHarness
let cluster: ReconcilerHarness['cluster']

beforeEach(async () => {
  world = await ReconcilerHarness.open()
  cluster = world.cluster
})

const many = (count: number, prefix = 'foo') =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`)
/** The devices of a Configuration that no handler has answered for. */
const unknown = (): DeviceSet => ({ ...seen(), complete: false })

describe('the Instances of a node', () => {
  it('are lost if devices went while no agent ran, once all handlers have answered', async () => {
    world.allocate('foo0')
    world.allocate('foo1', `${world.wanted.name}-other`)
    world.allocate('foo2', world.name('foo2'))
    world.allocate('foo4')
    await world.createOfOthers('foo4', [NODE], { 'akri.sh/device-id': 'foo4' })
    await world.reconcile({ ...seen('foo3'), complete: false })
    expect(world.lost).toEqual([])
    for (const _ of [1, 2]) await world.reconcile(seen('foo3'))
    const gone = ['foo0', 'foo2', 'foo4']
    expect(world.lost).toEqual(
      gone.map((id) => ({
        id: id === 'foo4' ? id : undefined,
        instance: world.name(id),
        configuration: world.wanted.name,
      })),
    )
  })

  it('are not lost with a device that is found again, or listed beyond a bound', async () => {
    world.allocate('foo0')
    await world.reconcile()
    const { devices: listed } = world.devices
    await world.reconcile({ ...seen(), leftOut: { devices: 1, bound: 'slots', listed } })
    expect(world.calls).toContain(`withdraw ${world.name('foo0')}`)
    world.make()
    await world.reconcile()
    expect(world.lost).toEqual([])
  })

  it.each(['serveConfiguration', 'serve'] as const)(
    'are not lost if their Configuration is deleted during a pass (%s)',
    async (method) => {
      await world.reconcile()
      vi.spyOn(world.plugins, method).mockImplementationOnce(async () => {
        await cluster.apply()
        world.devices = unknown()
      })
      await world.reconcile(setOf(found({ id: 'foo0' }, { healthy: false })))
      await world.reconcile()
      const withdrawn = [`withdraw ${world.key}`, `withdraw ${world.name('foo0')}`]
      expect([world.calls.slice(-2), world.lost]).toEqual([withdrawn, []])
    },
  )

  it('are not lost while their Configuration is deleted and created again', async () => {
    await world.reconcile()
    await cluster.apply()
    await cluster.apply(world.wanted)
    expect(await world.callsOf(() => world.reconcile(unknown()))).toEqual([
      `withdraw ${world.key}`,
      `withdraw ${world.name('foo0')}`,
      `serve ${world.wanted.name}`,
    ])
    expect(world.lost).toEqual([])
    world.allocate('foo0')
    await world.reconcile(seen())
    expect(world.lost).toMatchObject([{ instance: world.name('foo0') }])
  })

  it.each<[string, () => Promise<void> | void]>([
    ['their agent ends', () => world.stop.abort()],
    ['their Configuration is deleted', () => cluster.apply()],
    ['their Configuration is edited', () => world.edit({ capacity: 3 })],
    [
      'their devices are gone',
      () => {
        world.devices = seen('foo0')
      },
    ],
  ])('are created no more while %s', async (_, change) => {
    const create = cluster.createInstance.bind(cluster)
    let changing: Promise<void> | undefined
    const creating = vi.spyOn(cluster, 'createInstance').mockImplementation(async (draft) => {
      const outcome = await create(draft)
      changing ??= Promise.resolve(change())
      await changing
      return outcome
    })
    expect(await world.reconcile(seen(...many(200)))).toEqual({ requeueAfterMs: 0 })
    // Those that were under way.
    expect(creating.mock.calls.length).toBeLessThanOrEqual(2 * 16)
    const served = world.calls.filter((call) => call.startsWith('serve'))
    expect(served.length).toBeLessThanOrEqual(2 * 16 + 1)
  })
})

describe('the Instances of a list that changes with each write', () => {
  const flapping = many(80, 'a-')
  let version = 0

  /** Lists other properties of the flapping devices, and the same steady devices. */
  const flap = (...steady: string[]) => {
    const VERSION = String(++version)
    const others = flapping.map((id) => found({ id, properties: { NAME: id, VERSION } }))
    world.devices = setOf(...others, ...seen(...steady).devices.values())
  }

  const flapWithEachWrite = (...steady: string[]) => {
    flap(...steady)
    const { updateInstance, createInstance } = cluster
    vi.spyOn(cluster, 'updateInstance').mockImplementation(async (...args) => {
      await undefined
      flap(...steady)
      return updateInstance.apply(cluster, args)
    })
    vi.spyOn(cluster, 'createInstance').mockImplementation(async (...args) => {
      await undefined
      flap(...steady)
      return createInstance.apply(cluster, args)
    })
  }

  it.each([
    ['', false],
    [', also if others are not written', true],
  ])('are created for new devices and left with gone ones in turn%s', async (_, isFailing) => {
    await world.reconcile(seen(...flapping, 'gone'))
    expect(world.spec('gone')).toBeDefined()
    flapWithEachWrite('z-new')
    if (isFailing)
      vi.spyOn(cluster, 'updateInstance').mockImplementation(async () => {
        await undefined
        flap('z-new')
        throw new TypeError('refused')
      })
    for (const _ of flapping) await world.reconcile().catch(() => {})
    expect([world.spec('z-new'), world.spec('gone')]).toEqual([expect.anything(), undefined])
  })

  it('are offered as healthy or unhealthy at once, before any write', async () => {
    await world.reconcile(seen(...flapping))
    flapWithEachWrite()
    await world.reconcile()
    const [last = expect.fail()] = [...world.devices.devices.values()].slice(-1)
    const { id } = last.device
    const devices = setOf(...world.devices.devices.values(), { ...last, healthy: false })
    const calls = await world.callsOf(() => world.reconcile(devices))
    const offline = calls.indexOf(`serve ${world.name(id)} unhealthy`)
    expect(offline).toBeGreaterThanOrEqual(0)
    expect(offline).toBeLessThan(calls.findIndex((call) => call.startsWith('changed')))
  })

  it('take a burst of changes, and then a rate, and delay no other Configuration', async () => {
    const other = { ...world.wanted, name: 'other' as ConfigurationName }
    await cluster.apply(world.wanted, other)
    world.make(cluster.configurations, { ...DEVICE_BOUNDS, perNode: 20 })
    const created = (name: string) =>
      cluster.instances.list().filter(({ spec }) => spec.configurationName === name).length
    for (let pass = 0; pass < 20; pass++)
      expect(await world.reconcile(seen(...flapping))).toEqual({ requeueAfterMs: 1000 })
    // The resource of the Configuration is a change too.
    expect(created(world.wanted.name)).toBe(39)
    world.devices = seen(...flapping.slice(0, 15))
    expect(await world.reconciler.reconcile(objectKey('default', other.name))).toEqual({})
    expect(created(other.name)).toBe(15)
    await world.clock.advance(1000)
    for (let pass = 0; pass < 20; pass++) await world.reconcile(seen(...flapping))
    expect(created(world.wanted.name)).toBe(59)
  })
})
