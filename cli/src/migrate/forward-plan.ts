import {
  type Configuration,
  ConfigurationNames,
  type ConfigurationSpec,
  finalizerNodes,
  finalizerRemoval,
  type Instance,
  missingFields,
  parseConfigurationObject,
  parseConfigurationStatus,
  parseInstanceObject,
  parseObjectMeta,
} from '@akrijs/api'
import { type JsonPatch, keyOf, type NodeName, pointer } from '@akrijs/kube'
import type { ClusterSnapshot } from './cluster-snapshot.js'
import { existingAgents } from './existing-agents.js'
import {
  type Finding,
  type MigratedKind,
  type MigrationPlan,
  type ObjectChange,
  titleOf,
} from './migration-plan.js'
import { ambiguityText, isAmbiguous, propertyReferences } from './property-references.js'

/**
 * Plans the way from the existing system: finalizers of agents that no longer run are removed, and
 * Instances of early versions get the fields that they lack. Most of the rest is read as it is.
 * Pure.
 */
export function planForward(snapshot: ClusterSnapshot): MigrationPlan {
  const changes: ObjectChange[] = []
  const findings: Finding[] = []
  const others = existingAgents(snapshot)
  const objects = [
    ...snapshot.configurations.map((found) => [found, parseConfigurationStatus(found)] as const),
    ...snapshot.instances.map((found) => [found, parseInstanceObject(found)] as const),
  ]
  for (const [found, object] of objects) {
    if (object === undefined) continue
    const kind = 'spec' in object ? 'Instance' : 'Configuration'
    const nodes = finalizerNodes(object).filter(
      (node) => finalizerRemoval(found, node) !== undefined,
    )
    const leftover = nodes.filter((node) => !others.has(node))
    const release = leftover.length > 0 ? releaseOf(object, leftover) : undefined
    const missing = kind === 'Instance' ? missingOf(found) : undefined
    const parts = [release, missing].filter((part) => part !== undefined)
    if (parts.length > 0) changes.push(changeOf(kind, object, parts))
    for (const node of nodes) {
      const agent = others.get(node)
      if (agent === undefined) continue
      const text = `its finalizer ${node} stays: ${agent} of the existing system runs there`
      findings.push({ level: 'warning', object: titleOf(kind, object.metadata), text })
    }
  }
  findings.push(...configurationFindings(snapshot))
  findings.push(...unreadableInstances(snapshot.instances))
  return { changes, findings }
}

type ChangePart = Pick<ObjectChange, 'effects' | 'patch'>

function changeOf(
  kind: MigratedKind,
  { metadata }: Pick<Configuration, 'metadata'> | Instance,
  parts: readonly ChangePart[],
): ObjectChange {
  const { uid, resourceVersion } = metadata
  const effects = parts.flatMap((part) => part.effects)
  const patch = parts.flatMap((part) => part.patch)
  return { kind, key: keyOf({ metadata }), uid, resourceVersion, effects, patch }
}

function releaseOf(
  { metadata }: Pick<Configuration, 'metadata'> | Instance,
  nodes: readonly NodeName[],
): ChangePart {
  const path = pointer('metadata', 'finalizers')
  const kept = (metadata.finalizers ?? []).filter((name) => !nodes.includes(name as NodeName))
  const patch: JsonPatch =
    kept.length > 0 ? [{ op: 'replace', path, value: kept }] : [{ op: 'remove', path }]
  return { effects: [`remove the finalizers ${nodes.join(', ')}`], patch }
}

/** The fields that agents before 0.13.8 did not write. */
function missingOf(found: unknown): ChangePart | undefined {
  const missing = missingFields(found)
  if (missing === undefined) return undefined
  const fields = Object.entries(missing)
  return {
    effects: fields.map(([name, value]) => `write spec.${name}, which is missing: ${value}`),
    patch: fields.map(([name, value]) => ({ op: 'add', path: pointer('spec', name), value })),
  }
}

function configurationFindings(snapshot: ClusterSnapshot): Finding[] {
  const parsed = snapshot.configurations.map((object) => parseConfigurationObject(object))
  const instances = snapshot.instances.flatMap((object) => parseInstanceObject(object) ?? [])
  const configurations = parsed.flatMap((each) => (each.ok ? [each.configuration] : []))
  const names = new ConfigurationNames<Configuration>(configurations)
  const invalid = parsed.flatMap((each): Finding[] => {
    if (each.ok || each.found === undefined) return []
    const [problem] = each.problems
    const text = `akri.js does not serve it: ${problem?.path}: ${problem?.message}`
    return [{ level: 'warning', object: titleOf('Configuration', each.found.metadata), text }]
  })
  const others = configurations.flatMap((configuration): Finding[] => {
    const object = titleOf('Configuration', configuration.metadata)
    const rival = names.rival(configuration)
    const texts = [
      ...referenceTexts(configuration.spec, configuration.metadata.namespace),
      ...jobTexts(configuration, instances),
    ]
    if (rival !== undefined)
      texts.push(
        `akri.js does not serve it: the older ${titleOf('Configuration', rival.metadata)} has ` +
          'its name, or could have an Instance of its name',
      )
    return texts.map((text) => ({ level: 'warning', object, text }))
  })
  return [...invalid, ...others]
}

function unreadableInstances(objects: readonly unknown[]): Finding[] {
  return objects.flatMap((object) => {
    const metadata = parseObjectMeta(object)
    if (metadata === undefined || parseInstanceObject(object) !== undefined) return []
    const text = 'akri.js cannot read it, and does not offer its device: delete it'
    return [{ level: 'warning', object: titleOf('Instance', metadata), text }]
  })
}

function referenceTexts(spec: ConfigurationSpec, namespace: string): string[] {
  return propertyReferences(spec).flatMap((reference) => {
    if (isAmbiguous(reference, namespace)) return [ambiguityText(reference, namespace)]
    const { property, kind, name, namespace: other = namespace } = reference
    return other === namespace
      ? []
      : `its property ${property} needs the annotation akri.sh/readable-from on the ${kind} ` +
          `${other}/${name}`
  })
}

/** The existing system does not record that a Job has run. */
function jobTexts({ metadata, spec }: Configuration, instances: readonly Instance[]): string[] {
  const { brokerSpec } = spec
  if (brokerSpec === undefined || !('brokerJobSpec' in brokerSpec)) return []
  const { ttlSecondsAfterFinished: seconds } = brokerSpec.brokerJobSpec
  const unrecorded = instances.filter(
    (instance) =>
      instance.metadata.namespace === metadata.namespace &&
      instance.spec.configurationName === metadata.name &&
      instance.status?.brokerJob === undefined,
  )
  return typeof seconds !== 'number' || unrecorded.length === 0
    ? []
    : [
        `its Jobs are deleted ${seconds} s after their end, and nothing records that they have ` +
          'run: akri.js runs a Job again for each device that has none',
      ]
}
