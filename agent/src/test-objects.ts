import { API_VERSION, type ConfigurationName, type Instance, type InstanceName, type NodeName } from '@akrijs/kube'

// Objects for tests.

/** The Instance `cam-8120fe` of the Configuration `cam`: two slots of a device that `node-a` sees, unless it is told otherwise. */
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
      namespace: 'default',
      uid: 'u1',
      generation: 1,
      resourceVersion: '1',
      creationTimestamp: '',
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
