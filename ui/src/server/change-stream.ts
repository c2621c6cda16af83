import { type Clock, nextTurn, untilAborted } from '@akrijs/runtime'
import type { UiAbout, UiKey, UiSource } from '../source.js'
import { type ShownItem, shownItem } from './shown-item.js'

/** A message of the stream: items by key; null for an item that is gone. */
export type ChangeMessage = readonly (readonly [key: UiKey, item: ShownItem | null])[]

/** The first message: what this page is, and whether it tries or also writes Configurations. */
export interface AboutMessage extends UiAbout {
  readonly trial?: 'read' | 'write' | undefined
}

/** Changes within this time are one message, in milliseconds. */
const GATHER_MS = 100
/** Items of one message: a few milliseconds of work, after which the agent has its turn. */
const MAX_ITEMS = 100
/** An idle stream sends a comment this often, so that a reader that is gone is found out. */
const BEAT_MS = 20_000

export interface StreamOptions {
  readonly source: UiSource
  readonly clock: Clock
  /** The end of the reader. */
  readonly signal: AbortSignal
  /** Writes a text. Resolves when there is room for the next. */
  write(text: string): Promise<void>
}

/**
 * Sends all items, then `synced`, then changes, as server-sent events, until the signal is aborted.
 * What a slow reader has not got yet is a set of keys: it has no copies, and each item is sent as
 * it is by then.
 */
export async function streamChanges(options: StreamOptions): Promise<void> {
  const { source, clock, signal, write } = options
  const waiting = new Set<UiKey>()
  let wake = () => {}
  source.onChange((key) => {
    waiting.add(key)
    wake()
  }, signal)
  for (const key of source.keys()) waiting.add(key)
  await write(eventText('about', aboutOf(source)))
  let isSynced = false
  while (!signal.aborted) {
    const keys = [...take(waiting, MAX_ITEMS)]
    if (keys.length > 0) {
      const items = keys.map((key) => [key, present(source, key)] as const)
      await write(eventText('items', items satisfies ChangeMessage))
      await nextTurn()
      continue
    }
    if (!isSynced) await write(eventText('synced', {}))
    isSynced = true
    const changed = new Promise<void>((resolve) => {
      wake = resolve
    })
    if ((await untilChanged(changed, clock, signal)) === 'idle') await write(': \n\n')
    else await clock.sleep(GATHER_MS, signal).catch(() => undefined)
  }
}

function aboutOf({ about, trial }: UiSource): AboutMessage {
  if (trial === undefined) return about
  return { ...about, trial: trial.files === undefined ? 'read' : 'write' }
}

/** Removes at most so many keys from a set. */
function* take(keys: Set<UiKey>, most: number): Generator<UiKey> {
  let count = 0
  for (const key of keys) {
    if (count++ === most) return
    keys.delete(key)
    yield key
  }
}

function present(source: UiSource, key: UiKey): ShownItem | null {
  const item = source.item(key)
  return item === undefined ? null : shownItem(item)
}

/** JSON has no line break, which would end a line of the stream. */
function eventText(event: string, data: unknown): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}

async function untilChanged(
  changed: Promise<void>,
  clock: Clock,
  signal: AbortSignal,
): Promise<'changed' | 'idle'> {
  const over = new AbortController()
  const idle = clock.sleep(BEAT_MS, over.signal).then(
    () => 'idle' as const,
    () => 'changed' as const,
  )
  try {
    const first = Promise.race([changed.then(() => 'changed' as const), idle])
    return (await untilAborted(first, signal)) ?? 'changed'
  } finally {
    over.abort()
  }
}
