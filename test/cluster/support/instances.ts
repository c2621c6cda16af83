import { type ApiObject, type ObjectKey, objectKey, type Resource } from '@akrijs/kube'
import { uniqueName } from './cluster.js'

export const INSTANCES = { group: 'akri.sh', version: 'v0', plural: 'instances' }

export interface InstanceObject extends ApiObject {
  readonly metadata: ApiObject['metadata'] & { readonly uid: string; readonly labels?: Record<string, string> }
  readonly spec: Record<string, unknown>
  readonly status?: unknown
}

export const instanceOf = (namespace: string, name: string, spec: object = {}) => ({
  apiVersion: 'akri.sh/v0',
  kind: 'Instance',
  metadata: { name, namespace },
  spec: { configurationName: 'c', cdiName: 'akri.sh/c=8120fe', capacity: 2, ...spec },
})

export async function createInstance(
  instances: Resource,
  namespace: string,
  spec: object = {},
): Promise<{ key: ObjectKey; object: InstanceObject }> {
  const name = uniqueName()
  return {
    key: objectKey(namespace, name),
    object: (await instances.create(namespace, instanceOf(namespace, name, spec))) as InstanceObject,
  }
}
