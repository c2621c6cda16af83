import { nameOf } from './shown.js'
import type { Items } from './store.js'

/** A handler with what uses it. */
export interface HandlerUse {
  readonly name: string
  /** Where it runs, and its package. */
  readonly about: string
  readonly state: 'absent' | 'connected' | 'unknown' | 'unused'
  readonly configurations: number
  readonly devices: number
  /** What Configurations that use it report. */
  readonly problems: readonly { readonly configuration: string; readonly text: string }[]
}

/** All handlers, also those that a Configuration names and that are not there. */
export function handlerUses({ configurations, handlers }: Items): HandlerUse[] {
  const all = [...configurations.values()]
  const named = all.flatMap(({ object }) => object.spec.discoveryHandler.name || [])
  return [...new Set([...handlers.keys(), ...named])].sort().map((name) => {
    const handler = handlers.get(name)
    const users = all.filter(({ object }) => object.spec.discoveryHandler.name === name)
    return {
      name,
      about:
        handler === undefined
          ? 'a Configuration names it; no such handler is loaded or has registered'
          : [handler.place, handler.package].filter(Boolean).join(' · '),
      state: stateOf(handler === undefined ? false : handler.isConnected, users.length),
      configurations: users.length,
      devices: users.reduce((sum, { object }) => sum + (object.status?.devices ?? 0), 0),
      problems: users.flatMap(({ object, failure }) =>
        failure === undefined ? [] : [{ configuration: nameOf(object), text: failure }],
      ),
    }
  })
}

function stateOf(isConnected: boolean | undefined, users: number): HandlerUse['state'] {
  if (isConnected === undefined) return 'unknown'
  if (!isConnected) return 'absent'
  return users === 0 ? 'unused' : 'connected'
}
