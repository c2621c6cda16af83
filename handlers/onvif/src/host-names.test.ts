import { ManualClock } from '@akrijs/sdk/testing'
import { describe, expect, it } from 'vitest'
import { HostNames } from './host-names.js'

/** A resolver whose answers come when the test says so. */
class SlowResolver {
  readonly asked: string[] = []
  readonly #answers: ((addresses: readonly string[]) => void)[] = []
  readonly #errors: ((error: Error) => void)[] = []

  readonly resolve = (host: string): Promise<readonly string[]> => {
    this.asked.push(host)
    return new Promise((resolve, reject) => {
      this.#answers.push(resolve)
      this.#errors.push(reject)
    })
  }

  /** The one that was asked last. */
  answer(...addresses: string[]): void {
    this.#answers.at(-1)?.(addresses)
  }

  fail(): void {
    this.#errors.at(-1)?.(new Error('ENOTFOUND'))
  }
}

function open(patienceMs = 20) {
  const [clock, resolver] = [new ManualClock(), new SlowResolver()]
  return { clock, resolver, names: new HostNames({ clock, resolve: resolver.resolve, patienceMs }) }
}

describe('host names', () => {
  it('are resolved one after the other, however many are wanted', async () => {
    const { resolver, names } = open(5000)
    const wanted = ['a', 'b', 'c'].map((host) => names.addressesOf(host))
    for (const host of ['a', 'b', 'c']) {
      await expect.poll(() => resolver.asked.at(-1)).toBe(host)
      resolver.answer(`${host}'s`)
    }
    expect(await Promise.all(wanted)).toEqual([["a's"], ["b's"], ["c's"]])
    expect(resolver.asked).toEqual(['a', 'b', 'c'])
  })

  it('that are not resolved in time are none, and known when the resolver has answered', async () => {
    const { resolver, names } = open()
    await expect(names.addressesOf('slow')).rejects.toThrow('not resolved within 20 ms')
    await expect(names.addressesOf('slow')).rejects.toThrow('not resolved within 20 ms')
    resolver.answer('192.0.2.1')
    expect(await names.addressesOf('slow')).toEqual(['192.0.2.1'])
    expect(resolver.asked).toEqual(['slow'])
  })

  it('are resolved once in a minute, whether they mean something or not', async () => {
    const { clock, resolver, names } = open(5000)
    const ask = async (answer: () => void) => {
      const wanted = names.addressesOf('a')
      await expect.poll(() => resolver.asked.length).toBeGreaterThan(before)
      before = resolver.asked.length
      answer()
      return wanted
    }
    let before = 0
    await expect(ask(() => resolver.fail())).rejects.toThrow('ENOTFOUND')
    await clock.advance(59_000)
    await expect(names.addressesOf('a')).rejects.toThrow('ENOTFOUND')
    await clock.advance(1000)
    expect(await ask(() => resolver.answer('192.0.2.1'))).toEqual(['192.0.2.1'])
    expect(await names.addressesOf('a')).toEqual(['192.0.2.1'])
    expect(resolver.asked).toHaveLength(2)
  })

  it('mean what they meant while the resolver is slow', async () => {
    const { clock, resolver, names } = open()
    const first = names.addressesOf('a')
    resolver.answer('192.0.2.1')
    await first
    await clock.advance(60_000)
    expect(await names.addressesOf('a')).toEqual(['192.0.2.1'])
    resolver.answer('192.0.2.2')
    await expect.poll(() => names.addressesOf('a')).toEqual(['192.0.2.2'])
  })

  it('that nobody has wanted for a minute are not resolved any more', async () => {
    const { clock, resolver, names } = open()
    await Promise.allSettled(['a', 'b', 'c'].map((host) => names.addressesOf(host)))
    await clock.advance(60_000)
    const wanted = names.addressesOf('c').catch(() => undefined)
    resolver.answer('192.0.2.1')
    await wanted
    expect(resolver.asked).toEqual(['a', 'c'])
  })

  it('are no more than a thousand', async () => {
    const { names } = open(1)
    await Promise.allSettled(Array.from({ length: 1000 }, (_, n) => names.addressesOf(`a${n}`)))
    await expect(names.addressesOf('b')).rejects.toThrow('1000 names')
  })
})
