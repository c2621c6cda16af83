import type { SlotName } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import type { SlotClaim } from '../cluster/cluster.js'
import { ObjectStore } from '../cluster/object-store.js'
import { noopObserver } from '../report/observer.js'
import { SlotBook } from '../slots/slot-book.js'
import { SlotClaims } from '../slots/slot-claims.js'
import { instanceWith, servedWith } from '../testing/objects.js'
import { InstancePlugin } from './instance-plugin.js'
import type { PluginOptions } from './plugin-behaviour.js'

const NODE = 'node-a' as NodeName
const slot = (index: number) => `cam-8120fe-${index}` as SlotName
const served = servedWith({
  device: {
    id: 'foo0',
    mounts: [{ containerPath: '/data', hostPath: '/srv/0', readOnly: true }],
    deviceSpecs: [{ containerPath: '/dev/video0', hostPath: '/dev/video0', permissions: 'rw' }],
  },
  capacity: 3,
})

let instances: ObjectStore<ReturnType<typeof instanceWith>>
/** The calls of the plugin, and the answers to its claims. */
let calls: string[]
let answer: (slot: SlotName) => Promise<SlotClaim>
let book: SlotBook
let options: PluginOptions
let plugin: InstancePlugin

beforeEach(() => {
  instances = new ObjectStore()
  instances.put(instanceWith({}, { capacity: 3 }))
  calls = []
  answer = async () => ({ outcome: 'claimed' })
  const clock = new ManualClock()
  book = new SlotBook({ cluster: { instances }, node: NODE, kubelet: { pods: undefined }, clock })
  book.serve(served)
  const cluster: ConstructorParameters<typeof SlotClaims>[0]['cluster'] = {
    claimSlot: (_key, name, usage) => {
      calls.push(`claim ${name} ${usage}`)
      return answer(name)
    },
    releaseSlot: async (_key, name, usage) => {
      calls.push(`release ${name} ${usage}`)
      return 'released'
    },
  }
  const claims = new SlotClaims({ cluster, clock, observer: noopObserver })
  options = { book, claims, node: NODE }
  plugin = new InstancePlugin(served.name, options)
})

const allocate = (...requests: SlotName[][]) => plugin.allocate(requests)

describe('the behaviour of an Instance’s plugin', () => {
  it('A19 allocates the device nodes and mounts of the device after an update', async () => {
    const device = {
      id: 'foo0',
      mounts: [{ containerPath: '/data', hostPath: '/srv/7', readOnly: false }],
      deviceSpecs: [{ containerPath: '/dev/video0', hostPath: '/dev/video7', permissions: 'r' }],
    }
    book.serve({ ...served, device })
    const [allocation] = await allocate([slot(0)])
    expect(allocation).toMatchObject({ mounts: device.mounts, devices: device.deviceSpecs })
  })

  it('R31 allocates each container its slots, and claims each slot once', async () => {
    const allocations = await allocate([slot(0), slot(1)], [slot(2)], [slot(1)])
    expect(allocations.map(({ annotations }) => Object.values(annotations))).toEqual([
      [slot(0), slot(1)],
      [slot(2)],
      [slot(1)],
    ])
    expect(calls).toEqual([0, 1, 2].map((index) => `claim ${slot(index)} node-a`))
  })

  it('A17 releases every claim of a failed request, and no earlier claim', async () => {
    const answers = new Map<SlotName, SlotClaim>([
      [slot(0), { outcome: 'claimed' }],
      [slot(1), { outcome: 'claimed' }],
      [slot(2), { outcome: 'taken', by: 'node-b' }],
    ])
    answer = async (name) => answers.get(name) ?? expect.fail()
    await expect(allocate([slot(0)], [slot(1), slot(2)])).rejects.toThrow(
      'just taken by node node-b',
    )
    const releases = () => calls.filter((call) => call.startsWith('release'))
    expect(releases()).toEqual([`release ${slot(0)} node-a`, `release ${slot(1)} node-a`])
    calls = []
    answers.set(slot(0), { outcome: 'taken', by: 'node-a' })
    await expect(allocate([slot(0)], [slot(1), slot(2)])).rejects.toThrow(
      'just taken by node node-b',
    )
    expect(releases()).toEqual([`release ${slot(1)} node-a`])
  })

  it('R68 opens a directory per slot, and mounts it into each of its containers', async () => {
    const opened: SlotName[] = []
    const open = async (_instance: ObjectKey, name: SlotName) => {
      opened.push(name)
      return `/reports/${name}`
    }
    plugin = new InstancePlugin(served.name, { ...options, directories: { open } })
    const allocations = await allocate([slot(0)], [slot(1)], [slot(0)])
    expect(opened).toEqual([slot(0), slot(1)])
    const mounted = allocations.map(({ mounts }) => mounts[0])
    expect(mounted.map((mount) => [mount?.containerPath, mount?.hostPath])).toEqual([
      ['/run/akri/cam-8120fe', `/reports/${slot(0)}`],
      ['/run/akri/cam-8120fe', `/reports/${slot(1)}`],
      ['/run/akri/cam-8120fe', `/reports/${slot(0)}`],
    ])
  })

  it('A16 R84 prefers no slot of a running container whose claim the Instance lost', () => {
    book.allocations.record({ slot: slot(0), resourceName: 'akri.sh/cam', id: '0' })
    const request = { available: [0, 1, 2].map(slot), mustInclude: [], size: 3 }
    expect(plugin.prefer([request])).toEqual([[slot(1), slot(2)]])
  })

  it('A13 offers no slot without the Instance; those of containers stay healthy', () => {
    book.allocations.record({ slot: slot(0), resourceName: 'akri.sh/cam-8120fe', id: slot(0) })
    book.allocations.record({ slot: slot(1), resourceName: 'akri.sh/cam', id: '0' })
    const health = () => plugin.advertise().map(({ healthy }) => healthy)
    expect(health()).toEqual([true, false, true])
    instances.remove(served.key)
    expect(health()).toEqual([true, false, false])
    book.serve({ ...served, healthy: false })
    expect(health()).toEqual([false, false, false])
  })

  it('A20 prefers no slot beyond the capacity', () => {
    book.serve({ ...served, capacity: 2 })
    const available = [0, 1, 2].map(slot)
    expect(plugin.prefer([{ available, mustInclude: [], size: 3 }])).toEqual([[slot(0), slot(1)]])
  })
})
