import { promises as dns } from 'node:dns'
import { setImmediate } from 'node:timers/promises'
import { systemClock } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { HostNames, type ResolveHostName } from './host-names.js'

interface OpenOptions {
  readonly signal?: AbortSignal
  readonly resolve?: ResolveHostName
}

const MINUTE_MS = 60_000
const WAIT_MS = 3000

/** The resolver of a whole process. It answers when the test calls `answer`. */
class Resolver {
  readonly asked: string[] = []
  most = 0
  readonly #underWay: {
    readonly host: string
    readonly answer: (addresses: readonly string[]) => void
  }[] = []
  readonly #failing = new Set<string>()

  readonly resolve = (host: string): Promise<readonly string[]> => {
    this.asked.push(host)
    return new Promise((resolve, reject) => {
      const answer = (addresses: readonly string[]) =>
        this.#failing.has(host)
          ? reject(new TypeError(`getaddrinfo ENOTFOUND ${host}`))
          : resolve(addresses)
      this.#underWay.push({ host, answer })
      this.most = Math.max(this.most, this.#underWay.length)
    })
  }

  /** Ends the current lookup, so that the next lookup begins. */
  async answer(...addresses: readonly string[]): Promise<void> {
    await settle()
    for (const { host, answer } of this.#underWay.splice(0))
      answer(addresses.length > 0 ? addresses : [`${host}'s`])
    await settle()
  }

  async answerAll(): Promise<void> {
    await settle()
    while (this.#underWay.length > 0) await this.answer()
  }

  fail(host: string): void {
    this.#failing.add(host)
  }

  mend(): void {
    this.#failing.clear()
  }
}

let resolver = new Resolver()

// An open lookup would delay the lookups of the next test.
afterEach(async () => {
  vi.restoreAllMocks()
  await resolver.answerAll()
  resolver = new Resolver()
})

async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await setImmediate()
}

function open({ signal, resolve = resolver.resolve }: OpenOptions = {}) {
  const clock = new ManualClock()
  return { clock, names: new HostNames({ clock, signal }, { resolve }) }
}

/** The addresses of a name, or the message of the error. */
async function look(names: HostNames, host: string): Promise<readonly string[] | string> {
  return names.addressesOf(host).catch((error: Error) => error.message)
}

const lookAll = (names: HostNames, hosts: readonly string[]) =>
  Promise.all(hosts.map((host) => look(names, host)))

const notYet = (host: string) => `the host name ${host} does not resolve: there is no answer yet`

describe('a host name', () => {
  it('is not looked up if it is an address', async () => {
    const { names } = open()
    expect(await names.addressesOf('10.0.0.1')).toEqual(['10.0.0.1'])
    expect(await names.addressesOf('fd00::1')).toEqual(['fd00::1'])
    expect(resolver.asked).toEqual([])
  })

  it('is resolved by the system', async () => {
    const names = new HostNames({ clock: systemClock })
    const [address] = await names.addressesOf('localhost')
    expect(['127.0.0.1', '::1']).toContain(address)
    vi.spyOn(dns, 'lookup').mockImplementation(
      async () => [{ address: '192.0.2.1' }, { address: 'fd00::1' }] as never,
    )
    expect(await names.addressesOf('both')).toEqual(['192.0.2.1', 'fd00::1'])
  })

  it('gives an error with the reason if it has no address', async () => {
    const { names } = open()
    resolver.fail('plc1')
    const looking = names.addressesOf('plc1')
    await Promise.all([
      expect(looking).rejects.toMatchObject({
        name: 'HostNameError',
        code: 'AKRI_ERR_HOST_NAME',
        kind: 'transient',
        message: 'the host name plc1 does not resolve: getaddrinfo ENOTFOUND plc1',
        cause: expect.any(TypeError),
      }),
      resolver.answer(),
    ])
    const none = new HostNames({ clock: systemClock }, { resolve: async () => [] })
    await expect(none.addressesOf('plc1')).rejects.toThrow(
      'plc1 does not resolve: it has no address',
    )
  })

  it('is looked up once a minute, and a known name needs no wait', async () => {
    const { clock, names } = open()
    const first = names.addressesOf('plc1')
    await resolver.answer('10.0.0.1')
    expect(await first).toEqual(['10.0.0.1'])
    await clock.advance(MINUTE_MS - 1)
    expect(await names.addressesOf('plc1')).toEqual(['10.0.0.1'])
    expect(resolver.asked).toHaveLength(1)
    await clock.advance(1)
    expect(await names.addressesOf('plc1')).toEqual(['10.0.0.1'])
    await resolver.answer('10.0.0.2')
    expect(await names.addressesOf('plc1')).toEqual(['10.0.0.2'])
    expect(resolver.asked).toHaveLength(2)
  })

  it('is looked up once a minute if it does not resolve', async () => {
    const { clock, names } = open()
    resolver.fail('plc1')
    const first = look(names, 'plc1')
    await resolver.answer()
    expect(await first).toContain('ENOTFOUND')
    await clock.advance(MINUTE_MS - 1)
    expect(await look(names, 'plc1')).toContain('ENOTFOUND')
    expect(resolver.asked).toHaveLength(1)
    resolver.mend()
    await clock.advance(1)
    expect(await look(names, 'plc1')).toContain('ENOTFOUND')
    await resolver.answer('10.0.0.1')
    expect(await look(names, 'plc1')).toEqual(['10.0.0.1'])
  })

  it('keeps its addresses for five minutes after the last success', async () => {
    const { clock, names } = open()
    const round = async () => {
      const looking = look(names, 'plc1')
      await resolver.answer('10.0.0.1')
      await looking
      return look(names, 'plc1')
    }
    expect(await round()).toEqual(['10.0.0.1'])
    resolver.fail('plc1')
    for (let minute = 1; minute < 5; minute++) {
      await clock.advance(MINUTE_MS)
      expect(await round()).toEqual(['10.0.0.1'])
    }
    await clock.advance(MINUTE_MS)
    expect(await round()).toContain('ENOTFOUND')
    resolver.mend()
    await clock.advance(MINUTE_MS)
    expect(await round()).toEqual(['10.0.0.1'])
  })

  it('keeps its addresses while the resolver is slow, and waits if they are old', async () => {
    const { clock, names } = open()
    const first = names.addressesOf('plc1')
    await resolver.answer('10.0.0.1')
    await first
    await clock.advance(5 * MINUTE_MS)
    const waiting = look(names, 'plc1')
    await clock.advance(WAIT_MS)
    expect(await waiting).toEqual(['10.0.0.1'])
    await clock.advance(60 * MINUTE_MS)
    expect(await look(names, 'plc1')).toEqual(['10.0.0.1'])
    await resolver.answer('10.0.0.2')
    expect(await look(names, 'plc1')).toEqual(['10.0.0.2'])
    await clock.advance(5 * MINUTE_MS)
    const again = look(names, 'plc1')
    await resolver.answer('10.0.0.3')
    expect(await again).toEqual(['10.0.0.3'])
  })
})

describe('host names', () => {
  const hosts = ['a', 'b', 'c', 'd']

  it('share one wait: a slow name does not resolve until its answer comes', async () => {
    const { clock, names } = open()
    const first = lookAll(names, hosts)
    await clock.advance(WAIT_MS)
    expect(await first).toEqual(hosts.map(notYet))
    expect(await lookAll(names, hosts)).toEqual(hosts.map(notYet))
    expect(clock.sleeping).toEqual([])
    await resolver.answerAll()
    expect(await lookAll(names, hosts)).toEqual(hosts.map((host) => [`${host}'s`]))
    expect(resolver.most).toBe(1)
  })

  it('are looked up in turn, each once, however often they are requested', async () => {
    const { clock, names } = open()
    for (let minute = 0; minute < 10; minute++) {
      const looking = lookAll(names, hosts)
      await clock.advance(MINUTE_MS)
      expect(await looking).toEqual(hosts.map(notYet))
    }
    expect(resolver.asked).toEqual(['a'])
    await resolver.answerAll()
    expect(resolver.asked).toEqual(hosts)
  })

  it('without a request in five minutes are not looked up, until the next request', async () => {
    const { clock, names } = open()
    const first = lookAll(names, ['a', 'b', 'unwanted'])
    await clock.advance(MINUTE_MS)
    await first
    await look(names, 'b')
    await clock.advance(4 * MINUTE_MS)
    await resolver.answerAll()
    expect(resolver.asked).toEqual(['a', 'b'])
    const again = look(names, 'unwanted')
    await resolver.answer()
    expect(await again).toEqual(["unwanted's"])
  })

  it('are neither waited for nor looked up after an abort', async () => {
    const stop = new AbortController()
    const { clock, names } = open({ signal: stop.signal })
    const looks = Promise.allSettled(hosts.map((host) => names.addressesOf(host)))
    await settle()
    stop.abort()
    const { reason } = stop.signal
    expect(await looks).toEqual(hosts.map(() => ({ status: 'rejected', reason })))
    await expect(names.addressesOf('e')).rejects.toBe(reason)
    expect(clock.sleeping).toEqual([])
    await resolver.answerAll()
    expect(resolver.asked).toEqual(['a'])
  })

  it('are limited to 5000: a further name waits until the oldest is 5 min old', async () => {
    const { clock, names } = open({ resolve: async () => ['10.0.0.1'] })
    await Promise.all(Array.from({ length: 5000 }, (_, index) => names.addressesOf(`host${index}`)))
    await clock.advance(MINUTE_MS)
    await names.addressesOf('host0')
    await expect(names.addressesOf('one-more')).rejects.toThrow(
      'one-more does not resolve: there are already 5000 other names',
    )
    await clock.advance(4 * MINUTE_MS)
    expect(await names.addressesOf('one-more')).toEqual(['10.0.0.1'])
    // A name with a request stays.
    expect(await names.addressesOf('host0')).toEqual(['10.0.0.1'])
  })
})

describe('host names of several handlers in one process', () => {
  it('are looked up one at a time: a lookup that hangs delays no known names', async () => {
    const [cameras, servers] = [open(), open()]
    const known = servers.names.addressesOf('known')
    await resolver.answer('10.0.0.1')
    await known

    await cameras.clock.advance(MINUTE_MS)
    await servers.clock.advance(MINUTE_MS)
    const hanging = [
      look(cameras.names, 'hangs-1'),
      look(servers.names, 'hangs-2'),
      look(servers.names, 'new'),
    ]
    await settle()
    expect(resolver.asked).toEqual(['known', 'hangs-1'])
    expect(await servers.names.addressesOf('known')).toEqual(['10.0.0.1'])
    await cameras.clock.advance(WAIT_MS)
    await servers.clock.advance(WAIT_MS)
    expect(await Promise.all(hanging)).toEqual([
      notYet('hangs-1'),
      notYet('hangs-2'),
      notYet('new'),
    ])

    // The system gives up after its own time limit.
    resolver.fail('hangs-1')
    resolver.fail('hangs-2')
    await resolver.answer()
    expect(resolver.asked).toEqual(['known', 'hangs-1', 'hangs-2'])
    await resolver.answerAll()
    expect(await look(servers.names, 'new')).toEqual(["new's"])
    expect(await look(servers.names, 'hangs-2')).toContain('ENOTFOUND')
    expect(resolver.most).toBe(1)
  })

  it('take turns, however many names a handler requests', async () => {
    const [many, few] = [open(), open()]
    const thousand = Array.from({ length: 1000 }, (_, index) => `many${index}`)
    const [first, second] = [lookAll(many.names, thousand), lookAll(few.names, ['few0', 'few1'])]
    for (let turn = 0; turn < 5; turn++) await resolver.answer()
    expect(await second).toEqual([["few0's"], ["few1's"]])
    expect(resolver.asked).toEqual(['many0', 'few0', 'many1', 'few1', 'many2', 'many3'])
    await many.clock.advance(WAIT_MS)
    await first
  })

  it('are looked up one at a time also if each handler has a copy of this package', async () => {
    vi.resetModules()
    const copy = await import('./host-names.js')
    expect(copy.HostNames).not.toBe(HostNames)
    const { clock, names } = open()
    const others = new copy.HostNames({ clock }, { resolve: resolver.resolve })
    const looking = [names.addressesOf('a'), others.addressesOf('b'), names.addressesOf('c')]
    await resolver.answerAll()
    expect(await Promise.all(looking)).toEqual([["a's"], ["b's"], ["c's"]])
    expect(resolver.asked).toEqual(['a', 'b', 'c'])
    expect(resolver.most).toBe(1)
  })
})
