import { isRecord } from '@akrijs/runtime'
import { GROUP, instanceNameParts } from './names.js'
import type { Offer } from './types.js'

/** A resource of its Configuration that a broker asks for. */
interface BrokerDemand {
  readonly resource: Exclude<Offer, 'both'>
  /** What asks for the resource. */
  readonly by: string
}

/** The resource that the placeholder stands for in each kind of broker. */
const RESOURCE_OF = {
  brokerPodSpec: 'instance',
  brokerJobSpec: 'instance',
  brokerDeploymentSpec: 'configuration',
} as const

/**
 * The resources that a broker asks for: that of its kind, and those that its containers name in
 * place of the placeholder.
 */
export function brokerDemands(
  configuration: string,
  brokerSpec: Readonly<Record<string, unknown>>,
): BrokerDemand[] {
  return Object.entries(RESOURCE_OF).flatMap(([kind, resource]) => {
    if (!Object.hasOwn(brokerSpec, kind)) return []
    const template = brokerSpec[kind]
    const pod = kind === 'brokerPodSpec' ? template : at(at(template, 'template'), 'spec')
    const demands: BrokerDemand[] = [{ resource, by: kind }]
    for (const name of resourceNames(pod)) {
      const parts = instanceNameParts(name)
      if (name === configuration)
        demands.push({ resource: 'configuration', by: `${kind} with ${GROUP}/${name}` })
      else if (parts?.configuration === configuration)
        demands.push({ resource: 'instance', by: `${kind} with ${GROUP}/${name}` })
    }
    return demands
  })
}

/** The names after `akri.sh/` of the resources in a PodSpec. */
function resourceNames(pod: unknown): string[] {
  const holders = [pod, ...list(at(pod, 'containers')), ...list(at(pod, 'initContainers'))]
  return holders
    .flatMap((holder) => ['limits', 'requests'].map((list) => at(at(holder, 'resources'), list)))
    .flatMap((quantities) => Object.keys(isRecord(quantities) ? quantities : {}))
    .filter((name) => name.startsWith(`${GROUP}/`))
    .map((name) => name.slice(GROUP.length + 1))
}

function at(value: unknown, key: string): unknown {
  return isRecord(value) ? value[key] : undefined
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
