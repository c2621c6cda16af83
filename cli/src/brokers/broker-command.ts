import type { ContainerOptions } from '@akrijs/agent/standalone'
import { type BrokerSpec, GROUP, isRecord, PLACEHOLDER } from '@akrijs/kube'

/** What a container of a brokerSpec runs as a process of this machine. */
export interface BrokerCommand {
  readonly container: string
  readonly file: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly workingDirectory: string | undefined
  /** How many of each resource it asks for. */
  readonly resources: Readonly<Record<string, number>>
}

/** When a broker is done. */
export type BrokerGoal =
  /** Never, as a Pod is: it is started again whenever it ends. */
  | { readonly kind: 'forever' }
  /** As a Job is: after so many runs that succeeded, or one failure more than the limit. */
  | { readonly kind: 'completions'; readonly completions: number; readonly backoffLimit: number }

export type BrokerPlan =
  | { readonly kind: 'run'; readonly command: BrokerCommand; readonly goal: BrokerGoal }
  /** There is nothing to run on a machine without a cluster; the reason. */
  | { readonly kind: 'none'; readonly reason: string }

/** Of a Job that does not say it. Kubernetes' own defaults. */
const BACKOFF_LIMIT = 6
const COMPLETIONS = 1

/** Reads a brokerSpec. Its first container runs, if it says how: an image alone needs a container runtime. */
export function planBroker(broker: BrokerSpec, instanceResource: string): BrokerPlan {
  if ('brokerPodSpec' in broker) return planPod('brokerPodSpec', broker.brokerPodSpec, instanceResource, { kind: 'forever' })
  if ('brokerDeploymentSpec' in broker)
    return { kind: 'none', reason: 'brokerDeploymentSpec needs a cluster; brokerPodSpec and brokerJobSpec run without one' }
  const { completions, backoffLimit, template } = broker.brokerJobSpec
  const goal: BrokerGoal = {
    kind: 'completions',
    completions: wholeNumber(completions) ?? COMPLETIONS,
    backoffLimit: wholeNumber(backoffLimit) ?? BACKOFF_LIMIT,
  }
  return planPod('brokerJobSpec.template.spec', record(record(template).spec), instanceResource, goal)
}

function planPod(
  where: string,
  { containers }: Readonly<Record<string, unknown>>,
  instanceResource: string,
  goal: BrokerGoal,
): BrokerPlan {
  const container: unknown = Array.isArray(containers) ? containers[0] : undefined
  if (!isRecord(container)) return { kind: 'none', reason: `${where}.containers is empty` }
  if (Array.isArray(containers) && containers.length > 1)
    return { kind: 'none', reason: `${where} has several containers; without a cluster one can run` }
  const command = texts(container.command)
  const [file, ...first] = command ?? []
  if (file === undefined) return { kind: 'none', reason: `${where}.containers[0] has no command; an image alone needs a cluster` }
  const env = environment(container.env)
  if (env === undefined)
    return { kind: 'none', reason: `${where}.containers[0].env must be a list of name and value; valueFrom needs a cluster` }
  const { workingDir } = container
  return {
    kind: 'run',
    goal,
    command: {
      container: typeof container.name === 'string' ? container.name : 'main',
      file,
      args: [...first, ...(texts(container.args) ?? [])],
      env,
      workingDirectory: typeof workingDir === 'string' ? workingDir : undefined,
      resources: resources(container.resources, instanceResource),
    },
  }
}

/**
 * What was allocated, for a process that has no container around it: a variable that says where something is mounted says
 * where that is on this machine.
 */
export function withoutMounts({ envs, mounts }: Pick<ContainerOptions, 'envs' | 'mounts'>): Record<string, string> {
  const hostPaths = new Map(mounts.map(({ containerPath, hostPath }) => [containerPath, hostPath]))
  return Object.fromEntries(Object.entries(envs).map(([name, value]) => [name, hostPaths.get(value) ?? value]))
}

/**
 * The whole environment of a broker: what was allocated, the container's own entries over it (as the kubelet has it), and of
 * ours only what every program needs to find its way.
 */
export function brokerEnvironment(
  allocated: Readonly<Record<string, string>>,
  own: Readonly<Record<string, string>>,
  ours: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const base = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'TZ'].flatMap((name) => (ours[name] === undefined ? [] : [[name, ours[name]]]))
  const env: Record<string, string> = { ...Object.fromEntries(base), ...allocated }
  for (const [name, value] of Object.entries(own)) env[name] = expand(value, env)
  return env
}

/** Kubernetes' expansion: `$(NAME)` where NAME is known, `$$` for `$`. */
export function expand(text: string, env: Readonly<Record<string, string>>): string {
  return text.replace(/\$\$|\$\(([^)]*)\)/g, (whole, name: string | undefined) => {
    if (name === undefined) return '$'
    return Object.hasOwn(env, name) ? (env[name] ?? '') : whole
  })
}

function resources(given: unknown, instanceResource: string): Record<string, number> {
  const merged: Record<string, unknown> = { ...record(record(given).requests), ...record(record(given).limits) }
  const wanted = Object.entries(merged).flatMap(([name, quantity]): [string, number][] => {
    const resource = name === PLACEHOLDER ? instanceResource : name
    const count = Number(quantity)
    return resource.startsWith(`${GROUP}/`) && Number.isInteger(count) && count > 0 ? [[resource, count]] : []
  })
  // A broker that asks for nothing still uses the device that it is there for.
  return wanted.length > 0 ? Object.fromEntries(wanted) : { [instanceResource]: 1 }
}

function environment(entries: unknown): Record<string, string> | undefined {
  if (entries === undefined) return {}
  if (!Array.isArray(entries)) return undefined
  const env: Record<string, string> = {}
  for (const entry of entries) {
    if (!isRecord(entry) || typeof entry.name !== 'string' || !/^[^=\0]+$/.test(entry.name)) return undefined
    if (entry.value !== undefined && typeof entry.value !== 'string') return undefined
    if (entry.valueFrom !== undefined) return undefined
    env[entry.name] = entry.value ?? ''
  }
  return env
}

function wholeNumber(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : undefined
}

function texts(value: unknown): string[] | undefined {
  return Array.isArray(value) && value.every((one) => typeof one === 'string' && !one.includes('\0')) ? value : undefined
}

function record(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {}
}
