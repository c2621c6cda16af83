import { GROUP } from '@akrijs/api'

/** Of a Pod, what says how much its containers use of resources. */
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
  /** Of an init container: `Always` makes it one that runs beside the others. */
  readonly restartPolicy?: string
  readonly resources?: {
    readonly requests?: Readonly<Record<string, string>>
    readonly limits?: Readonly<Record<string, string>>
  }
}

/**
 * The resources of ours that a Pod asks for, each with the number of devices that its containers may have now. Init containers
 * run one after the other, and those after them are given the same devices again; once they have ended, theirs are not used
 * any more, and the kubelet does not list them (https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers).
 */
export function podDemand({ spec, status }: PodText): ReadonlyMap<string, number> {
  const initialized =
    status?.conditions?.some((one) => one.type === 'Initialized' && one.status === 'True') === true
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

/** A quantity of what can only be had whole; the API server writes 1000 as 1k. One of another form is some. */
function wholeNumber(quantity: string): number {
  const [, digits = '', suffix = ''] = /^([\d.e+]+?)(k|M|G|Ki|Mi|Gi)?$/.exec(quantity) ?? []
  const number = Number(digits) * (SUFFIXES[suffix] ?? 1)
  return digits !== '' && Number.isFinite(number) ? number : 1
}
