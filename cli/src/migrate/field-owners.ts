import { holderOf, type Instance } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import { isRecord } from '@akrijs/runtime'
import * as z from 'zod'
import type { FieldOwner } from './migration-plan.js'

// The agents of the existing system write by server-side apply, without force: a field of another
// manager with another value refuses each write. The manager `<node>` has the spec without claims,
// and `dp-<node>` its claims.

const entry = z.looseObject({
  manager: z.string().catch(''),
  operation: z.string().catch(''),
  subresource: z.string().optional().catch(undefined),
  fieldsV1: z.unknown(),
})
const object = z.object({ metadata: z.object({ managedFields: z.array(entry) }) })
export type ManagedFields = z.output<typeof entry>

/** The managers of an Instance in the existing system. */
export function fieldOwners({ metadata, spec }: Instance): FieldOwner[] {
  const { ownerReferences } = metadata
  const claims = new Map<NodeName, Record<string, string>>()
  for (const [slot, usage] of Object.entries(spec.deviceUsage)) {
    const holder = holderOf(usage)
    if (holder !== undefined) claims.set(holder, { ...claims.get(holder), [slot]: usage })
  }
  return [
    ...spec.nodes.map((node) => ({
      manager: node,
      metadata: { ownerReferences },
      // All of it: server-side apply removes what a manager no longer applies.
      spec: { ...spec, nodes: [node], deviceUsage: {} },
    })),
    ...[...claims].map(([node, deviceUsage]) => ({
      manager: `dp-${node}`,
      spec: { deviceUsage },
    })),
  ]
}

/** Whether other managers have fields of the spec, or an owner has none. */
export function needsOwners(found: unknown, owners: readonly FieldOwner[]): boolean {
  const fields = managedFields(found)
  return (
    fields.some((each) => !isKept(each, owners)) ||
    owners.some((owner) => !fields.some((each) => isOf(each, owner)))
  )
}

/** The managed fields without managers of the spec that are no owners. */
export function keptFields(found: unknown, owners: readonly FieldOwner[]): ManagedFields[] {
  return managedFields(found).filter((each) => isKept(each, owners))
}

function managedFields(found: unknown): readonly ManagedFields[] {
  return object.safeParse(found).data?.metadata.managedFields ?? []
}

function isKept(fields: ManagedFields, owners: readonly FieldOwner[]): boolean {
  const hasSpec = isRecord(fields.fieldsV1) && 'f:spec' in fields.fieldsV1
  return !hasSpec || fields.subresource !== undefined || owners.some((owner) => isOf(fields, owner))
}

function isOf({ manager, operation, subresource }: ManagedFields, owner: FieldOwner): boolean {
  return manager === owner.manager && operation === 'Apply' && subresource === undefined
}
