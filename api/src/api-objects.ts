import type { NodeName, ObjectMeta } from '@akrijs/kube/objects'
import { isRecord, valueAt } from '@akrijs/runtime'
import * as z from 'zod'
import { type Problem, parseConfiguration } from './configuration-schema.js'
import {
  API_VERSION,
  type ConfigurationName,
  GROUP,
  type InstanceName,
  instanceNameParts,
} from './names.js'
import { absentOr, orDefault, withoutUndefined } from './optional-fields.js'
import { PackedConfiguration } from './packed-configuration.js'
import type {
  Configuration,
  Instance,
  InstanceCondition,
  InstanceSpec,
  InstanceStatus,
} from './types.js'

// Objects as an API server returns them. The schema of the server is not trusted: the installed CRD
// may be older, or may belong to another system.

const text = z.string()
/** A map of texts, as it is: a record of zod copies it, and an Instance may have many slots. */
const texts = z.custom<Record<string, string>>(
  (value) => isRecord(value) && Object.values(value).every((each) => typeof each === 'string'),
)
const metadata = z.object({
  name: text,
  namespace: text,
  uid: text,
  resourceVersion: text,
  creationTimestamp: text,
  generation: z.number().int().catch(0),
  deletionTimestamp: text.optional(),
  labels: texts.optional().catch(undefined),
  annotations: texts.optional().catch(undefined),
  ownerReferences: z
    .array(
      z.object({
        apiVersion: text,
        kind: text,
        name: text,
        uid: text,
        controller: z.boolean().optional(),
      }),
    )
    .optional()
    .catch(undefined),
  finalizers: z.array(text).optional().catch(undefined),
})

const conditionFields = {
  type: z.enum(['HandlerConnected', 'Discovering', 'Ready']),
  status: z.enum(['True', 'False', 'Unknown']),
  reason: text,
  message: text,
}
/** Other programs may write further conditions, with further fields. */
const anyCondition = z.looseObject({
  type: text,
  status: z.enum(['True', 'False', 'Unknown']),
  reason: text,
  message: text,
  lastTransitionTime: text,
})
const clusterCondition = z.object({
  ...conditionFields,
  type: z.enum([
    ...conditionFields.type.options,
    'HandlersReady',
    'PropertiesResolved',
    'BrokersReady',
  ]),
  lastTransitionTime: text,
})
const OWN_TYPES = clusterCondition.shape.type
const count = z.number().int()

/** The items of a list that fit the schema. */
function itemsOf<T extends z.ZodType>(item: T) {
  return z
    .array(z.unknown())
    .transform((items) => items.flatMap((each) => dataOf(item.safeParse(each))))
}

/** The entries of a mapping whose values fit the schema. */
function entriesOf<T extends z.ZodType>(value: T) {
  return z
    .record(text, z.unknown())
    .transform((entries) =>
      Object.fromEntries(
        Object.entries(entries).flatMap(([key, each]) =>
          dataOf(value.safeParse(each)).map((data) => [key, data] as const),
        ),
      ),
    )
}

function dataOf<T>(parsed: z.ZodSafeParseResult<T>): T[] {
  return parsed.success ? [parsed.data] : []
}

const conditions = itemsOf(anyCondition)
const status = z.object({
  observedGeneration: count,
  conditions: itemsOf(clusterCondition),
  devices: count,
  slots: z.object({ total: count, claimed: count, free: count.optional().catch(undefined) }),
  nodeCounts: z
    .object({ reporting: count, ready: count, silent: count })
    .optional()
    .catch(undefined),
  brokers: z.object({ desired: count, updated: count, ready: count }).optional().catch(undefined),
  nodes: entriesOf(
    z.object({
      observedGeneration: count,
      devices: count,
      leftOut: count.optional().catch(undefined),
      conditions: z.array(z.object(conditionFields)),
    }),
  ),
})

const anyObject = z.object({ metadata: metadata.extend({ namespace: text.default('') }) })
const configuration = z.object({ metadata, status: status.optional().catch(undefined) })
const instance = z.object({
  metadata,
  spec: z.object({
    configurationName: text,
    cdiName: absentOr(text),
    capacity: absentOr(count.min(0)),
    brokerProperties: orDefault(texts, {}),
    shared: orDefault(z.boolean(), false),
    nodes: orDefault(z.array(text), []),
    deviceUsage: orDefault(texts, {}),
  }),
  status: z
    .object({
      conditions: conditions.optional().catch(undefined),
      brokerJob: z.object({ name: text, specHash: text }).optional().catch(undefined),
      brokerInfo: texts.optional().catch(undefined),
      brokerInfoSlots: texts.optional().catch(undefined),
    })
    .optional()
    .catch(undefined),
})

/**
 * Reads the metadata of an object of a server.
 * @returns undefined if the metadata are incomplete
 */
export function parseObjectMeta(object: unknown): ObjectMeta<string> | undefined {
  const parsed = anyObject.safeParse(object)
  return parsed.success ? (withoutUndefined(parsed.data.metadata) as ObjectMeta<string>) : undefined
}

type ParsedConfigurationObject =
  | { readonly ok: true; readonly configuration: Configuration }
  | {
      readonly ok: false
      readonly problems: readonly Problem[]
      /** The parts that are valid; undefined if the value is no object of the API. */
      readonly found: WrittenConfiguration | undefined
    }

/** What programs write of a Configuration. */
type WrittenConfiguration = Pick<Configuration, 'metadata' | 'status'>

/**
 * Reads what programs write of a Configuration of a server, whether its spec is valid or not.
 * Conditions and entries of nodes that make no sense are left out.
 * @returns undefined if the value is no object of the API
 */
export function parseConfigurationStatus(object: unknown): WrittenConfiguration | undefined {
  const envelope = configuration.safeParse(object)
  return envelope.success ? (withoutUndefined(envelope.data) as WrittenConfiguration) : undefined
}

/** What {@link parseConfigurationStatus} leaves out of a status. */
interface OtherEntries {
  /** The names of the entries of nodes that make no sense. */
  readonly unreadableNodes: readonly string[]
  /** The conditions of other programs. */
  readonly otherConditions: readonly InstanceCondition[]
}

/** Reads a Configuration as {@link parseConfigurationStatus}, with what that leaves out. */
export function parseConfigurationEntries(
  object: unknown,
): (WrittenConfiguration & OtherEntries) | undefined {
  const found = parseConfigurationStatus(object)
  if (found === undefined) return undefined
  const { nodes } = found.status ?? {}
  const status = isRecord(object) && isRecord(object.status) ? object.status : {}
  const isUnreadable = (node: string) => nodes !== undefined && !Object.hasOwn(nodes, node)
  const isOther = ({ type }: InstanceCondition) => !OWN_TYPES.safeParse(type).success
  return {
    ...found,
    unreadableNodes: isRecord(status.nodes) ? Object.keys(status.nodes).filter(isUnreadable) : [],
    otherConditions: (conditions.safeParse(status.conditions).data ?? []).filter(isOther),
  }
}

/** Reads a Configuration of a server. Never throws. */
export function parseConfigurationObject(object: unknown): ParsedConfigurationObject {
  const found = parseConfigurationStatus(object)
  if (object instanceof PackedConfiguration && object.excess !== undefined)
    return { ok: false, problems: [{ path: 'spec', message: object.excess }], found }
  const parsed = parseConfiguration({
    apiVersion: API_VERSION,
    kind: 'Configuration',
    ...(object instanceof PackedConfiguration ? object.unpacked : isRecord(object) ? object : {}),
  })
  if (!parsed.ok) return { ok: false, problems: parsed.problems, found }
  if (found === undefined)
    return { ok: false, problems: [{ path: 'metadata', message: 'it is incomplete' }], found }
  return {
    ok: true,
    configuration: {
      apiVersion: API_VERSION,
      kind: 'Configuration',
      ...found,
      spec: parsed.configuration.spec,
    },
  }
}

/**
 * Reads an Instance of a server, also of the existing system. Before 0.13.8 that had neither
 * `cdiName` nor `capacity`, and wrote a text for each slot.
 * @returns undefined if the value is no Instance
 */
export function parseInstanceObject(object: unknown): Instance | undefined {
  const parsed = instance.safeParse(object)
  if (!parsed.success) return undefined
  const { metadata, spec, status } = parsed.data
  const digest = instanceNameParts(metadata.name)?.digest ?? metadata.name
  return {
    apiVersion: API_VERSION,
    kind: 'Instance',
    metadata: withoutUndefined(metadata) as ObjectMeta<InstanceName>,
    spec: {
      ...spec,
      cdiName: spec.cdiName ?? `${GROUP}/${spec.configurationName}=${digest}`,
      capacity: spec.capacity ?? Object.keys(spec.deviceUsage).length,
      configurationName: spec.configurationName as ConfigurationName,
      nodes: spec.nodes as NodeName[],
    },
    ...(status === undefined ? {} : { status: withoutUndefined(status) as InstanceStatus }),
  }
}

/**
 * The fields that {@link parseInstanceObject} has added to an Instance of an early version. The
 * custom resource requires them: without them, an API server refuses each change of the spec.
 * @returns undefined if the Instance lacks none
 */
export function missingFields(
  object: unknown,
): Partial<Pick<InstanceSpec, 'cdiName' | 'capacity'>> | undefined {
  const read = parseInstanceObject(object)
  if (read === undefined) return undefined
  const { cdiName, capacity } = read.spec
  const missing = {
    ...(valueAt(object, 'spec', 'cdiName') == null ? { cdiName } : {}),
    ...(valueAt(object, 'spec', 'capacity') == null ? { capacity } : {}),
  }
  return Object.keys(missing).length > 0 ? missing : undefined
}
