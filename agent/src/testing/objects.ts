import {
  API_VERSION,
  type Configuration,
  type ConfigurationManifest,
  type ConfigurationName,
  type Instance,
  type InstanceName,
  type SlotName,
} from '@akrijs/api'
import { type NodeName, objectKey } from '@akrijs/kube/objects'
import type { Device } from '@akrijs/sdk/handler'
import { type CheckedDevice, withHash } from '@akrijs/sdk/host'
import type { DeviceSet, DiscoveredDevice } from '../discovery/device-set.js'
import { deviceIdAnnotation } from '../instances/existing-instances.js'
import { type DigestLength, deviceDigest } from '../instances/instance-name.js'
import type { PlannedInstance } from '../instances/instance-plan.js'
import type { ServedInstance } from '../instances/served-instance.js'
import type { NodePods } from '../kubelet/kubelet.js'

// Objects for tests.

export const NODE = 'node-a' as NodeName
export const OTHER = 'node-b' as NodeName
/** The key of the Instance of {@link instanceWith}. */
export const CAMERA = objectKey('default', 'cam-8120fe')
/** A slot of this Instance. */
export const slot = (index: number) => `cam-8120fe-${index}` as SlotName

/** Ids of shared devices with one short digest, in their order. */
export const COLLIDING = ['camera-16258', 'camera-26847', 'camera-60728'] as const

/** The device as in a list that was checked. */
export function checked({ id, properties, mounts = [], deviceSpecs = [] }: Device): CheckedDevice {
  return withHash({
    id,
    properties: { ...(properties as CheckedDevice['properties']) },
    mounts: mounts.map((mount) => ({ readOnly: false, ...mount })),
    deviceSpecs: deviceSpecs.map((spec) => ({ ...spec })),
  })
}

/** A shared device in the list of an endpoint. */
export function found(device: Device, more: Partial<DiscoveredDevice> = {}): DiscoveredDevice {
  return { device: checked(device), shared: true, healthy: true, endpoint: 'e', ...more }
}

/** The complete set of these devices. */
export function setOf(...devices: DiscoveredDevice[]): DeviceSet {
  const byId = new Map(devices.map((each) => [each.device.id, each]))
  return { complete: true, leftOut: undefined, devices: byId }
}

/** The complete set of shared devices with a property NAME. */
export function seen(...ids: string[]): DeviceSet {
  return setOf(...ids.map((id) => found({ id, properties: { NAME: id } })))
}

const METADATA = {
  namespace: 'default',
  uid: 'u1',
  generation: 1,
  resourceVersion: '1',
  creationTimestamp: '',
}

/**
 * By default the Instance `cam-8120fe` of the Configuration `cam`: two slots of a device that
 * `node-a` sees.
 */
export function instanceWith(
  deviceUsage: Instance['spec']['deviceUsage'],
  spec: Partial<Instance['spec']> = {},
  metadata: Partial<Instance['metadata']> = {},
): Instance {
  return {
    apiVersion: API_VERSION,
    kind: 'Instance',
    metadata: {
      name: 'cam-8120fe' as InstanceName,
      ...METADATA,
      ...metadata,
    },
    spec: {
      configurationName: 'cam' as ConfigurationName,
      cdiName: 'akri.sh/cam=8120fe',
      capacity: 2,
      brokerProperties: {},
      shared: true,
      nodes: ['node-a' as NodeName],
      deviceUsage,
      ...spec,
    },
  }
}

/** How the Instance of a device came to be. */
export interface Made {
  readonly length?: DigestLength
  readonly shared?: boolean
  /** @default node-a */
  readonly nodes?: readonly string[]
  /** The claim of its only slot. */
  readonly usage?: string
  /** False if it is of another implementation, which writes no id of a device. */
  readonly isAnnotated?: boolean
  readonly metadata?: Partial<Instance['metadata']>
}

/** The Instance that a Configuration `lab` has for a device. */
export function instanceOfDevice(
  id: string,
  {
    length,
    shared = true,
    nodes = ['node-a'],
    usage = '',
    isAnnotated = true,
    metadata,
  }: Made = {},
): Instance {
  const place = shared ? ({ shared } as const) : { shared, node: nodes[0] as NodeName }
  const name = `lab-${deviceDigest(id, place, length)}` as InstanceName
  const configurationName = 'lab' as ConfigurationName
  return instanceWith(
    { [`${name}-0`]: usage },
    { configurationName, nodes: nodes as NodeName[], shared },
    {
      name,
      ownerReferences: [{ apiVersion: API_VERSION, kind: 'Configuration', name: 'lab', uid: 'u1' }],
      ...(isAnnotated && { annotations: deviceIdAnnotation(id) }),
      ...metadata,
    },
  )
}

/** By default the Instance `cam-8120fe` of the Configuration `cam`, with capacity 2. */
export function servedWith(more: Partial<ServedInstance> = {}, digest = '8120fe'): ServedInstance {
  const name = `cam-${digest}` as InstanceName
  return {
    key: objectKey('default', name),
    name,
    configuration: 'cam' as ConfigurationName,
    digest,
    device: { id: digest },
    properties: {},
    healthy: true,
    capacity: 2,
    ...more,
  }
}

/** The same of a device that the plan has. */
export function plannedWith(id: string, existing?: Instance): PlannedInstance {
  const planned = { shared: true, hasResource: true, hash: '', existing } as const
  return { ...servedWith({}, id), ...planned, device: checked({ id }) }
}

/** The resource of an Instance, and that of its Configuration. */
export function resourcesOf({ name, configuration }: ServedInstance) {
  return {
    one: { level: 'instance', owner: name, name: `akri.sh/${name}` },
    any: { level: 'configuration', owner: configuration, name: `akri.sh/${configuration}` },
  } as const
}

/** Pods that are all known; by default there are none. */
export function podsWith(more: Partial<NodePods> = {}): NodePods {
  return {
    synced: true,
    lagMs: 0,
    users: () => new Map(),
    hasEnded: () => false,
    uidOf: () => undefined,
    startedAt: () => undefined,
    onChange: () => {},
    ...more,
  }
}

/** By default the Configuration `lab` of the handler `told`, with capacity 1. */
export function configurationWith(
  {
    handler = 'told',
    details = '',
    ...spec
  }: Partial<Configuration['spec']> & { handler?: string; details?: string } = {},
  metadata: Partial<Configuration['metadata']> = {},
): Configuration {
  return {
    apiVersion: API_VERSION,
    kind: 'Configuration',
    metadata: {
      name: 'lab' as ConfigurationName,
      ...METADATA,
      ...metadata,
    },
    spec: {
      discoveryHandler: { name: handler, discoveryDetails: details, discoveryProperties: [] },
      capacity: 1,
      brokerProperties: {},
      ...spec,
    },
  }
}

let names = 0

/** A Configuration with a name of its own. */
export function manifest(spec: Partial<ConfigurationManifest['spec']> = {}): ConfigurationManifest {
  return {
    name: `lab-${process.pid}-${++names}` as ConfigurationName,
    namespace: 'default',
    labels: {},
    annotations: {},
    spec: {
      discoveryHandler: { name: 'debugEcho', discoveryDetails: '', discoveryProperties: [] },
      capacity: 1,
      brokerProperties: {},
      ...spec,
    },
  }
}

/** The draft of an Instance. */
export function draftOf(
  owner: Configuration,
  capacity: number,
  nodes: readonly NodeName[],
  digest: string,
) {
  const { name, namespace } = owner.metadata
  return {
    name: `${name}-${digest}` as InstanceName,
    namespace,
    annotations: {},
    owner,
    spec: {
      configurationName: name,
      cdiName: `akri.sh/${name}=${digest}`,
      capacity,
      brokerProperties: {},
      shared: true,
      nodes,
      deviceUsage: {},
    },
  }
}
