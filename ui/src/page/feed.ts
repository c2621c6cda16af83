import { signal } from '@preact/signals'
import type { AboutMessage, ChangeMessage } from '../server/change-stream.js'
import { type Items, NO_ITEMS, withChanges } from './model/store.js'

/**
 * `connecting`: for the first time. `lost`: the agent does not answer. `refused`: it does not know
 * the token. `full`: too many pages are open.
 */
export type Connection = 'connecting' | 'live' | 'lost' | 'refused' | 'full'

/** What the server has sent, complete. */
export const items = signal<Items>(NO_ITEMS)
export const connection = signal<Connection>('connecting')

const STREAM = '/api/watch'
/** The time between two attempts after a refusal, in milliseconds. */
const RETRY_MS = 3000

/** Follows the server as long as the page is open. */
export function follow(): void {
  const stream = new EventSource(STREAM)
  let first: Items = NO_ITEMS
  // A new stream sends everything again: until it has, the page shows what it had before.
  let received: ChangeMessage[] | undefined = []
  stream.addEventListener('about', (event) => {
    const about: AboutMessage = JSON.parse(event.data)
    first = { ...NO_ITEMS, about }
    received = []
  })
  stream.addEventListener('items', (event) => {
    const message: ChangeMessage = JSON.parse(event.data)
    if (received === undefined) items.value = withChanges(items.value, message)
    else received.push(message)
  })
  stream.addEventListener('synced', () => {
    items.value = withChanges(first, received?.flat() ?? [])
    received = undefined
    connection.value = 'live'
  })
  stream.addEventListener('error', () => {
    connection.value = 'lost'
    // The browser connects again, unless the server has refused.
    if (stream.readyState !== EventSource.CLOSED) return
    void whyRefused().then((reason) => {
      connection.value = reason
      setTimeout(follow, RETRY_MS)
    })
  })
}

/** An EventSource tells no status. */
async function whyRefused(): Promise<Connection> {
  const over = new AbortController()
  try {
    const { status } = await fetch(STREAM, { signal: over.signal })
    if (status === 403) return 'refused'
    return status === 503 ? 'full' : 'lost'
  } catch {
    return 'lost'
  } finally {
    over.abort()
  }
}
