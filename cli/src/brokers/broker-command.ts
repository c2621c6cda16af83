/** What a container of a brokerPodSpec runs as a process of this machine. */
export interface BrokerCommand {
  readonly container: string
  readonly file: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly workingDirectory: string | undefined
  /** How many of each resource it asks for. */
  readonly resources: Readonly<Record<string, number>>
}

export type BrokerPlan =
  | { readonly kind: 'run'; readonly command: BrokerCommand }
  /** There is nothing to run on a machine without a cluster; the reason. */
  | { readonly kind: 'none'; readonly reason: string }

/** What stands in a Configuration for the resource of the Instance. */
const PLACEHOLDER = '{{PLACEHOLDER}}'

/** Reads a brokerPodSpec. Its first container runs, if it says how: an image alone needs a container runtime. */
export function planBroker(podSpec: Readonly<Record<string, unknown>>, instanceResource: string): BrokerPlan {
  const containers = podSpec.containers
  const container: unknown = Array.isArray(containers) ? containers[0] : undefined
  if (!isRecord(container)) return { kind: 'none', reason: 'brokerPodSpec.containers is empty' }
  if (Array.isArray(containers) && containers.length > 1)
    return { kind: 'none', reason: 'brokerPodSpec has several containers; without a cluster one can run' }
  const command = texts(container.command)
  const [file, ...first] = command ?? []
  if (file === undefined)
    return { kind: 'none', reason: 'brokerPodSpec.containers[0] has no command; an image alone needs a cluster' }
  const env = environment(container.env)
  if (env === undefined)
    return { kind: 'none', reason: 'brokerPodSpec.containers[0].env must be a list of name and value; valueFrom needs a cluster' }
  const { workingDir } = container
  return {
    kind: 'run',
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
    return resource.startsWith('akri.sh/') && Number.isInteger(count) && count > 0 ? [[resource, count]] : []
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

function texts(value: unknown): string[] | undefined {
  return Array.isArray(value) && value.every((one) => typeof one === 'string' && !one.includes('\0')) ? value : undefined
}

function record(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {}
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
