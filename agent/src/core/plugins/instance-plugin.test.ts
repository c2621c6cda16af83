import type { ConfigurationName, InstanceName, SlotName } from '@akrijs/api'
import { type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { ManualClock } from '@akrijs/runtime/testing'
import { ObjectStore } from '@akrijs/standalone'
import { beforeEach, describe, expect, it } from 'vitest'
import type { SlotClaim } from '../../ports/cluster.js'
import { noopObserver } from '../../ports/observer.js'
import { instanceWith } from '../../testing/objects.js'
import type { ServedInstance } from '../instances/served-instance.js'
import { AllocationLedger } from '../slots/allocation-ledger.js'
import { SlotClaims } from '../slots/slot-claims.js'
import { slotTable } from '../slots/slot-table.js'
import { InstancePlugin } from './instance-plugin.js'

const NODE = 'node-a' as NodeName
const slot = (index: number) => `cam-8120fe-${index}` as SlotName
const served: ServedInstance = {
  key: objectKey('default', 'cam-8120fe'),
  name: 'cam-8120fe' as InstanceName,
  configuration: 'cam' as ConfigurationName,
  digest: '8120fe',
  device: {
    id: 'foo0',
    mounts: [{ containerPath: '/data', hostPath: '/srv/0', readOnly: true }],
    deviceSpecs: [{ containerPath: '/dev/video0', hostPath: '/dev/video0', permissions: 'rw' }],
  },
  properties: {},
  healthy: true,
  capacity: 3,
}

let instances: ObjectStore<ReturnType<typeof instanceWith>>
/** The calls of the plugin, and the answers to its claims. */
let calls: string[]
let answer: (slot: SlotName) => Promise<SlotClaim>
let ledger: AllocationLedger
let options: ConstructorParameters<typeof InstancePlugin>[1]
let plugin: InstancePlugin

beforeEach(() => {
  instances = new ObjectStore()
  instances.put(instanceWith({}, { capacity: 3 }))
  calls = []
  answer = async () => ({ outcome: 'claimed' })
  ledger = new AllocationLedger({ node: NODE, pods: undefined })
  options = {
    cluster: {
      instances,
      claimSlot: (_key, name, usage) => {
        calls.push(`claim ${name} ${usage}`)
        return answer(name)
      },
      releaseSlot: async (_key, name, usage) => {
        calls.push(`release ${name} ${usage}`)
        return 'released'
      },
    },
    node: NODE,
    ledger,
    observer: noopObserver,
    directories: undefined,
    slotTable: (instance) => slotTable(instance, instances.get(instance.key)),
  }
  plugin = new InstancePlugin(served, options)
})

const allocate = (...requests: SlotName[][]) =>
  new SlotClaims(new ManualClock()).forRequest((claims) => plugin.allocate(requests, claims))

describe('the behaviour of an Instance’s plugin', () => {
  it('A19 allocates the device nodes and mounts of the device after an update', async () => {
    const device = {
      id: 'foo0',
      mounts: [{ containerPath: '/data', hostPath: '/srv/7', readOnly: false }],
      deviceSpecs: [{ containerPath: '/dev/video0', hostPath: '/dev/video7', permissions: 'r' }],
    }
    plugin.update({ ...served, device })
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
    const directories = { open, prepare() {}, discard() {} }
    plugin = new InstancePlugin(served, { ...options, directories })
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
    ledger.record({ slot: slot(0), resourceName: 'akri.sh/cam', id: '0' })
    const request = { available: [0, 1, 2].map(slot), mustInclude: [], size: 3 }
    expect(plugin.prefer([request])).toEqual([[slot(1), slot(2)]])
  })

  it('A13 offers no slot without the Instance; those of containers stay healthy', () => {
    ledger.record({ slot: slot(0), resourceName: 'akri.sh/cam-8120fe', id: slot(0) })
    ledger.record({ slot: slot(1), resourceName: 'akri.sh/cam', id: '0' })
    const health = () => plugin.advertise().map(({ healthy }) => healthy)
    expect(health()).toEqual([true, true, true])
    instances.remove(served.key)
    expect(health()).toEqual([true, false, false])
    plugin.update({ ...served, healthy: false })
    expect(health()).toEqual([false, false, false])
  })

  it('A20 prefers no slot beyond the capacity', () => {
    plugin.update({ ...served, capacity: 2 })
    const available = [0, 1, 2].map(slot)
    expect(plugin.prefer([{ available, mustInclude: [], size: 3 }])).toEqual([[slot(0), slot(1)]])
  })
})
