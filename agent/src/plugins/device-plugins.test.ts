import { once } from 'node:events'
import { readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import type { ConfigurationName } from '@akrijs/api'
import { keyOf, objectKey } from '@akrijs/kube'
import { SimulatedKubelet } from '@akrijs/kube/kubelet'
import { DevicePluginClient, type ListAndWatchResponse } from '@akrijs/proto/device-plugin'
import { NO_CHANNELZ, silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { credentials } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually, passing } from '../../../test/support/eventually.js'
import { KubeletUnavailableError, PluginRefusedError } from '../errors.js'
import type { ServedInstance } from '../instances/served-instance.js'
import type { KubeletSockets } from '../kubelet/kubelet-sockets.js'
import { type AgentObserver, noopObserver } from '../report/observer.js'
import { SlotBook } from '../slots/slot-book.js'
import { SlotClaims } from '../slots/slot-claims.js'
import type { MemoryCluster } from '../testing/memory-cluster.js'
import { NodeEnvironment } from '../testing/node-environment.js'
import { CAMERA, configurationWith, draftOf, NODE, servedWith, slot } from '../testing/objects.js'
import { DevicePlugins } from './device-plugins.js'

const resource = 'akri.sh/cam-8120fe'
const configuration = configurationWith({ capacity: 3 }, { name: 'cam' as ConfigurationName })
const owner = keyOf(configuration)
const camera = (digest: string) =>
  servedWith(
    {
      device: {
        id: digest,
        mounts: [{ containerPath: `/data/${digest}`, hostPath: '/srv', readOnly: true }],
        deviceSpecs: [
          { containerPath: `/dev/${digest}`, hostPath: '/dev/video0', permissions: 'rw' },
        ],
      },
      properties: { CAMERA: digest, 'USB_RESOURCE_AKRI_SH_UDEV-GPU_1': '1:3' },
      capacity: 3,
    },
    digest,
  )
const served = camera('8120fe')
const HEALTHY = { [slot(0)]: true, [slot(1)]: true, [slot(2)]: true }

let home: NodeEnvironment
let book: SlotBook
let cluster: MemoryCluster
let kubelet: SimulatedKubelet
let sockets: KubeletSockets
let plugins: DevicePlugins
let clock: ManualClock

beforeEach(async () => {
  clock = new ManualClock()
  home = await NodeEnvironment.open(clock)
  ;({ cluster, kubelet, sockets } = home)
  book = new SlotBook({ cluster, node: NODE, kubelet: { pods: kubelet.nodePods }, clock })
  plugins = start()
  await cluster.createInstance(draftOf(configuration, 3, [NODE], '8120fe'))
})

afterEach(async () => {
  vi.restoreAllMocks()
  await plugins.close()
  await kubelet.close()
  book.close()
})

function start(observer: AgentObserver = noopObserver): DevicePlugins {
  const claims = new SlotClaims({ cluster, clock, observer, book })
  return new DevicePlugins({ book, claims, kubelet: sockets, clock, observer, log: silentLogger })
}
/** Waits while the time of the agent passes. */
const later = (look: () => unknown) => passing(clock, look)
/** A Pod whose containers ask for so many devices of the resource. */
const pod = (uid: string, of: string, ...containers: number[]) => ({
  ...{ uid, name: uid, namespace: 'default' },
  containers: containers.map((count, index) => ({
    name: `c${index}`,
    resources: { [of]: count },
  })),
})
const serve = (instance: ServedInstance) => plugins.serve(instance, true)
const serveConfiguration = () => plugins.serveConfiguration(owner)
const usage = () => cluster.instances.get(CAMERA)?.spec.deviceUsage
const problems = () => plugins.registrationProblems(owner)
const health = (of = resource) => Object.fromEntries(kubelet.devices(of))
const offers = (count: number, of = resource) =>
  eventually(() => expect(kubelet.resource(of).allocatable).toBe(count))
const pluginFiles = async () =>
  (await readdir(kubelet.pluginDirectory)).filter((name) => name !== 'kubelet.sock')

/** Another kubelet that reads the lists of the plugin. */
async function openStream() {
  const [name = ''] = await pluginFiles()
  const socket = `unix:${path.join(kubelet.pluginDirectory, name)}`
  const client = new DevicePluginClient(socket, credentials.createInsecure(), NO_CHANNELZ)
  const stream = client.listAndWatch({})
  stream.on('error', () => undefined)
  stream.once('close', () => client.close())
  return stream
}

describe('the device plugins of both levels', () => {
  const both = async () => {
    await cluster.createInstance(draftOf(configuration, 3, [NODE], 'a19705'))
    await serveConfiguration()
    for (const digest of ['8120fe', 'a19705']) await serve(camera(digest))
    await offers(2, 'akri.sh/cam')
  }

  it('R2 R15 R21 R24 R81 are registered before any device, and offer each slot', async () => {
    await serveConfiguration()
    await eventually(() => expect(kubelet.resources).toEqual(['akri.sh/cam']))
    expect(health('akri.sh/cam')).toEqual({})
    await serve(served)
    await eventually(() => expect(health('akri.sh/cam')).toEqual({ 0: true }))
    await eventually(() => expect(health()).toEqual(HEALTHY))
    await plugins.withdraw(served.name, false)
    await eventually(() => expect(health('akri.sh/cam')).toEqual({}))
  })

  it('R16 R19 R23 R38 R83 A15 offer claims of others as unhealthy until freed', async () => {
    await both()
    await cluster.claimSlot(CAMERA, slot(1), 'node-b')
    await eventually(() => expect(Object.values(health())).toEqual([true, false, true]))
    await cluster.releaseSlot(CAMERA, slot(1), 'node-b')
    await later(() => expect(Object.values(health())).toEqual([true, true, true]))
    await kubelet.admit(pod('p', 'akri.sh/cam', 1))
    await eventually(() => expect(Object.values(health())).toEqual([false, true, true]))
    // The claimed one, and one for each device with a free slot.
    await eventually(() => expect(health('akri.sh/cam')).toEqual({ 0: true, 1: true, 2: true }))
    await kubelet.admit(pod('q', resource, 2))
    await eventually(() => expect(health('akri.sh/cam')).toEqual({ 0: true, 1: true }))
  })

  it('R39 R80 R106 R111 R113 A18 A19 claim slots, and answer with the last list', async () => {
    await serve({ ...served, device: { id: '8120fe' }, properties: {} })
    await serve(served)
    await offers(3)
    const answer = await kubelet.admit(pod('p', resource, 2, 1))
    expect(answer.get('c0')).toEqual({
      envs: {
        CAMERA: '8120fe',
        CAMERA_8120FE: '8120fe',
        'USB_RESOURCE_AKRI_SH_UDEV-GPU_1': '1:3',
        'USB_RESOURCE_AKRI_SH_UDEV-GPU_1_8120FE': '1:3',
      },
      mounts: served.device.mounts,
      devices: served.device.deviceSpecs,
      annotations: {
        [`akri.agent.slot-${slot(0)}`]: slot(0),
        [`akri.agent.slot-${slot(1)}`]: slot(1),
      },
    })
    expect(answer.get('c1')?.annotations).toEqual({ [`akri.agent.slot-${slot(2)}`]: slot(2) })
    expect(usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'node-a', [slot(2)]: 'node-a' })
  })

  it('R5 R6 R10 R13 R40 allocate different devices to a container in one answer', async () => {
    await both()
    for (let round = 0; round < 5; round++) {
      // After the first Pod, four ids are free. Any two that the kubelet picks could be of one
      // device.
      const granted = (await kubelet.admit(pod(`p${round}`, 'akri.sh/cam', 2))).get('c0')
      expect(granted).toMatchObject({
        envs: { CAMERA_8120FE: '8120fe', CAMERA_A19705: 'a19705' },
        devices: [{ containerPath: '/dev/8120fe' }, { containerPath: '/dev/a19705' }],
      })
      const ids = Object.values(granted?.annotations ?? {}).toSorted()
      if (round === 0) expect(ids).toEqual([`C:0:${slot(0)}`, 'C:1:cam-a19705-0'])
      kubelet.remove(`p${round}`)
    }
  })

  it('R11 R12 R22 refuse an impossible request, and send the list again', async () => {
    await serveConfiguration()
    await serve(served)
    await offers(1, 'akri.sh/cam')
    await kubelet.admit(pod('p', 'akri.sh/cam', 1))
    await offers(2, 'akri.sh/cam')
    kubelet.remove('p')
    const before = usage()
    let lists = 0
    kubelet.onChange(() => lists++, new AbortController().signal)
    // Two ids are free, and both stand for the one device.
    await expect(kubelet.admit(pod('q', 'akri.sh/cam', 2))).rejects.toThrow(
      /both stand for Instance|2 different devices are requested/,
    )
    expect(usage()).toEqual(before)
    await eventually(() => expect(lists).toBeGreaterThan(0))
  })

  it.each([
    [resource, 3, slot(0)],
    ['akri.sh/cam', 1, `C:0:${slot(0)}`],
  ])(
    'R14 R17 R20 R100 A21 A23 register as %s, list, allocate, register again, and stop',
    async (of, count, annotation) => {
      await serveConfiguration()
      await serve(served)
      await offers(count, of)
      const answer = await kubelet.admit(pod('p', of, 1))
      expect(Object.values(answer.get('c0')?.annotations ?? {})).toEqual([annotation])
      await offers(count === 1 ? 2 : 3, of)
      const before = await pluginFiles()
      await kubelet.restart()
      await offers(count === 1 ? 2 : 3, of)
      for (const file of await pluginFiles()) expect(before).not.toContain(file)
      await plugins.withdrawConfiguration(owner)
      await plugins.withdraw(served.name, false)
      await offers(0, of)
      expect(await pluginFiles()).toEqual([])
    },
  )
})

describe('the registration of a device plugin', () => {
  it('A21 is registered again on its socket when the kubelet has dropped it', async () => {
    await serve(served)
    await offers(3)
    const before = await pluginFiles()
    for (let round = 0; round < 2; round++) {
      kubelet.giveUp(resource)
      expect(kubelet.resource(resource).allocatable).toBe(0)
      await later(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    }
    expect(await pluginFiles()).toEqual(before)
  })

  it('is a problem of its Configuration while the kubelet refuses it', async () => {
    const changed = vi.fn()
    plugins.onRegistrationChange(changed, new AbortController().signal)
    const refusal = vi.spyOn(sockets, 'register')
    refusal.mockRejectedValue(new PluginRefusedError('not so'))
    await serve(served)
    await serveConfiguration()
    expect(problems()).toEqual([
      { resourceName: resource, isRefused: true, message: 'not so' },
      { resourceName: 'akri.sh/cam', isRefused: true, message: 'not so' },
    ])
    expect(changed.mock.calls).toEqual([[owner], [owner]])
    await plugins.withdrawConfiguration(owner)
    expect(problems()).toMatchObject([{ resourceName: resource }])
    refusal.mockRestore()
    await later(() => expect(problems()).toEqual([]))
    await offers(3)
  })

  it('is no problem if the kubelet took it, and answered too late', async () => {
    const register = sockets.register.bind(sockets)
    const registering = vi.spyOn(sockets, 'register')
    registering.mockImplementation(async (...registration) => {
      await register(...registration)
      throw new PluginRefusedError('too late')
    })
    await serve(served)
    expect(problems()).toMatchObject([{ resourceName: resource }])
    await offers(3)
    await later(() => expect(problems()).toEqual([]))
    expect(registering).toHaveBeenCalledTimes(1)
  })

  it('A21 is registered again if the kubelet has accepted it, and reads no list', async () => {
    const registering = vi.spyOn(sockets, 'register')
    registering.mockResolvedValueOnce()
    registering.mockResolvedValueOnce()
    await serve(served)
    await clock.advance(14_000)
    expect(registering).toHaveBeenCalledTimes(1)
    await later(() => expect(registering).toHaveBeenCalledTimes(3))
    await offers(3)
    await clock.advance(60_000)
    expect(registering).toHaveBeenCalledTimes(3)
  })

  it('is a problem of its Configuration if the kubelet stays away, until it is there', async () => {
    await kubelet.close()
    await serve(served)
    await clock.advance(9000)
    expect(problems()).toEqual([])
    await later(() =>
      expect(problems()).toMatchObject([{ resourceName: resource, isRefused: false }]),
    )
    kubelet = await SimulatedKubelet.start({ directory: path.join(home.directory, 'k') })
    await later(() => expect(kubelet.resource(resource).allocatable).toBe(3))
    expect(problems()).toEqual([])
  })

  it.each<[string, () => Promise<void>, boolean[][]]>([
    [
      'has no healthy slot if its device goes',
      () => plugins.withdraw(served.name, true),
      [
        [true, true, true],
        [false, false, false],
      ],
    ],
    [
      'is that of before if its device stays',
      () => plugins.withdraw(served.name, false),
      [[true, true, true]],
    ],
    ['is that of before if the agent ends', () => plugins.close(), [[true, true, true]]],
  ])('ends with a list that %s', async (_, end, expected) => {
    await serve(served)
    const stream = await openStream()
    const lists: boolean[][] = []
    stream.on('data', ({ devices }: ListAndWatchResponse) =>
      lists.push(devices.map(({ health }) => health === 'Healthy')),
    )
    await once(stream, 'data')
    await Promise.all([once(stream, 'close'), end()])
    expect(lists).toEqual(expected)
  })

  it('is offered again if its device comes back while its last list is sent', async () => {
    await serve(served)
    await offers(3)
    await plugins.withdraw(served.name, true)
    await serve(served)
    await eventually(() => expect(health()).toEqual(HEALTHY))
    await kubelet.admit(pod('p', resource, 3))
  })

  it('A22 is made once, however often its Instance is reconciled', async () => {
    const registered = vi.spyOn(sockets, 'register')
    for (let round = 0; round < 5; round++) {
      await serveConfiguration()
      await serve(served)
    }
    const names = registered.mock.calls.map(([name]) => name)
    expect(names).toEqual(['akri.sh/cam', resource])
    expect([plugins.resources.length, await pluginFiles()]).toMatchObject([2, { length: 2 }])
  })

  it('A8 is refused if another Instance or a Configuration has the resource', async () => {
    const name = 'cam-8120fe' as ConfigurationName
    await serve(served)
    const other = { ...served, key: objectKey('other', name) }
    for (const hasResource of [true, false])
      expect(() => plugins.serve(other, hasResource)).toThrow(/default\/cam-8120fe/)
    for (const namespace of ['default', 'other'])
      expect(() => plugins.serveConfiguration(objectKey(namespace, name))).toThrow(
        /akri\.sh\/cam-8120fe is the resource of instance default\/cam-8120fe/,
      )
    await plugins.withdraw(served.name, false)
    await plugins.serveConfiguration(CAMERA)
    await plugins.withdrawConfiguration(objectKey('other', name))
    expect(() => plugins.serve(served, true)).toThrow(
      /akri\.sh\/cam-8120fe is the resource of configuration default\/cam-8120fe/,
    )
  })

  it('counts no failed registration if it ends before the answer of the kubelet', async () => {
    const counted: string[] = []
    const observer = { ...noopObserver, registered: (result: string) => void counted.push(result) }
    const registering = vi.spyOn(sockets, 'register')
    const asked = new Promise<void>((onAsked) => {
      registering.mockImplementation(async (_resource, _socket, signal) => {
        onAsked()
        await once(signal, 'abort')
        throw new KubeletUnavailableError('the call was cancelled')
      })
    })
    const hasty = start(observer)
    void hasty.serve(served, true)
    await asked
    await hasty.close()
    expect(counted).toEqual([])
  })

  it('A21 A23 serves on another socket after its socket was removed', async () => {
    await serve(served)
    await offers(3)
    const [before = ''] = await pluginFiles()
    await rm(path.join(kubelet.pluginDirectory, before))
    await later(async () =>
      expect(await pluginFiles()).toEqual([expect.not.stringMatching(before)]),
    )
    await offers(3)
    await kubelet.admit(pod('p', resource, 1))
  })
})
