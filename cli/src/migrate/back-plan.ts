import {
  BROKER_TEMPLATES,
  type Configuration,
  handlerOf,
  type Instance,
  NOT_NULL_FIELDS,
  parseConfigurationStatus,
  parseInstanceObject,
  parseSlotUsage,
  slotIndex,
} from '@akrijs/api'
import { type JsonPatch, keyOf, pointer } from '@akrijs/kube'
import { isRecord, valueAt } from '@akrijs/runtime'
import type { ClusterSnapshot } from './cluster-snapshot.js'
import { existingAgents } from './existing-agents.js'
import { existingDetailsTexts } from './existing-details.js'
import { fieldOwners, needsOwners } from './field-owners.js'
import { type Finding, type MigrationPlan, type ObjectChange, titleOf } from './migration-plan.js'
import { ambiguityText, isAmbiguous, propertyReferences } from './property-references.js'
import { VirtualIds } from './virtual-ids.js'

// The way back to the existing system, 0.13: objects get the form that its agents read. Pure.

interface BackOptions {
  /** Whether to write although agents and controllers run. They may undo what is written. */
  readonly ignoreRunning: boolean
}

/** The most Pods that findings name. */
const SHOWN_PODS = 5

export function planBack(snapshot: ClusterSnapshot, { ignoreRunning }: BackOptions): MigrationPlan {
  const changes: ObjectChange[] = []
  const findings: Finding[] = []
  const level = ignoreRunning ? 'warning' : 'obstacle'
  for (const pod of snapshot.programs.slice(0, SHOWN_PODS))
    findings.push({
      level,
      object: titleOf('Pod', pod),
      text: `this ${pod.program} runs, and would undo the changes: stop it first`,
    })
  const more = snapshot.programs.length - SHOWN_PODS
  if (more > 0) findings.push({ level, object: 'Pods', text: `${more} others run too` })
  const isServed = servedConfigurations(snapshot)
  // A controller that runs would write it again.
  const withStatus = snapshot.programs.length === 0
  for (const object of snapshot.configurations) {
    const plan = planConfiguration(object, isServed, withStatus)
    changes.push(...plan.changes)
    findings.push(...plan.findings)
  }
  const ids = new VirtualIds(
    snapshot.instances.flatMap((found) => parseInstanceObject(found) ?? []),
  )
  for (const object of snapshot.instances) {
    const plan = planInstance(object, ids, withStatus)
    changes.push(...plan.changes)
    findings.push(...plan.findings)
  }
  return { changes, findings }
}

type IsServed = (configuration: Pick<Configuration, 'metadata' | 'status'>) => boolean

/**
 * The Configurations that akri.js alone has read: what they leave out has the meaning of akri.js.
 * While agents of the existing system run too, a field has two meanings.
 */
function servedConfigurations(snapshot: ClusterSnapshot): IsServed {
  if (existingAgents(snapshot).size > 0) return () => false
  const reported = new Set(
    snapshot.reports.flatMap(({ configurations }) =>
      Object.values(configurations).map(({ uid }) => uid),
    ),
  )
  return ({ metadata, status }) => status !== undefined || reported.has(metadata.uid)
}

/** @param withStatus whether the status goes: the existing system would leave it as it is */
function planConfiguration(
  object: unknown,
  isServed: IsServed,
  withStatus: boolean,
): MigrationPlan {
  const found = parseConfigurationStatus(object)
  const spec = isRecord(object) && isRecord(object.spec) ? object.spec : undefined
  if (found === undefined || spec === undefined) return { changes: [], findings: [] }
  const { metadata } = found
  const title = titleOf('Configuration', metadata)
  const findings: Finding[] = []
  const patch: JsonPatch[number][] = []
  const effects: string[] = []
  const warn = (text: string) => findings.push({ level: 'warning', object: title, text })
  for (const path of NOT_NULL_FIELDS) {
    if (valueAt(spec, ...path) !== null) continue
    patch.push({ op: 'remove', path: pointer('spec', ...path) })
    effects.push(`remove spec.${path.join('.')}, which is null`)
  }
  if (isRecord(spec.brokerSpec)) {
    const { updateStrategy, ...templates } = spec.brokerSpec
    const present = Object.entries(templates).filter(([, template]) => template !== null)
    const path = pointer('spec', 'brokerSpec')
    const names = present
      .map(([name]) => name)
      .filter((name) => BROKER_TEMPLATES.some((template) => template === name))
    if (names.includes('brokerDeploymentSpec'))
      findings.push({
        level: 'obstacle',
        object: title,
        text:
          'the existing system has no spec.brokerSpec.brokerDeploymentSpec, and such a ' +
          'Configuration stops its agents: write a brokerPodSpec, or remove brokerSpec',
      })
    else if (names.length > 1)
      findings.push({ level: 'obstacle', object: title, text: `keep one of ${names.join(', ')}` })
    else if (names.length === 0) {
      patch.push({ op: 'remove', path })
      effects.push('remove spec.brokerSpec, which has no template')
    } else if (present.length < Object.keys(spec.brokerSpec).length) {
      patch.push({ op: 'replace', path, value: Object.fromEntries(present) })
      effects.push(
        updateStrategy === undefined
          ? 'remove the nulls in spec.brokerSpec'
          : `remove spec.brokerSpec.updateStrategy: ${JSON.stringify(updateStrategy)}; the ` +
              'existing system leaves running brokers as they are',
      )
    }
  }
  if (typeof spec.offer === 'string' && spec.offer !== 'both')
    warn(`the existing system ignores spec.offer: ${spec.offer}, and offers both resources`)
  const { namespace } = metadata
  for (const reference of propertyReferences(spec)) {
    if (!isAmbiguous(reference, namespace)) continue
    const { property, kind, name, path } = reference
    if (isServed(found)) {
      patch.push({ op: 'add', path: pointer(...path, 'namespace'), value: namespace })
      effects.push(`write the namespace of the ${kind} ${namespace}/${name}, property ${property}`)
    } else warn(`${ambiguityText(reference, namespace)}: write the one that you mean`)
  }
  const { name = '', details = '' } = handlerOf(object) ?? {}
  for (const text of existingDetailsTexts(name, details)) warn(text)
  const { uid, resourceVersion } = metadata
  const key = keyOf({ metadata })
  const change = { kind: 'Configuration', key, uid, resourceVersion, effects, patch } as const
  if (withStatus && found.status !== undefined) {
    effects.push('remove its status')
    return { changes: [{ ...change, status: null }], findings }
  }
  return { changes: patch.length > 0 ? [change] : [], findings }
}

/** Without `brokerJob`: on a later way forward, a Job that has run must not run again. */
const NO_STATUS = { conditions: null, brokerInfo: null, brokerInfoSlots: null }

function planInstance(object: unknown, ids: VirtualIds, withStatus: boolean): MigrationPlan {
  const instance = parseInstanceObject(object)
  if (instance === undefined) return { changes: [], findings: [] }
  const { metadata, spec } = instance
  const title = titleOf('Instance', metadata)
  const findings: Finding[] = []
  const find = (level: Finding['level'], text: string) =>
    findings.push({ level, object: title, text })
  if (metadata.deletionTimestamp !== undefined) {
    find('warning', `it is being deleted; its finalizers are ${metadata.finalizers?.join(', ')}`)
    return { changes: [], findings }
  }
  const patch: JsonPatch[number][] = []
  const effects: string[] = []
  const usage: Record<string, string> = {}
  let free = 0
  for (const [slot, value] of Object.entries(spec.deviceUsage)) {
    const path = pointer('spec', 'deviceUsage', slot)
    const parsed = parseSlotUsage(value)
    if (parsed.level === 'free') {
      patch.push({ op: 'remove', path })
      free++
      continue
    }
    const index = slotIndex(metadata.name, slot)
    const written = ids.existingForm(instance, parsed) ?? value
    usage[slot] = written
    if (index === undefined || index >= spec.capacity)
      find('obstacle', `${value} claims ${slot} beyond the capacity ${spec.capacity}: end its Pod`)
    else if (parsed.level === 'unreadable')
      find('obstacle', `${slot} has the unreadable value ${value}: edit the Instance`)
    if (parsed.level === 'configuration' && written !== value) {
      patch.push({ op: 'replace', path, value: written })
      effects.push(`${slot}: ${value} becomes ${written}`)
      find(
        'warning',
        `create the Pod with ${slot} on ${parsed.node} again: its kubelet knows the device by ` +
          'another id, and the agent there frees the slot after 30 s',
      )
    }
  }
  if (free > 0) effects.unshift(`remove free slots (${free})`)
  const changed: Instance = { ...instance, spec: { ...spec, deviceUsage: usage } }
  const owners = fieldOwners(changed)
  if (spec.nodes.length === 0) find('warning', 'no node sees the device: delete the Instance')
  const gives = owners.length > 0 && (patch.length > 0 || needsOwners(object, owners))
  if (gives) effects.push(`give its fields to ${owners.map(({ manager }) => manager).join(', ')}`)
  const written = Object.keys(instance.status ?? {}).some((name) => name !== 'brokerJob')
  const status = withStatus && written ? { status: NO_STATUS } : undefined
  if (status !== undefined) effects.push('remove its conditions and the reports of its brokers')
  const { uid, resourceVersion } = metadata
  const change = { kind: 'Instance', key: keyOf(instance), uid, resourceVersion, effects } as const
  const isChanged = patch.length > 0 || gives || status !== undefined
  return {
    changes: isChanged ? [{ ...change, patch, ...status, ...(gives ? { owners } : {}) }] : [],
    findings,
  }
}
