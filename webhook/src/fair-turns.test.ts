import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { FairTurns, type Turn } from './fair-turns.js'

describe('fair turns', () => {
  let turns: FairTurns
  let started: { readonly peer: string; readonly turn: Turn }[]

  beforeEach(() => {
    turns = new FairTurns(new ManualClock())
    started = []
  })

  const ask = (peer: string, count = 1) => {
    for (let number = 0; number < count; number++)
      void turns
        .take(peer, new AbortController().signal)
        .then((turn) => started.push({ peer, turn }))
  }
  /** Lets all events happen. */
  const settled = async () => {
    for (let round = 0; round < 5; round++) await new Promise((resolve) => setImmediate(resolve))
  }
  /** Lets each request that starts wait for another program, until none starts. */
  const allWait = async () => {
    let before = -1
    while (before < started.length) {
      before = started.length
      for (const { turn } of started) turn.waits()
      await settled()
    }
  }
  const peers = () => started.map(({ peer }) => peer)
  const openOf = (peer: string) => peers().filter((each) => each === peer).length

  it('let one request at a time use the processor', async () => {
    ask('a', 3)
    await settled()
    expect(started).toHaveLength(1)
    started[0]?.turn.end()
    await settled()
    expect(started).toHaveLength(2)
    // Once more does nothing.
    started[0]?.turn.end()
    await settled()
    expect(started).toHaveLength(2)
  })

  it('go to the peer that has used the processor least', async () => {
    ask('a', 5)
    await settled()
    const busyUntil = performance.now() + 2
    while (performance.now() < busyUntil);
    ask('b')
    started[0]?.turn.end()
    await settled()
    expect(peers()).toEqual(['a', 'b'])
  })

  it('go to the group of a peer that has used the processor least', async () => {
    const order: string[] = []
    const { signal } = new AbortController()
    const askFor = (group: string) =>
      turns.take('a', signal, group).then((turn) => {
        order.push(group)
        const busyUntil = performance.now() + 2
        while (performance.now() < busyUntil);
        turn.end()
      })
    const all = ['many', 'many', 'many', 'many', 'one', 'two', 'many'].map(askFor)
    await Promise.all(all)
    expect(order.slice(0, 3)).toEqual(['many', 'one', 'two'])
  })

  it('leave room for other peers while those of a peer wait for other programs', async () => {
    ask('a', 100)
    await allWait()
    expect(openOf('a')).toBe(8)
    ask('b', 100)
    await allWait()
    ask('c', 100)
    await allWait()
    expect([openOf('a'), openOf('b'), openOf('c')]).toEqual([8, 4, 2])
    ask('d')
    await allWait()
    expect(openOf('d')).toBe(1)
    for (const peer of ['e', 'f', 'g']) ask(peer)
    await allWait()
    // 16 in all.
    expect([openOf('e'), openOf('f'), openOf('g')]).toEqual([1, 0, 0])
  })

  it('that end are free for the peers that have none', async () => {
    ask('a', 100)
    await allWait()
    for (const peer of ['b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j']) ask(peer)
    await allWait()
    expect(started).toHaveLength(16)
    expect(openOf('j')).toBe(0)
    started[0]?.turn.end()
    await allWait()
    expect(openOf('j')).toBe(1)
    expect(openOf('a')).toBe(8)
  })

  it('are not taken by a request whose client has gone', async () => {
    ask('a')
    await settled()
    const stop = new AbortController()
    const gone = turns.take('b', stop.signal)
    const reason = new Error('gone')
    stop.abort(reason)
    await expect(gone).rejects.toBe(reason)
    await expect(turns.take('b', stop.signal)).rejects.toBe(reason)
    ask('c')
    started[0]?.turn.end()
    await settled()
    expect(peers()).toEqual(['a', 'c'])
  })
})
