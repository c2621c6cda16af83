import { type Problem, parseConfiguration } from '@akrijs/api'
import { excess, valueAt } from '@akrijs/runtime'
import { checkType } from '../schema/check-type.js'
import type { KubernetesTypes, Root } from '../schema/kubernetes-types.js'

/**
 * The most problems of each part: an author with so many mistakes corrects some and tries again.
 */
const MAX_PROBLEMS = 50

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

/** The problems of a Configuration that need no look at the cluster. Never throws. */
export function configurationProblems(object: unknown, types: KubernetesTypes): Problem[] {
  const parsed = parseConfiguration(object)
  const problems = parsed.ok ? [] : [...parsed.problems]
  // A document that is too large or too deep would exhaust the type check too.
  if (excess(object) !== undefined) return problems
  for (const { path, root, filledIn = [] } of SPECS) {
    const spec = valueAt(object, ...path)
    // The parser has reported a spec that is no mapping.
    if (typeof spec !== 'object' || spec === null || Array.isArray(spec)) continue
    problems.push(
      ...checkType(spec, { types, root, path: path.join('.'), filledIn, limit: MAX_PROBLEMS }),
    )
  }
  return problems
}
