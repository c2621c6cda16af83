import path from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import protobuf from 'protobufjs'
import { describe, expect, it } from 'vitest'
import * as plugin from './generated/deviceplugin.js'
import * as discovery from './generated/discovery.js'
import * as resources from './generated/podresources.js'

const folder = path.join(path.dirname(fileURLToPath(import.meta.url)), '..')
const peer = (file: string) => new protobuf.Root().loadSync(path.join(folder, file))

/**
 * What protoc 3.21 made of text messages (`protoc --encode`): bytes of another implementation, with
 * what they mean.
 */
const RECORDED = {
  registration: {
    bytes: '0a047564657612172f7661722f6c69622f616b72692f756465762e736f636b',
    means: { name: 'udev', endpoint: '/var/lib/akri/udev.sock', endpointType: 0, shared: false },
  },
  devices: {
    bytes:
      '0a5f0a192f646576696365732f7669727475616c2f6d656d2f6e756c6c' +
      '12190a0c554445565f4445564e4f444512092f6465762f6e756c6c' +
      '1a0a0a022f6312022f681801221b0a092f6465762f6e756c6c12092f6465762f6e756c6c1a0372776d',
    means: {
      devices: [
        {
          id: '/devices/virtual/mem/null',
          properties: { UDEV_DEVNODE: '/dev/null' },
          mounts: [{ containerPath: '/c', hostPath: '/h', readOnly: true }],
          deviceSpecs: [{ containerPath: '/dev/null', hostPath: '/dev/null', permissions: 'rwm' }],
        },
      ],
      reports: [],
    },
  },
  allocation: {
    bytes:
      '0a4c0a060a0141120162222c0a1c616b72692e6167656e742e736c6f742d63616d2d3831323066652d30' +
      '120c63616d2d3831323066652d30' +
      '2a140a12616b72692e73682f63616d3d383132306665',
    means: {
      containerResponses: [
        {
          envs: { A: 'b' },
          mounts: [],
          devices: [],
          annotations: { 'akri.agent.slot-cam-8120fe-0': 'cam-8120fe-0' },
          cdiDevices: [{ name: 'akri.sh/cam=8120fe' }],
        },
      ],
    },
  },
  podResources: {
    bytes:
      '0a330a017012016e1a2b0a046d61696e12130a0b616b72692e73682f63616d120130120131' +
      '1a020003220a0a066d656d6f72791005',
    means: {
      podResources: [
        {
          name: 'p',
          namespace: 'n',
          containers: [
            {
              name: 'main',
              devices: [
                { resourceName: 'akri.sh/cam', deviceIds: ['0', '1'], topology: undefined },
              ],
              cpuIds: [0, 3],
              memory: [{ memoryType: 'memory', size: 5, topology: undefined }],
              dynamicResources: [],
            },
          ],
        },
      ],
    },
  },
} as const

const MESSAGES = [
  ['registration', discovery.RegisterDiscoveryHandlerRequest],
  ['devices', discovery.DiscoverResponse],
  ['allocation', plugin.AllocateResponse],
  ['podResources', resources.ListPodResourcesResponse],
] as const

describe('bytes of another implementation', () => {
  it.each(MESSAGES)('mean the same here: %s', (name, message) => {
    expect(message.decode(Buffer.from(RECORDED[name].bytes, 'hex'))).toEqual(RECORDED[name].means)
  })

  it.each(MESSAGES)('are written as they were recorded: %s', (name, message) => {
    const decoded = message.decode(Buffer.from(RECORDED[name].bytes, 'hex'))
    const encoded = (message.encode as (value: typeof decoded) => { finish(): Uint8Array })(
      decoded,
    ).finish()
    expect(Buffer.from(encoded).toString('hex')).toBe(RECORDED[name].bytes)
  })
})

describe('the discovery contract on the wire', () => {
  const root = peer('discovery.proto')

  it('names the methods as other implementations call them', () => {
    expect(discovery.RegistrationService.registerDiscoveryHandler.path).toBe(
      '/v0.Registration/RegisterDiscoveryHandler',
    )
    expect(discovery.DiscoveryHandlerService.discover.path).toBe('/v0.DiscoveryHandler/Discover')
    expect(discovery.DiscoveryHandlerService.discover.responseStream).toBe(true)
  })

  it('tells an empty property from one that has no value', () => {
    const type = root.lookupType('v0.ByteData')
    expect(
      Buffer.from(discovery.ByteData.encode({ vec: Buffer.alloc(0) }).finish()).toString('hex'),
    ).toBe('0a00')
    expect(discovery.ByteData.encode({ vec: undefined }).finish()).toHaveLength(0)
    expect(
      discovery.ByteData.decode(type.encode({ vec: Buffer.alloc(0) }).finish()).vec,
    ).toHaveLength(0)
    expect(discovery.ByteData.decode(type.encode({}).finish()).vec).toBeUndefined()
  })

  it('gives and takes the same device lists as protobufjs', () => {
    const type = root.lookupType('v0.DiscoverResponse')
    const text = fc.string({ unit: 'grapheme', maxLength: 20 })
    const device = fc.record({
      id: text,
      properties: fc.dictionary(
        text.filter((key) => key !== '__proto__'),
        text,
        { noNullPrototype: true },
      ),
      mounts: fc.array(fc.record({ containerPath: text, hostPath: text, readOnly: fc.boolean() }), {
        maxLength: 3,
      }),
      deviceSpecs: fc.array(fc.record({ containerPath: text, hostPath: text, permissions: text }), {
        maxLength: 3,
      }),
    })
    const report = fc.record({
      reason: text,
      count: fc.nat(),
      ids: fc.array(text, { maxLength: 3 }),
      listed: fc.boolean(),
    })
    const devices = fc.array(device, { maxLength: 4 })
    const response = fc.record({ devices, reports: fc.array(report, { maxLength: 2 }) })
    fc.assert(
      fc.property(response, (content) => {
        const ours = discovery.DiscoverResponse.encode(content).finish()
        expect(type.toObject(type.decode(ours), { defaults: true })).toEqual(content)
        expect(discovery.DiscoverResponse.decode(type.encode(content).finish())).toEqual(content)
      }),
    )
  })

  it('keeps an endpoint type that it does not know, for the agent to refuse', () => {
    const bytes = Buffer.from('1807', 'hex')
    expect(discovery.RegisterDiscoveryHandlerRequest.decode(bytes).endpointType).toBe(7)
  })

  it('does not let a property named __proto__ reach any prototype', () => {
    const type = root.lookupType('v0.DiscoverRequest')
    const bytes = Buffer.from(`12${'0d'}0a095f5f70726f746f5f5f1200`, 'hex')
    const request = discovery.DiscoverRequest.decode(bytes)
    expect(Object.prototype).not.toHaveProperty('vec')
    expect(Object.keys({ ...request.discoveryProperties })).not.toContain('vec')
    expect(type.decode(bytes)).toBeDefined()
  })
})

describe('the device plugin API on the wire', () => {
  const root = peer('deviceplugin.proto')

  it('names the methods as the kubelet calls them', () => {
    expect(Object.values(plugin.DevicePluginService).map((method) => method.path)).toEqual([
      '/v1beta1.DevicePlugin/GetDevicePluginOptions',
      '/v1beta1.DevicePlugin/ListAndWatch',
      '/v1beta1.DevicePlugin/GetPreferredAllocation',
      '/v1beta1.DevicePlugin/Allocate',
      '/v1beta1.DevicePlugin/PreStartContainer',
    ])
    expect(plugin.RegistrationService.register.path).toBe('/v1beta1.Registration/Register')
  })

  it('writes an allocation that protobufjs reads, with CDI devices in field 5', () => {
    const type = root.lookupType('v1beta1.AllocateResponse')
    const response: plugin.AllocateResponse = {
      containerResponses: [
        {
          envs: { UDEV_DEVNODE: '/dev/video0' },
          mounts: [{ containerPath: '/c', hostPath: '/h', readOnly: true }],
          devices: [{ containerPath: '/dev/video0', hostPath: '/dev/video0', permissions: 'rw' }],
          annotations: { 'akri.agent.slot-cam-8120fe-0': 'cam-8120fe-0' },
          cdiDevices: [{ name: 'akri.sh/cam=8120fe' }],
        },
      ],
    }
    const bytes = plugin.AllocateResponse.encode(response).finish()
    expect(type.toObject(type.decode(bytes))).toEqual(response)
    const cdiOnly = plugin.ContainerAllocateResponse.encode({
      envs: {},
      mounts: [],
      devices: [],
      annotations: {},
      cdiDevices: [{ name: 'a' }],
    })
    expect(Buffer.from(cdiOnly.finish()).toString('hex')).toBe('2a030a0161')
  })

  it('reads what a kubelet asks', () => {
    const allocate = root.lookupType('v1beta1.AllocateRequest')
    const bytes = allocate
      .encode({ containerRequests: [{ devicesIDs: ['a-0', 'a-1'] }, { devicesIDs: ['b-0'] }] })
      .finish()
    expect(
      plugin.AllocateRequest.decode(bytes).containerRequests.map((request) => request.devicesIDs),
    ).toEqual([['a-0', 'a-1'], ['b-0']])
    const preferred = root.lookupType('v1beta1.PreferredAllocationRequest')
    const wish = {
      containerRequests: [
        { availableDeviceIDs: ['0', '1'], mustIncludeDeviceIDs: ['1'], allocationSize: 1 },
      ],
    }
    expect(plugin.PreferredAllocationRequest.decode(preferred.encode(wish).finish())).toEqual(wish)
  })
})

describe('the podresources API on the wire', () => {
  const root = peer('podresources.proto')

  it('reads what a kubelet lists, also with fields that it does not know', () => {
    const type = root.lookupType('v1.ListPodResourcesResponse')
    const container = {
      name: 'main',
      devices: [{ resourceName: 'akri.sh/cam', deviceIds: ['0', '1'] }],
      cpuIds: [0, 3],
    }
    const bytes = type
      .encode({ podResources: [{ name: 'p', namespace: 'n', containers: [container] }] })
      .finish()
    const unknown = Buffer.from('7a0568656c6c6f', 'hex')
    const list = resources.ListPodResourcesResponse.decode(Buffer.concat([bytes, unknown]))
    expect(list.podResources[0]?.containers[0]?.devices[0]).toMatchObject({
      resourceName: 'akri.sh/cam',
      deviceIds: ['0', '1'],
    })
    expect(resources.PodResourcesListerService.list.path).toBe('/v1.PodResourcesLister/List')
  })
})
