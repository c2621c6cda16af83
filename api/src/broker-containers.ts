import { isRecord, valueAt } from '@akrijs/runtime'
import type { Problem } from './configuration-schema.js'

/** A problem of a container of a broker. */
export interface ContainerProblem extends Problem {
  /** Whether `akri run` starts the container nevertheless: it needs only a command. */
  readonly runsWithoutCluster: boolean
}

const PODS = [
  ['spec', 'brokerSpec', 'brokerPodSpec'],
  ['spec', 'brokerSpec', 'brokerJobSpec', 'template', 'spec'],
  ['spec', 'brokerSpec', 'brokerDeploymentSpec', 'template', 'spec'],
]

/**
 * The containers of brokers that a cluster would refuse only when the broker is created: those
 * without an image or a name. `akri run` needs neither if there is a command.
 * @param limit the most problems of each Pod
 */
export function containerProblems(object: unknown, limit: number): ContainerProblem[] {
  return PODS.flatMap((path) => {
    const pod = valueAt(object, ...path)
    const at = path.join('.')
    const containers = valueAt(pod, 'containers')
    const isAlone = Array.isArray(containers) && containers.length === 1
    const runsHere = isAlone && !at.includes('Deployment')
    const problems = [
      ...(Array.isArray(containers) && containers.length === 0
        ? [problem(`${at}.containers`, 'it is empty; write a container')]
        : []),
      ...problemsOf(containers, `${at}.containers`, { runsHere, limit }),
      ...problemsOf(valueAt(pod, 'initContainers'), `${at}.initContainers`, {
        runsHere: false,
        limit,
      }),
    ]
    return problems.slice(0, limit)
  })
}

function problemsOf(
  containers: unknown,
  at: string,
  { runsHere, limit }: { readonly runsHere: boolean; readonly limit: number },
): ContainerProblem[] {
  const problems: ContainerProblem[] = []
  if (!Array.isArray(containers)) return problems
  for (const [index, container] of containers.entries()) {
    if (problems.length >= limit) break
    if (!isRecord(container)) continue
    const hasCommand = Array.isArray(container.command) && container.command.length > 0
    for (const field of ['name', 'image']) {
      // The check of types has refused any other value.
      if ((container[field] ?? '') !== '') continue
      const path = `${at}[${index}].${field}`
      problems.push(
        runsHere && hasCommand
          ? {
              path,
              message: 'it is missing: only akri run can start the broker',
              runsWithoutCluster: true,
            }
          : problem(path, `it is missing; write the ${field} of the container`),
      )
    }
  }
  return problems
}

function problem(path: string, message: string): ContainerProblem {
  return { path, message, runsWithoutCluster: false }
}
