import { type Problem, parseConfiguration } from '@akrijs/api'
import { excess } from '@akrijs/runtime'
import { at } from '../json.js'
import { checkType } from '../schema/check-type.js'
import type { KubernetesTypes, Root } from '../schema/kubernetes-types.js'

/** How many problems are looked for in each part: one who has made so many mends some and tries again. */
const MAX_PROBLEMS = 50

/** Where in a Configuration Kubernetes' own specs are, and what of them akri.js fills in. */
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

/** All that is wrong with a Configuration, as far as it can be seen by itself. Never throws. */
export function configurationProblems(object: unknown, types: KubernetesTypes): Problem[] {
  const parsed = parseConfiguration(object)
  const problems = parsed.ok ? [] : [...parsed.problems]
  // What is nested too deep would be too much for us as well.
  if (excess(object) !== undefined) return problems
  for (const { path, root, filledIn = [] } of SPECS) {
    const spec = at(object, ...path)
    // What is no mapping at all is told by the parser already.
    if (typeof spec !== 'object' || spec === null || Array.isArray(spec)) continue
    problems.push(
      ...checkType(spec, { types, root, path: path.join('.'), filledIn, limit: MAX_PROBLEMS }),
    )
  }
  return problems
}
