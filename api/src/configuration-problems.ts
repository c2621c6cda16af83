import { excess, isRecord, valueAt } from '@akrijs/runtime'
import { containerProblems } from './broker-containers.js'
import { type Problem, parseConfiguration } from './configuration-schema.js'
import { checkType } from './kubernetes/check-type.js'
import type { KubernetesTypes, Root } from './kubernetes/kubernetes-types.js'

/**
 * The most problems of each part: an author with so many mistakes corrects some and tries again.
 */
const MAX_PROBLEMS = 50

const BROKER_KINDS = ['brokerPodSpec', 'brokerJobSpec', 'brokerDeploymentSpec']

/** The specs of Kubernetes in a Configuration, and the fields that akri.js fills in. */
const SPECS: readonly {
  readonly path: readonly string[]
  readonly root: Root
  readonly filledIn?: readonly string[]
}[] = [
  { path: ['spec', 'brokerSpec', 'brokerPodSpec'], root: 'podSpec' },
  { path: ['spec', 'brokerSpec', 'brokerJobSpec'], root: 'jobSpec' },
  {
    path: ['spec', 'brokerSpec', 'brokerDeploymentSpec'],
    root: 'deploymentSpec',
    filledIn: ['selector'],
  },
  { path: ['spec', 'instanceServiceSpec'], root: 'serviceSpec' },
  { path: ['spec', 'configurationServiceSpec'], root: 'serviceSpec' },
]

/** A problem refuses the Configuration; a warning does not. */
export interface Finding extends Problem {
  readonly level: 'problem' | 'warning'
}

/**
 * The place where a Configuration is used: `cluster`, whose types are checked; `otherCluster`,
 * whose fields may be newer than these types; or `node` of `akri run`.
 */
export type UsedIn = 'cluster' | 'otherCluster' | 'node'

/** What a finding in a spec is about. */
type Subject =
  /** A `brokerSpec` without a broker. */
  | 'broker'
  | 'value'
  /** A field that the types do not have. */
  | 'field'
  /** A container that a cluster can never create. */
  | 'container'
  /** A container that a cluster can never create, and that `akri run` starts. */
  | 'process'

/**
 * The level of each finding. `akri run` reads few fields of a spec, reports what stops them, and
 * still finds devices: it refuses no Configuration because of a spec.
 */
const LEVELS: Readonly<Record<UsedIn, Partial<Record<Subject, Finding['level']>>>> = {
  cluster: {
    broker: 'warning',
    value: 'problem',
    field: 'problem',
    container: 'problem',
    process: 'warning',
  },
  otherCluster: {
    broker: 'warning',
    value: 'problem',
    field: 'warning',
    container: 'problem',
    process: 'warning',
  },
  node: { broker: 'warning', value: 'warning', field: 'warning', container: 'warning' },
}

interface SpecOptions {
  readonly types: KubernetesTypes
  readonly usedIn: UsedIn
}

/** The findings of a Configuration that need no look at the cluster. Never throws. */
export function configurationFindings(object: unknown, options: SpecOptions): Finding[] {
  const parsed = parseConfiguration(object)
  const problems = parsed.ok ? [] : parsed.problems
  return [
    ...problems.map((problem) => ({ level: 'problem' as const, ...problem })),
    ...specFindings(object, options),
  ]
}

/** The findings in the specs of brokers and Services in a Configuration. Never throws. */
export function specFindings(object: unknown, { types, usedIn }: SpecOptions): Finding[] {
  // A document that is too large or too deep would exhaust the type check.
  if (excess(object) !== undefined) return []
  const levels = LEVELS[usedIn]
  const finding = (subject: Subject, { path, message }: Problem): Finding[] => {
    const level = levels[subject]
    return level === undefined ? [] : [{ level, path, message }]
  }
  const inTypes = SPECS.flatMap(({ path, root, filledIn = [] }) => {
    const spec = valueAt(object, ...path)
    // The parser reports a spec that is no mapping.
    if (typeof spec !== 'object' || spec === null || Array.isArray(spec)) return []
    return checkType(spec, { types, root, path: path.join('.'), filledIn, limit: MAX_PROBLEMS })
  })
  return [
    ...missingBroker(object).flatMap((each) => finding('broker', each)),
    ...inTypes.flatMap((each) => finding(each.isUnknownField ? 'field' : 'value', each)),
    ...containerProblems(object, MAX_PROBLEMS).flatMap((each) =>
      finding(each.runsWithoutCluster ? 'process' : 'container', each),
    ),
  ]
}

/** The existing system accepts a `brokerSpec` without a broker, so only a warning can name it. */
function missingBroker(object: unknown): Problem[] {
  const brokerSpec = valueAt(object, 'spec', 'brokerSpec')
  // A null counts as absent.
  if (!isRecord(brokerSpec) || BROKER_KINDS.some((kind) => (brokerSpec[kind] ?? null) !== null))
    return []
  const message =
    'it has no broker: write brokerPodSpec, brokerJobSpec or brokerDeploymentSpec, or leave it out'
  return [{ path: 'spec.brokerSpec', message }]
}
