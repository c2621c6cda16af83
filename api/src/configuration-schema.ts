import { excess, issueMessage, nearest, pathText, valueAt } from '@akrijs/runtime'
import * as z from 'zod'
import { brokerDemands } from './broker-demand.js'
import { API_VERSION, type ConfigurationName, MAX_RESOURCE_NAME } from './names.js'
import { absentOr, orDefault, withoutUndefined } from './optional-fields.js'
import type { ConfigurationSpec, UpdateStrategy } from './types.js'

/** A Configuration in a file, without the fields that a cluster adds. */
export interface ConfigurationManifest {
  readonly name: ConfigurationName
  readonly namespace: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
  readonly spec: ConfigurationSpec
}

/** A mistake in a document. */
export interface Problem {
  /** The path of the field, such as `spec.discoveryHandler.name`; empty for the whole document. */
  readonly path: string
  /** The mistake, the value, and a value that would be right. */
  readonly message: string
}

type ParsedConfiguration =
  | { readonly ok: true; readonly configuration: ConfigurationManifest }
  | { readonly ok: false; readonly problems: readonly Problem[] }

/** The most slots of an Instance: each slot is a key of the object, and a device of the kubelet. */
const MAX_CAPACITY = 10_000

/** The longest name of a Configuration. The name of an Instance adds a dash and six digits. */
const MAX_NAME_LENGTH = MAX_RESOURCE_NAME - '-123456'.length

/** The most Secrets and ConfigMaps of a Configuration: every agent watches each of them. */
const MAX_SOURCES = 64

/** The most problems that are reported: a document may have hundreds of thousands. */
const MAX_PROBLEMS = 100

/**
 * The most entries of each mapping and list of a Configuration itself. A check of one more entry
 * takes time, and a document may have hundreds of thousands.
 */
const MAX_ENTRIES = 1000

/**
 * The most values of a spec: agents and the controller keep all Configurations in memory, and a
 * value takes up to 90 bytes.
 */
const MAX_SPEC_VALUES = 50_000

/** The longest name of a handler: no handler can register with a longer one. */
const MAX_HANDLER_NAME = 63

/**
 * The most bytes of `brokerProperties`, names and values together: each Instance has all of them,
 * and an agent may have thousands.
 */
const MAX_BROKER_PROPERTIES_BYTES = 16 * 1024

const text = z.string()

/** A mapping of texts. Its entries are checked only if their number is right. */
function textMap(key: z.ZodType<string, string> = text) {
  return z
    .record(z.string(), z.unknown())
    .refine((map) => Object.keys(map).length <= MAX_ENTRIES, {
      message: `write at most ${MAX_ENTRIES} entries`,
    })
    .pipe(z.record(key, text))
}
const dnsSubdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/

/** The rules of Kubernetes for the name of an object that is referred to. */
const objectName = text
  .max(253)
  .regex(
    dnsSubdomain,
    'write the name of an object: lower-case letters, digits, - and ., beginning and ending ' +
      'with a letter or digit',
  )

const namespaceName = text
  .max(63)
  .regex(
    /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/,
    'write lower-case letters, digits and -, beginning and ending with a letter or digit',
  )

const keySelector = z.strictObject({
  name: objectName,
  key: text.min(1),
  namespace: absentOr(namespaceName),
  optional: absentOr(z.boolean()),
})

const property = z
  .strictObject({
    name: text.regex(/^[_A-Za-z][_A-Za-z0-9]*$/, 'write a letter or _, then letters, digits and _'),
    value: absentOr(text),
    valueFrom: absentOr(
      z
        .strictObject({
          secretKeyRef: absentOr(keySelector),
          configMapKeyRef: absentOr(keySelector),
        })
        .transform((from, context) => {
          if (from.secretKeyRef && !from.configMapKeyRef) return { secretKeyRef: from.secretKeyRef }
          if (from.configMapKeyRef && !from.secretKeyRef)
            return { configMapKeyRef: from.configMapKeyRef }
          context.addIssue({
            code: 'custom',
            message: 'give one of secretKeyRef and configMapKeyRef',
          })
          return z.NEVER
        }),
    ),
  })
  .transform(({ name, value, valueFrom }, context) => {
    if (valueFrom === undefined) return value === undefined ? { name } : { name, value }
    if (value === undefined) return { name, valueFrom }
    context.addIssue({ code: 'custom', message: 'give one of value and valueFrom' })
    return z.NEVER
  })

/** The object that a property comes from, if any. */
function sourceOf({ valueFrom }: z.output<typeof property>): string[] {
  if (valueFrom === undefined) return []
  const kind = 'secretKeyRef' in valueFrom ? 'Secret' : 'ConfigMap'
  const { namespace = '', name } =
    'secretKeyRef' in valueFrom ? valueFrom.secretKeyRef : valueFrom.configMapKeyRef
  return [`${kind} ${namespace}/${name}`]
}

/** A broker has no room beside its successor, so 0 would stop all changes. */
const maxUnavailable = z
  .union([z.number(), text])
  .refine(
    (limit) =>
      typeof limit === 'number'
        ? Number.isSafeInteger(limit) && limit >= 1
        : /^([1-9][0-9]?|100)%$/.test(limit),
    'write a number from 1 on, or a percentage from 1% to 100%',
  )

/** Why a field that would have no effect is refused. */
function rollingUpdateRefusal(type: UpdateStrategy, template = ''): string | undefined {
  if (template !== 'brokerPodSpec')
    return `leave it out: it is for brokerPodSpec, and the broker is a ${template}`
  return type === 'OnDelete' ? 'leave it out, or write the type RollingUpdate' : undefined
}

// These fields belong to Kubernetes, and are kept as they are.
const anything = z.record(text, z.unknown())

/** Without the `|` of YAML, what is meant as a text is a mapping, of one line or of several. */
const discoveryDetails = z.string({
  error: ({ input }) =>
    typeof input === 'object'
      ? 'write a text: in quotes, or on the lines below discoveryDetails: |'
      : 'write a text, in quotes or after |',
})

const spec = z.strictObject({
  discoveryHandler: z.strictObject({
    name: text
      .min(1)
      .max(MAX_HANDLER_NAME, `a handler's name has at most ${MAX_HANDLER_NAME} characters`),
    discoveryDetails: orDefault(discoveryDetails, ''),
    discoveryProperties: orDefault(
      z
        .array(z.unknown())
        .max(MAX_ENTRIES, `write at most ${MAX_ENTRIES} properties`)
        .pipe(z.array(property)),
      [],
    ).superRefine((properties, context) => {
      const names = new Set<string>()
      for (const [index, { name }] of properties.entries()) {
        if (names.has(name))
          context.addIssue({
            code: 'custom',
            path: [index, 'name'],
            message: 'another property has this name',
          })
        names.add(name)
      }
      const sources = new Set(properties.flatMap(sourceOf))
      if (sources.size > MAX_SOURCES)
        context.addIssue({
          code: 'custom',
          message:
            `refer to at most ${MAX_SOURCES} Secrets and ConfigMaps, with several keys in ` +
            `each; there are ${sources.size}`,
        })
    }),
  }),
  capacity: orDefault(z.number().int().min(1).max(MAX_CAPACITY), 1),
  offer: absentOr(z.enum(['both', 'configuration', 'instance'])),
  brokerSpec: absentOr(
    z
      .strictObject({
        brokerPodSpec: absentOr(anything),
        brokerJobSpec: absentOr(anything),
        brokerDeploymentSpec: absentOr(anything),
        updateStrategy: absentOr(
          z.strictObject({
            type: orDefault(z.enum(['RollingUpdate', 'OnDelete']), 'RollingUpdate'),
            rollingUpdate: absentOr(z.strictObject({ maxUnavailable: absentOr(maxUnavailable) })),
          }),
        ),
      })
      .transform(({ updateStrategy, ...templates }, context) => {
        const present = Object.entries(templates).filter(([, template]) => template !== undefined)
        if (present.length > 1) {
          const names = present.map(([name]) => name).join(' and ')
          context.addIssue({ code: 'custom', message: `give one of ${names}` })
          return z.NEVER
        }
        if (present.length === 0) return undefined
        if (updateStrategy?.rollingUpdate !== undefined) {
          const refusal = rollingUpdateRefusal(updateStrategy.type, present[0]?.[0])
          if (refusal !== undefined)
            context.addIssue({
              code: 'custom',
              path: ['updateStrategy', 'rollingUpdate'],
              message: refusal,
            })
        }
        return {
          ...Object.fromEntries(present),
          ...(updateStrategy === undefined ? {} : { updateStrategy }),
        }
      }),
  ),
  instanceServiceSpec: absentOr(anything),
  configurationServiceSpec: absentOr(anything),
  brokerProperties: orDefault(
    textMap(
      text.min(1).regex(/^[^=\0]+$/, 'it names an environment variable: no = and no NUL'),
    ).superRefine((properties, context) => {
      const bytes = Buffer.byteLength(Object.entries(properties).flat().join(''))
      if (bytes > MAX_BROKER_PROPERTIES_BYTES)
        context.addIssue({
          code: 'custom',
          message:
            `write at most ${MAX_BROKER_PROPERTIES_BYTES} bytes, names and values together; ` +
            `there are ${bytes}: brokers can have more from a ConfigMap`,
        })
    }),
    {},
  ),
})

const fields = z.strictObject({
  apiVersion: z.literal(API_VERSION),
  kind: z.literal('Configuration'),
  metadata: z.looseObject({
    name: text
      .max(
        MAX_NAME_LENGTH,
        `write at most ${MAX_NAME_LENGTH} characters, so that akri.sh/<name>-<digest> can ` +
          'name a resource',
      )
      .regex(
        dnsSubdomain,
        'write lower-case letters, digits, - and ., beginning and ending with a letter or digit',
      ),
    namespace: orDefault(namespaceName, 'default'),
    labels: orDefault(textMap(), {}),
    annotations: orDefault(textMap(), {}),
  }),
  spec,
  status: z.unknown().optional(),
})

/** A broker that asks for a resource that no node offers would wait for a node for ever. */
const manifest = fields.superRefine(({ metadata, spec }, context) => {
  const { offer = 'both', brokerSpec = {} } = spec
  const demands = brokerDemands(metadata.name, brokerSpec)
  const refused = demands.find(({ resource }) => offer !== 'both' && offer !== resource)
  if (refused === undefined) return
  const { resource, by } = refused
  const offers = demands.every((demand) => demand.resource === resource)
    ? `both or ${resource}`
    : 'both'
  context.addIssue({
    code: 'custom',
    path: ['spec', 'offer'],
    message: `write ${offers}: ${by} asks for the resource of the ${NOUN[resource]}`,
  })
})

const NOUN = { configuration: 'Configuration', instance: 'Instance' } as const

/** The bound of values, or of their nesting, that a spec exceeds; undefined if there is none. */
export function specExcess(spec: unknown): string | undefined {
  return excess(spec, MAX_SPEC_VALUES)
}

/** Reads a Configuration of a file. Never throws. */
export function parseConfiguration(object: unknown): ParsedConfiguration {
  const tooMuch = excess(object)
  if (tooMuch !== undefined) return { ok: false, problems: [{ path: '', message: tooMuch }] }
  const inSpec = specExcess(valueAt(object, 'spec'))
  if (inSpec !== undefined) return { ok: false, problems: [{ path: 'spec', message: inSpec }] }
  const result = manifest.safeParse(object)
  if (!result.success) {
    const problems = result.error.issues
      .slice(0, MAX_PROBLEMS)
      .flatMap((issue) => describe(issue, object))
    // The first problem of each path: a value of the wrong type breaks other rules too.
    const first = new Map([...problems].reverse().map((problem) => [problem.path, problem]))
    return {
      ok: false,
      problems: problems
        .filter((problem) => first.get(problem.path) === problem)
        .slice(0, MAX_PROBLEMS),
    }
  }
  const { metadata } = result.data
  return {
    ok: true,
    configuration: {
      name: metadata.name as ConfigurationName,
      namespace: metadata.namespace,
      labels: metadata.labels,
      annotations: metadata.annotations,
      spec: withoutUndefined(result.data.spec) as ConfigurationSpec,
    },
  }
}

function describe(issue: z.core.$ZodIssue, root: unknown): Problem[] {
  const path = pathText(issue.path)
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.slice(0, MAX_PROBLEMS).map((key) => ({
      path: pathText([...issue.path, key]),
      message: `there is no such field${suggestion(key)}`,
    }))
  }
  return [{ path, message: issueMessage(issue, root) }]
}

const FIELDS = [
  'apiVersion',
  'kind',
  'metadata',
  'spec',
  'discoveryHandler',
  'name',
  'discoveryDetails',
  'discoveryProperties',
  'value',
  'valueFrom',
  'secretKeyRef',
  'configMapKeyRef',
  'key',
  'namespace',
  'optional',
  'capacity',
  'offer',
  'brokerSpec',
  'brokerPodSpec',
  'brokerJobSpec',
  'brokerDeploymentSpec',
  'updateStrategy',
  'rollingUpdate',
  'maxUnavailable',
  'instanceServiceSpec',
  'configurationServiceSpec',
  'brokerProperties',
]

function suggestion(key: string): string {
  if (FIELDS.includes(key)) return ' at this place'
  const near = nearest(key, FIELDS)
  return near === undefined ? '' : `; did you mean ${near}?`
}
