import { INSTANCES } from '@akrijs/api'
import { type ApiObject, type ObjectKey, objectKey, Resource } from '@akrijs/kube'
import { type OwnNamespace, uniqueName } from './cluster.js'

export interface InstanceObject extends ApiObject {
  readonly metadata: ApiObject['metadata'] & {
    readonly uid: string
    readonly labels?: Record<string, string>
  }
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
  { client, name: namespace }: OwnNamespace,
  spec: object = {},
): Promise<{ key: ObjectKey; object: InstanceObject }> {
  const name = uniqueName()
  const object = await new Resource(client, INSTANCES).create(
    namespace,
    instanceOf(namespace, name, spec),
  )
  return { key: objectKey(namespace, name), object: object as InstanceObject }
}
