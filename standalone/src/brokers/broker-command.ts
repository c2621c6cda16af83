import { type BrokerSpec, GROUP, PLACEHOLDER, type Problem, shorten } from '@akrijs/api'
import { isRecord } from '@akrijs/runtime'
import type { ContainerOptions } from '../simulated-kubelet/pod.js'

/** What a container of a brokerSpec runs as a process of this machine. */
export interface BrokerCommand {
  readonly container: string
  /** Where the container stands in its Configuration, such as `spec.brokerSpec.brokerPodSpec.containers[0]`. */
  readonly at: string
  readonly file: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly workingDirectory: string | undefined
  /** How many of each resource it asks for. */
  readonly resources: Readonly<Record<string, number>>
  /** Where it says so; nothing of what it does not say itself. */
  readonly resourcesAt: Readonly<Record<string, string>>
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
  /** It makes no sense. */
  | { readonly kind: 'wrong'; readonly problem: Problem }

/** Of a Job that does not say it. Kubernetes' own defaults. */
const BACKOFF_LIMIT = 6
const COMPLETIONS = 1

/** Reads a brokerSpec. Its first container runs, if it says how: an image alone needs a container runtime. */
export function planBroker(broker: BrokerSpec, instanceResource: string): BrokerPlan {
  if ('brokerPodSpec' in broker)
    return planPod('brokerPodSpec', broker.brokerPodSpec, instanceResource, { kind: 'forever' })
  if ('brokerDeploymentSpec' in broker)
    return {
      kind: 'none',
      reason:
        'brokerDeploymentSpec needs a cluster; brokerPodSpec and brokerJobSpec run without one',
    }
  const { completions, backoffLimit, template } = broker.brokerJobSpec
  const goal: BrokerGoal = {
    kind: 'completions',
    completions: wholeNumber(completions) ?? COMPLETIONS,
    backoffLimit: wholeNumber(backoffLimit) ?? BACKOFF_LIMIT,
  }
  return planPod(
    'brokerJobSpec.template.spec',
    record(record(template).spec),
    instanceResource,
    goal,
  )
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
    return {
      kind: 'none',
      reason: `${where} has several containers; without a cluster one can run`,
    }
  const at = `spec.brokerSpec.${where}.containers[0]`
  const command = texts(container.command, `${at}.command`)
  if ('path' in command) return { kind: 'wrong', problem: command }
  const [file, ...first] = command
  if (file === undefined)
    return {
      kind: 'none',
      reason: `${where}.containers[0] has no command; an image alone needs a cluster`,
    }
  if (file === '')
    return {
      kind: 'wrong',
      problem: { path: `${at}.command[0]`, message: 'it is empty; write a program' },
    }
  const args = texts(container.args, `${at}.args`)
  if ('path' in args) return { kind: 'wrong', problem: args }
  const env = environment(container.env)
  if (env === undefined)
    return {
      kind: 'none',
      reason: `${where}.containers[0].env must be a list of name and value; valueFrom needs a cluster`,
    }
  const { workingDir = '' } = container
  if (typeof workingDir !== 'string' || workingDir.includes('\0')) {
    const problem = {
      path: `${at}.workingDir`,
      message: `${shorten(workingDir)} is no path; write one as a text`,
    }
    return { kind: 'wrong', problem }
  }
  return {
    kind: 'run',
    goal,
    command: {
      container: typeof container.name === 'string' ? container.name : 'main',
      at,
      file,
      args: [...first, ...args],
      env,
      workingDirectory: workingDir === '' ? undefined : workingDir,
      ...resources(container.resources, instanceResource, `${at}.resources`),
    },
  }
}

/**
 * What was allocated, for a process that has no container around it: a variable that says where something is mounted says
 * where that is on this machine.
 */
export function withoutMounts({
  envs,
  mounts,
}: Pick<ContainerOptions, 'envs' | 'mounts'>): Record<string, string> {
  const hostPaths = new Map(mounts.map(({ containerPath, hostPath }) => [containerPath, hostPath]))
  return Object.fromEntries(
    Object.entries(envs).map(([name, value]) => [name, hostPaths.get(value) ?? value]),
  )
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
  const base = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'TZ'].flatMap((name) =>
    ours[name] === undefined ? [] : [[name, ours[name]]],
  )
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

function resources(
  given: unknown,
  instanceResource: string,
  at: string,
): Pick<BrokerCommand, 'resources' | 'resourcesAt'> {
  // Limits count where both are given.
  const wanted = ['requests', 'limits'].flatMap((kind) =>
    Object.entries(record(record(given)[kind])).flatMap(([name, quantity]) => {
      const resource = name === PLACEHOLDER ? instanceResource : name
      const count = Number(quantity)
      const counts = resource.startsWith(`${GROUP}/`) && Number.isInteger(count) && count > 0
      return counts ? [{ resource, count, path: `${at}.${kind}[${JSON.stringify(name)}]` }] : []
    }),
  )
  // A broker that asks for nothing still uses the device that it is there for.
  if (wanted.length === 0) return { resources: { [instanceResource]: 1 }, resourcesAt: {} }
  return {
    resources: Object.fromEntries(wanted.map(({ resource, count }) => [resource, count])),
    resourcesAt: Object.fromEntries(wanted.map(({ resource, path }) => [resource, path])),
  }
}

function environment(entries: unknown): Record<string, string> | undefined {
  if (entries === undefined) return {}
  if (!Array.isArray(entries)) return undefined
  const env: Record<string, string> = {}
  for (const entry of entries) {
    if (!isRecord(entry) || typeof entry.name !== 'string' || !/^[^=\0]+$/.test(entry.name))
      return undefined
    if (entry.value !== undefined && typeof entry.value !== 'string') return undefined
    if (entry.valueFrom !== undefined) return undefined
    env[entry.name] = entry.value ?? ''
  }
  return env
}

function wholeNumber(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : undefined
}

/** A list of texts, empty where there is none, or what is wrong with it. */
function texts(value: unknown, at: string): string[] | Problem {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value))
    return {
      path: at,
      message: `${shorten(value)} is no list; write a list of texts, such as [/bin/sh, -c, "exec program"]`,
    }
  const list: string[] = []
  for (const [index, one] of value.entries()) {
    const path = `${at}[${index}]`
    if (typeof one !== 'string')
      return { path, message: `${shorten(one)} is no text; write it in quotes` }
    if (one.includes('\0'))
      return { path, message: `${shorten(one)} has a NUL in it, which no program can be given` }
    list.push(one)
  }
  return list
}

function record(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {}
}
