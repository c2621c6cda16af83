import type { Configuration, NodeReport } from '@akrijs/api'
import { keyOf } from '@akrijs/kube'
import { firstLine } from '@akrijs/runtime'

/** A handler that Configurations name, as the nodes report it. */
export interface HandlerView {
  readonly kind: 'Handler'
  readonly metadata: { readonly name: string; readonly namespace: '' }
  /** The keys of the Configurations that name it. */
  readonly configurations: readonly string[]
  readonly nodes: readonly HandlerOnNode[]
}

interface HandlerOnNode {
  readonly node: string
  readonly connected: boolean
  /** The endpoints of the handler, or why it is not connected. */
  readonly message: string
}

/** The handlers of the Configurations, by name. */
export function handlersOf(
  configurations: readonly Configuration[],
  reports: readonly NodeReport[],
): HandlerView[] {
  const keys = new Map<string, string[]>()
  for (const configuration of configurations) {
    // The spec may be wrong.
    const name = configuration.spec?.discoveryHandler?.name
    if (typeof name !== 'string') continue
    keys.set(name, [...(keys.get(name) ?? []), keyOf(configuration)])
  }
  return [...keys]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([name, ofHandler]) => ({
      kind: 'Handler',
      metadata: { name, namespace: '' },
      configurations: ofHandler,
      nodes: reports.flatMap((report) => onNode(report, ofHandler) ?? []),
    }))
}

/** The first node where the handler is not connected, and why; else that it is connected. */
export function handlerState({ nodes }: HandlerView): string {
  const failed = nodes.find(({ connected }) => !connected)
  if (failed !== undefined) return `${failed.node}: ${firstLine(failed.message)}`
  return nodes.length === 0 ? 'no agent has reported it yet' : 'Connected'
}

/** @returns undefined if no Configuration of the handler is reported there */
function onNode(
  { metadata, configurations }: NodeReport,
  keys: readonly string[],
): HandlerOnNode | undefined {
  const conditions = keys.flatMap((key) => {
    const reported = new Map(Object.entries(configurations)).get(key)
    return reported?.conditions.find(({ type }) => type === 'HandlerConnected') ?? []
  })
  const shown = conditions.find(({ status }) => status !== 'True') ?? conditions[0]
  return (
    shown && { node: metadata.name, connected: shown.status === 'True', message: shown.message }
  )
}
