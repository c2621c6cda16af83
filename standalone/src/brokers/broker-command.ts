import { type BrokerSpec, GROUP, PLACEHOLDER, type Problem } from '@akrijs/api'
import type { ContainerOptions } from '@akrijs/kube/kubelet'
import { isRecord, shorten } from '@akrijs/runtime'

/** The process of a container of a brokerSpec. */
export interface BrokerCommand {
  readonly container: string
  /** The path of the container, such as `spec.brokerSpec.brokerPodSpec.containers[0]`. */
  readonly at: string
  readonly file: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly workingDirectory: string | undefined
  /** The quantity of each resource that the container asks for. */
  readonly resources: Readonly<Record<string, number>>
  /** The path of each quantity; without the default quantity. */
  readonly resourcesAt: Readonly<Record<string, string>>
}

/** When a broker has finished. */
export type BrokerGoal =
  /** Never: as a Pod, it is restarted after each end. */
  | { readonly kind: 'forever' }
  /** As a Job: after so many successful runs, or one failure more than the limit. */
  | { readonly kind: 'completions'; readonly completions: number; readonly backoffLimit: number }

export type BrokerPlan =
  | { readonly kind: 'run'; readonly command: BrokerCommand; readonly goal: BrokerGoal }
  /** Nothing can run without a cluster, for this reason. */
  | { readonly kind: 'none'; readonly reason: string }
  /** The brokerSpec is invalid. */
  | { readonly kind: 'wrong'; readonly problem: Problem }

/** The defaults of Kubernetes for a Job. */
const BACKOFF_LIMIT = 6
const COMPLETIONS = 1

/** Plans the first container of a brokerSpec. A container without a command needs a cluster. */
export function planBroker(broker: BrokerSpec, instanceResource: string): BrokerPlan {
  if ('brokerPodSpec' in broker)
    return planPod('brokerPodSpec', broker.brokerPodSpec, instanceResource, { kind: 'forever' })
  if ('brokerDeploymentSpec' in broker)
    return none(
      'brokerDeploymentSpec needs a cluster; brokerPodSpec and brokerJobSpec run without one',
    )
  const { completions, backoffLimit, suspend, template } = broker.brokerJobSpec
  if (suspend === true) return none('brokerJobSpec.suspend is true')
  const goal: BrokerGoal = {
    kind: 'completions',
    completions: wholeNumber(completions) ?? COMPLETIONS,
    backoffLimit: wholeNumber(backoffLimit) ?? BACKOFF_LIMIT,
  }
  const pod = record(record(template).spec)
  return planPod('brokerJobSpec.template.spec', pod, instanceResource, goal)
}

function planPod(
  where: string,
  { containers, initContainers }: Readonly<Record<string, unknown>>,
  instanceResource: string,
  goal: BrokerGoal,
): BrokerPlan {
  const container: unknown = Array.isArray(containers) ? containers[0] : undefined
  if (!isRecord(container)) return none(`${where}.containers is empty`)
  if (Array.isArray(containers) && containers.length > 1)
    return none(`${where} has several containers; without a cluster one can run`)
  if (Array.isArray(initContainers) && initContainers.length > 0)
    return none(`${where} has init containers, which need a cluster`)
  const at = `spec.brokerSpec.${where}.containers[0]`
  const command = texts(container.command, `${at}.command`)
  if ('path' in command) return wrong(command)
  const [file, ...first] = command
  if (file === undefined)
    return none(`${where}.containers[0] has no command; an image alone needs a cluster`)
  if (file === '')
    return wrong({ path: `${at}.command[0]`, message: 'it is empty; write a program' })
  const args = texts(container.args, `${at}.args`)
  if ('path' in args) return wrong(args)
  const env = environment(container.env)
  if (env === undefined)
    return none(
      `${where}.containers[0].env must be a list of name and value; valueFrom needs a cluster`,
    )
  const workingDir = container.workingDir ?? ''
  if (typeof workingDir !== 'string' || workingDir.includes('\0')) {
    const message = `${shorten(workingDir)} is no path; write one as a text`
    return wrong({ path: `${at}.workingDir`, message })
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

function none(reason: string): BrokerPlan {
  return { kind: 'none', reason }
}

function wrong(problem: Problem): BrokerPlan {
  return { kind: 'wrong', problem }
}

/**
 * The allocated variables for a process without a container: the path of a mount becomes the path
 * on this machine.
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
 * The environment of a broker: the allocated variables, then the entries of the container, as the
 * kubelet has it. The agent's environment gives only the variables that every program needs.
 */
export function brokerEnvironment(
  allocated: Readonly<Record<string, string>>,
  container: Readonly<Record<string, string>>,
  agent: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const base = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'TZ'].flatMap((name) =>
    agent[name] === undefined ? [] : [[name, agent[name]]],
  )
  const env: Record<string, string> = { ...Object.fromEntries(base), ...allocated }
  for (const [name, value] of Object.entries(container)) env[name] = expand(value, env)
  return env
}

/** The expansion of Kubernetes: `$(NAME)` for a variable NAME, `$$` for `$`. */
export function expand(text: string, env: Readonly<Record<string, string>>): string {
  return text.replace(/\$\$|\$\(([^)]*)\)/g, (whole, name: string | undefined) => {
    if (name === undefined) return '$'
    return Object.hasOwn(env, name) ? (env[name] ?? '') : whole
  })
}

function resources(
  requirements: unknown,
  instanceResource: string,
  at: string,
): Pick<BrokerCommand, 'resources' | 'resourcesAt'> {
  // Limits override requests.
  const quantities = ['requests', 'limits'].flatMap((kind) =>
    Object.entries(record(record(requirements)[kind])).flatMap(([name, quantity]) => {
      const resource = name === PLACEHOLDER ? instanceResource : name
      const count = Number(quantity)
      const counts = resource.startsWith(`${GROUP}/`) && Number.isInteger(count) && count > 0
      return counts ? [{ resource, count, path: `${at}.${kind}[${JSON.stringify(name)}]` }] : []
    }),
  )
  // A broker without a request uses the device of its Instance.
  if (quantities.length === 0) return { resources: { [instanceResource]: 1 }, resourcesAt: {} }
  return {
    resources: Object.fromEntries(quantities.map(({ resource, count }) => [resource, count])),
    resourcesAt: Object.fromEntries(quantities.map(({ resource, path }) => [resource, path])),
  }
}

function environment(entries: unknown): Record<string, string> | undefined {
  if (entries === undefined || entries === null) return {}
  if (!Array.isArray(entries)) return undefined
  const env: Record<string, string> = {}
  for (const entry of entries) {
    if (!isRecord(entry) || typeof entry.name !== 'string' || !/^[^=\0]+$/.test(entry.name))
      return undefined
    const value = entry.value ?? ''
    if (typeof value !== 'string') return undefined
    if (entry.valueFrom !== undefined && entry.valueFrom !== null) return undefined
    env[entry.name] = value
  }
  return env
}

function wholeNumber(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : undefined
}

/** A list of texts, empty if there is none, or the problem of it. */
function texts(value: unknown, at: string): string[] | Problem {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value))
    return {
      path: at,
      message:
        `${shorten(value)} is no list; write a list of texts, such as [/bin/sh, -c, "exec ` +
        'program"]',
    }
  const list: string[] = []
  for (const [index, text] of value.entries()) {
    const path = `${at}[${index}]`
    if (typeof text !== 'string')
      return { path, message: `${shorten(text)} is no text; write it in quotes` }
    if (text.includes('\0'))
      return { path, message: `${shorten(text)} has a NUL in it, which no program can be given` }
    list.push(text)
  }
  return list
}

function record(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {}
}
