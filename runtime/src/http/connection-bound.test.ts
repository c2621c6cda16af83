import net from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Logger, silentLogger } from '../program/logger.js'
import { ManualClock } from '../testing/index.js'
import { ConnectionBound } from './connection-bound.js'

function socketOf(peer: string): net.Socket {
  return Object.defineProperty(new net.Socket(), 'remoteAddress', { value: peer })
}

describe('the bound of connections', () => {
  it('costs a peer within its fair share nothing, whatever other peers do', () => {
    const use = fc.record({ peer: fc.nat(8), amount: fc.integer({ min: 1, max: 40 }) })
    fc.assert(
      fc.property(fc.array(use, { minLength: 20, maxLength: 80 }), (uses) => {
        const bound = new ConnectionBound(100, {
          name: 'test',
          clock: new ManualClock(),
          log: silentLogger,
        })
        // Ten peers: the share is ten.
        const honest = [1, 4, 5].map((amount) => ({ socket: socketOf('honest'), amount }))
        const all = [...honest]
        for (const { socket, amount } of honest) bound.set(socket, amount)
        for (const { peer, amount } of uses) {
          const socket = socketOf(`hostile ${peer}`)
          all.push({ socket, amount })
          bound.set(socket, amount)
          const open = all.filter((each) => !each.socket.destroyed)
          expect(open.reduce((sum, each) => sum + each.amount, 0)).toBeLessThanOrEqual(100)
          expect(honest.some((each) => each.socket.destroyed)).toBe(false)
        }
      }),
      { numRuns: 50 },
    )
  })

  it('drops the largest of the peer with the most, the oldest first, with a line a minute', () => {
    const lines: unknown[] = []
    const log: Logger = { ...silentLogger, warn: (...line) => lines.push(line) }
    const bound = new ConnectionBound(10, { name: 'test', clock: new ManualClock(), log })
    const [other, old, small, next] = ['a', '::ffff:b', 'b', 'b'].map(socketOf)
    const set = (socket: net.Socket | undefined, amount: number) =>
      socket && bound.set(socket, amount)
    for (const socket of [other, old, next]) set(socket, 3)
    set(small, 1)
    set(small, 2)
    const open = () => [other, old, small, next].map((socket) => socket?.destroyed === false)
    expect(open()).toEqual([true, false, true, true])
    set(next, 6)
    expect(open()).toEqual([true, false, true, false])
    const fields = { server: 'test', peer: 'b', limit: 10 }
    expect(lines).toEqual([[fields, 'connection over the limit dropped']])
  })

  it('counts a connection until it uses nothing more', () => {
    const context = { name: 'test', clock: new ManualClock(), log: silentLogger }
    const bound = new ConnectionBound(2, context)
    const [first, ...later] = ['a', 'a', 'a'].map(socketOf)
    for (const socket of [first, ...later]) {
      if (socket === later[1] && first) bound.set(first, 0)
      if (socket) bound.set(socket, 1)
    }
    expect([first, ...later].map((socket) => socket?.destroyed)).toEqual([false, false, false])
  })
})
