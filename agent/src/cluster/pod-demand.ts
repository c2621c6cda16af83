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
  const highest = new Map<string, number>()
  const lasting = new Map<string, number>()
  for (const container of spec?.initContainers ?? [])
    for (const [resource, asked] of askedBy(container)) {
      const sum = (lasting.get(resource) ?? 0) + asked
      if (container.restartPolicy === 'Always') lasting.set(resource, sum)
      else highest.set(resource, Math.max(highest.get(resource) ?? 0, sum))
    }
  for (const container of spec?.containers ?? [])
    for (const [resource, asked] of askedBy(container))
      lasting.set(resource, (lasting.get(resource) ?? 0) + asked)
  const demand = new Map<string, number>()
  for (const resource of new Set([...highest.keys(), ...lasting.keys()])) {
    const [first, rest] = [highest.get(resource) ?? 0, lasting.get(resource) ?? 0]
    if (first > 0 || rest > 0) demand.set(resource, initialized ? rest : Math.max(rest, first))
  }
  return demand
}

/** The devices that a container asks for, by resource of Akri. */
function askedBy({ resources }: ContainerText): [resource: string, asked: number][] {
  return Object.entries({ ...resources?.requests, ...resources?.limits }).flatMap(
    ([name, quantity]): [string, number][] =>
      name.startsWith(`${GROUP}/`) ? [[name, wholeNumber(quantity)]] : [],
  )
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
