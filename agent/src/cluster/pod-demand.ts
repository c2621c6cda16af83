import { GROUP } from '@akrijs/api'

/** The part of a Pod that determines its demand. */
export interface PodText {
  readonly spec?: {
    readonly containers?: readonly ContainerText[]
    readonly initContainers?: readonly ContainerText[]
  }
  readonly status?: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[]
  }
}

export interface ContainerText {
  /** `Always` makes an init container a sidecar. */
  readonly restartPolicy?: string
  readonly resources?: {
    readonly requests?: Readonly<Record<string, string>>
    readonly limits?: Readonly<Record<string, string>>
  }
}

/**
 * How many devices the containers of a Pod may have now, by resource of Akri. Init containers run
 * in order, and later containers reuse their devices. After the init containers have ended, the
 * kubelet no longer lists their devices
 * (https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers).
 */
export function podDemand({ spec, status }: PodText): ReadonlyMap<string, number> {
  const initialized =
    status?.conditions?.some(({ type, status: is }) => type === 'Initialized' && is === 'True') ===
    true
  const demand = new Map<string, number>()
  const initContainers = spec?.initContainers ?? []
  const containers = spec?.containers ?? []
  for (const resource of new Set([...initContainers, ...containers].flatMap(resourcesOf))) {
    let lasting = 0
    let highest = 0
    for (const container of initContainers) {
      const asked = askedBy(container, resource)
      if (container.restartPolicy === 'Always') lasting += asked
      else highest = Math.max(highest, lasting + asked)
    }
    for (const container of containers) lasting += askedBy(container, resource)
    if (highest > 0 || lasting > 0)
      demand.set(resource, initialized ? lasting : Math.max(lasting, highest))
  }
  return demand
}

function resourcesOf({ resources }: ContainerText): string[] {
  return Object.keys({ ...resources?.requests, ...resources?.limits }).filter((name) =>
    name.startsWith(`${GROUP}/`),
  )
}

function askedBy({ resources }: ContainerText, resource: string): number {
  return wholeNumber(resources?.limits?.[resource] ?? resources?.requests?.[resource] ?? '0')
}

const SUFFIXES: Readonly<Record<string, number>> = {
  k: 1e3,
  M: 1e6,
  G: 1e9,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
}

/** Parses a whole quantity; the API server writes 1000 as 1k. Any other form counts as 1. */
function wholeNumber(quantity: string): number {
  const [, digits = '', suffix = ''] = /^([\d.e+]+?)(k|M|G|Ki|Mi|Gi)?$/.exec(quantity) ?? []
  const number = Number(digits) * (SUFFIXES[suffix] ?? 1)
  return digits !== '' && Number.isFinite(number) ? number : 1
}
