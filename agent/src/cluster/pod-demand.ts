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
  const sums = new Map<string, { lasting: number; first: number }>()
  const add = (container: ContainerText, lasts: boolean) => {
    for (const [resource, asked] of askedBy(container)) {
      const { lasting, first } = sums.get(resource) ?? { lasting: 0, first: 0 }
      const sum = lasting + asked
      sums.set(resource, lasts ? { lasting: sum, first } : { lasting, first: Math.max(first, sum) })
    }
  }
  for (const each of spec?.initContainers ?? []) add(each, each.restartPolicy === 'Always')
  for (const each of spec?.containers ?? []) add(each, true)
  const isInitialized = status?.conditions?.some(
    ({ type, status: is }) => type === 'Initialized' && is === 'True',
  )
  const demand = new Map<string, number>()
  for (const [resource, { lasting, first }] of sums)
    if (lasting + first > 0)
      demand.set(resource, isInitialized ? lasting : Math.max(lasting, first))
  return demand
}

/** The devices that a container asks for, by resource of Akri. */
function askedBy({ resources }: ContainerText): [resource: string, asked: number][] {
  return Object.entries({ ...resources?.requests, ...resources?.limits }).flatMap(
    ([name, quantity]): [string, number][] =>
      name.startsWith(`${GROUP}/`) ? [[name, wholeNumber(quantity)]] : [],
  )
}

const SUFFIXES = new Map([
  ['k', 1000],
  ['Ki', 1024],
])

/**
 * Parses a whole quantity; the API server writes 1000 as 1k. Any other form counts as 1: no node
 * has millions of devices.
 */
function wholeNumber(quantity: string): number {
  const [, digits, suffix = ''] = /^([\d.e+]+?)(k|Ki)?$/.exec(quantity) ?? []
  const number = Number(digits) * (SUFFIXES.get(suffix) ?? 1)
  return Number.isFinite(number) ? number : 1
}
