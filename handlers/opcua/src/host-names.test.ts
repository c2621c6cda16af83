import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { HostNames } from './host-names.js'

const MINUTE_MS = 60_000

/** Lets what was asked without being waited for be answered. */
const settle = () => new Promise((resolve) => setImmediate(resolve))

afterEach(() => {
  vi.useRealTimers()
})

/** A resolver that answers when a test lets it. */
class SlowResolver {
  readonly asked: string[] = []
  readonly #answers: (() => void)[] = []

  readonly resolve = (host: string) => {
    this.asked.push(host)
    return new Promise<readonly string[]>((resolve) => this.#answers.push(() => resolve([`${host}.addresses`])))
  }

  async answerAll(): Promise<void> {
    while (this.#answers.length > 0) {
      for (const answer of this.#answers.splice(0)) answer()
      await settle()
    }
  }
}

describe('host names', () => {
  it('are asked for once a minute, without anybody waiting for a known one', async () => {
    const clock = new ManualClock()
    const asked: string[] = []
    const names = new HostNames({
      clock,
      resolve: async (host) => {
        asked.push(host)
        const answer = [`10.0.0.${asked.length}`]
        await settle()
        return answer
      },
    })
    expect(await names.addressesOf('plc1')).toEqual(['10.0.0.1'])
    await clock.advance(MINUTE_MS - 1)
    expect(await names.addressesOf('plc1')).toEqual(['10.0.0.1'])
    await clock.advance(1)
    expect(await names.addressesOf('plc1')).toEqual(['10.0.0.1'])
    await settle()
    await settle()
    expect(await names.addressesOf('plc1')).toEqual(['10.0.0.2'])
    expect(asked).toEqual(['plc1', 'plc1'])
  })

  it('that are addresses are not asked for', async () => {
    const names = new HostNames({ clock: new ManualClock(), resolve: () => Promise.reject(new TypeError('asked')) })
    expect(await names.addressesOf('10.0.0.1')).toEqual(['10.0.0.1'])
    expect(await names.addressesOf('fd00::1')).toEqual(['fd00::1'])
  })

  it('that have resolved count as resolving for five minutes more', async () => {
    const clock = new ManualClock()
    let broken = false
    const names = new HostNames({
      clock,
      resolve: async () => {
        if (broken) throw new TypeError('EAI_AGAIN')
        return ['10.0.0.1']
      },
    })
    const look = async () => {
      await names.addressesOf('plc1')
      await settle()
      return names.addressesOf('plc1')
    }
    await look()
    broken = true
    for (let minute = 1; minute < 5; minute++) {
      await clock.advance(MINUTE_MS)
      expect(await look()).toEqual(['10.0.0.1'])
    }
    await clock.advance(MINUTE_MS)
    expect(await look()).toEqual([])
    broken = false
    await clock.advance(MINUTE_MS)
    expect(await look()).toEqual(['10.0.0.1'])
  })

  it('are not waited for longer than is patient, and asked for one after the other', async () => {
    let running = 0
    let most = 0
    const answers: (() => void)[] = []
    const names = new HostNames({
      clock: new ManualClock(),
      patienceMs: 20,
      resolve: async (host) => {
        most = Math.max(most, ++running)
        await new Promise<void>((resolve) => answers.push(resolve))
        running--
        return [`${host}.addresses`]
      },
    })
    const hosts = ['a', 'b', 'c', 'd']
    expect(await Promise.all(hosts.map((host) => names.addressesOf(host)))).toEqual([[], [], [], []])
    while (answers.length > 0) {
      for (const answer of answers.splice(0)) answer()
      await settle()
    }
    expect(await Promise.all(hosts.map((host) => names.addressesOf(host)))).toEqual(hosts.map((host) => [`${host}.addresses`]))
    expect(most).toBe(1)
  })

  it('are waited for together, and once: one that takes longer does not resolve until it has answered', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const resolver = new SlowResolver()
    const names = new HostNames({ clock: new ManualClock(), resolve: resolver.resolve })
    const hosts = ['a', 'b', 'c', 'd']
    const look = () => Promise.all(hosts.map((host) => names.addressesOf(host)))
    const first = look()
    await vi.advanceTimersByTimeAsync(3000)
    expect(await first).toEqual([[], [], [], []])
    expect(await look()).toEqual([[], [], [], []])
    expect(vi.getTimerCount()).toBe(0)
    await resolver.answerAll()
    expect(await look()).toEqual(hosts.map((host) => [`${host}.addresses`]))
  })

  it('are not asked for again while they are being asked for, or wait for their turn', async () => {
    const clock = new ManualClock()
    const resolver = new SlowResolver()
    const names = new HostNames({ clock, resolve: resolver.resolve, patienceMs: 0 })
    const hosts = ['a', 'b', 'c']
    const look = () => Promise.all(hosts.map((host) => names.addressesOf(host)))
    for (let minute = 0; minute < 10; minute++) {
      expect(await look()).toEqual([[], [], []])
      await clock.advance(MINUTE_MS)
    }
    await resolver.answerAll()
    expect(resolver.asked).toEqual(hosts)
  })

  it('that nobody wants any more when their turn comes are not asked for', async () => {
    const clock = new ManualClock()
    const resolver = new SlowResolver()
    const names = new HostNames({ clock, resolve: resolver.resolve, patienceMs: 0 })
    await Promise.all(['a', 'forgotten'].map((host) => names.addressesOf(host)))
    await clock.advance(5 * MINUTE_MS)
    await names.addressesOf('c')
    await resolver.answerAll()
    expect(resolver.asked).toEqual(['a', 'c'])
  })

  it('are neither waited for nor asked for when the signal is aborted', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const stop = new AbortController()
    const resolver = new SlowResolver()
    const names = new HostNames({ clock: new ManualClock(), resolve: resolver.resolve, signal: stop.signal })
    const looks = Promise.allSettled(['a', 'b', 'c'].map((host) => names.addressesOf(host)))
    stop.abort()
    const { reason } = stop.signal
    expect(await looks).toEqual(Array.from({ length: 3 }, () => ({ status: 'rejected', reason })))
    await expect(names.addressesOf('d')).rejects.toBe(reason)
    await resolver.answerAll()
    expect(resolver.asked).toEqual(['a'])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('beyond five thousand do not resolve, until others are forgotten', async () => {
    const clock = new ManualClock()
    const names = new HostNames({ clock, resolve: async () => ['10.0.0.1'] })
    await Promise.all(Array.from({ length: 5000 }, (_, index) => names.addressesOf(`host${index}`)))
    expect(await names.addressesOf('one-more')).toEqual([])
    await clock.advance(5 * MINUTE_MS)
    expect(await names.addressesOf('one-more')).toEqual(['10.0.0.1'])
  })
})
