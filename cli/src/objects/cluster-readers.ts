import {
  API_VERSION,
  type Configuration,
  customResourceName,
  parseConfigurationObject,
} from '@akrijs/api'
import { type ObjectKey, objectKey, type ResourceKind } from '@akrijs/kube'
import { valueAt } from '@akrijs/runtime'
import * as z from 'zod'
import { NotInstalledError } from '../errors.js'
import type { ShownEvent, SlotUse } from './object-source.js'

// Readers of the objects of a cluster, for commands that list them and the page that watches them.

const text = z.string().catch('')
const event = z.object({
  involvedObject: z.object({ kind: text, namespace: text, name: text }),
  ...{ type: text, reason: text, message: text },
  count: z.number().catch(1),
  // Some clients write only the time of the Event.
  lastTimestamp: z.string().nullish().catch(undefined),
  eventTime: z.string().nullish().catch(undefined),
  metadata: z.object({ creationTimestamp: text }),
})
const uses = z.array(z.object({ slot: text, pod: text, since: z.string().optional() }))

/** The Events about objects of akri.js. */
export const EVENTS_OF_AKRI = { fieldSelector: `involvedObject.apiVersion=${API_VERSION}` }

/** @returns undefined if the object is no Event */
export function readEvent(object: unknown): ShownEvent | undefined {
  const { data } = event.safeParse(object)
  if (data === undefined) return undefined
  const { involvedObject, lastTimestamp, eventTime, metadata, ...rest } = data
  return {
    ...rest,
    kind: involvedObject.kind,
    key: objectKey(involvedObject.namespace, involvedObject.name),
    lastTimestamp: lastTimestamp ?? eventTime ?? metadata.creationTimestamp,
  }
}

/** The slots that Pods of a node use, by the key of the Instance. @param report a NodeReport */
export function readUses(report: unknown): ReadonlyMap<ObjectKey, readonly SlotUse[]> {
  const slots = valueAt(report, 'slots') ?? {}
  return new Map(
    Object.entries(slots).map(([key, entries]) => {
      const found = uses.safeParse(entries).data ?? []
      return [key as ObjectKey, found.map(({ slot, pod, since }) => ({ slot, user: pod, since }))]
    }),
  )
}

/** Also a Configuration whose spec is wrong, with the reason as its condition. */
export function readConfiguration(object: unknown): Configuration | undefined {
  const parsed = parseConfigurationObject(object)
  if (parsed.ok) return parsed.configuration
  if (parsed.found === undefined) return undefined
  const { metadata, status } = parsed.found
  const ready = {
    type: 'Ready',
    status: 'False',
    reason: 'InvalidConfiguration',
    message: parsed.problems.map(({ path, message }) => `${path}: ${message}`).join('; '),
    lastTransitionTime: metadata.creationTimestamp,
  } as const
  const nothing = { observedGeneration: 0, devices: 0, slots: { total: 0, claimed: 0 }, nodes: {} }
  const others = status?.conditions.filter(({ type }) => type !== 'Ready') ?? []
  return {
    apiVersion: API_VERSION,
    kind: 'Configuration',
    metadata,
    spec: valueAt(object, 'spec') as Configuration['spec'],
    status: { ...nothing, ...status, conditions: [ready, ...others] },
  }
}

/** @param cause the answer 404 to a list of the kind */
export function notInstalled(kind: ResourceKind, cause: unknown): NotInstalledError {
  return new NotInstalledError(
    `the cluster has no ${customResourceName(kind)} of ${kind.version}: akri.js is not ` +
      'installed there (docs/helm.md), or the context is that of another cluster',
    { cause },
  )
}
