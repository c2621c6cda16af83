import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { inSteps } from '../../../test/support/eventually.js'
import type { UiKey } from '../source.js'
import { deviceNamed, MemorySource } from '../testing/memory-source.js'
import { type ChangeMessage, streamChanges } from './change-stream.js'

/** A reader of a stream, with the texts that it has got. */
class Reader {
  readonly texts: string[] = []
  /** Resolves when the reader takes more; undefined if it takes all. */
  hold: Promise<void> | undefined

  async write(text: string): Promise<void> {
    this.texts.push(text)
    await this.hold
  }

  get events(): string[] {
    return this.texts.map((text) => /^event: (.*)/.exec(text)?.[1] ?? 'beat')
  }

  /** The items of each message. */
  get messages(): ChangeMessage[] {
    return this.texts
      .filter((text) => text.startsWith('event: items'))
      .map((text) => JSON.parse(text.slice(text.indexOf('data: ') + 6)))
  }

  get keys(): UiKey[] {
    return this.messages.flat().map(([key]) => key)
  }
}

describe('the stream of a page', () => {
  let source: MemorySource
  let clock: ManualClock
  let reader: Reader
  let stop: AbortController
  let running: Promise<void>

  beforeEach(() => {
    source = new MemorySource()
    clock = new ManualClock()
    reader = new Reader()
    stop = new AbortController()
  })

  afterEach(async () => {
    stop.abort()
    await running
  })

  async function follow() {
    const write = (text: string) => reader.write(text)
    running = streamChanges({ source, clock, signal: stop.signal, write })
    await inSteps(clock, () => expect(reader.events).toContain('synced'), 0)
  }

  const put = (index: number, value = 'x') =>
    source.putObject(deviceNamed(`lab-${String(index).padStart(6, '0')}`, { NAME: value }))

  it('sends all items, and then that these are all', async () => {
    for (let index = 0; index < 250; index++) put(index)
    await follow()
    expect(reader.events).toEqual(['about', 'items', 'items', 'items', 'synced'])
    expect(new Set(reader.keys).size).toBe(250)
  })

  it('sends the changes of a moment as one message, each item once as it is by then', async () => {
    await follow()
    put(1, 'first')
    put(1, 'second')
    put(2)
    await inSteps(clock, () => expect(reader.messages).toHaveLength(1))
    expect(reader.keys).toEqual(['device/plant/lab-000001', 'device/plant/lab-000002'])
    expect(JSON.stringify(reader.messages)).toContain('second')
    expect(JSON.stringify(reader.messages)).not.toContain('first')
  })

  it('tells that an item is gone', async () => {
    put(1)
    await follow()
    source.remove('device/plant/lab-000001')
    await inSteps(clock, () => expect(reader.messages).toHaveLength(2))
    expect(reader.messages[1]).toEqual([['device/plant/lab-000001', null]])
  })

  it('keeps no copies for a reader that takes nothing, however much changes', async () => {
    await follow()
    let take = () => {}
    reader.hold = new Promise((resolve) => {
      take = resolve
    })
    put(1)
    await inSteps(clock, () => expect(reader.messages).toHaveLength(1))
    for (let change = 0; change < 1000; change++) put(2, `value ${change}`)
    await clock.advance(60_000)
    expect(reader.messages).toHaveLength(1)
    reader.hold = undefined
    take()
    await inSteps(clock, () => expect(reader.messages).toHaveLength(2))
    expect(reader.messages[1]).toHaveLength(1)
    expect(JSON.stringify(reader.messages[1])).toContain('value 999')
  })

  it('sends a comment now and then, so that a reader that is gone is found out', async () => {
    await follow()
    await clock.advance(20_000)
    await inSteps(clock, () => expect(reader.events.at(-1)).toBe('beat'), 0)
    put(1)
    await inSteps(clock, () => expect(reader.messages).toHaveLength(1))
  })
})
