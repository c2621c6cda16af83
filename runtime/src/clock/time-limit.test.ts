import { getEventListeners } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, it } from 'vitest'
import { withTimeLimit } from './time-limit.js'

const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
  )

/** Twice: what is only held weakly is let go of between two turns of the event loop. */
async function collectGarbage(): Promise<void> {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  for (let turn = 0; turn < 2; turn++) {
    await new Promise((resolve) => setImmediate(resolve))
    collect()
  }
}

it('work ends when its time is over, whatever garbage was collected meanwhile', async () => {
  const { signal } = new AbortController()
  const outcome = expect(withTimeLimit(100, signal, untilAborted)).rejects.toMatchObject({
    name: 'TimeoutError',
  })
  await collectGarbage()
  await outcome
})

it('work ends with the signal that it is given, and has its outcome otherwise', async () => {
  const stop = new AbortController()
  const outcome = expect(withTimeLimit(60_000, stop.signal, untilAborted)).rejects.toThrow(
    'stopped',
  )
  stop.abort(new TypeError('stopped'))
  await outcome
  expect(await withTimeLimit(60_000, new AbortController().signal, async () => 'done')).toBe('done')
})

it('work leaves nothing on a signal of a longer life, even if it listens on', async () => {
  const { signal } = new AbortController()
  const limits: WeakRef<AbortSignal>[] = []
  await withTimeLimit(60_000, signal, async (limited) => {
    limited.addEventListener('abort', () => {})
    limits.push(new WeakRef(limited))
  })
  await collectGarbage()
  expect(limits.map((limit) => limit.deref())).toEqual([undefined])
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

it('work begins with an aborted signal if the signal is aborted already', async () => {
  const reason = new TypeError('stopped')
  const limited = await withTimeLimit(60_000, AbortSignal.abort(reason), async (inner) => inner)
  expect(limited.reason).toBe(reason)
})

it.each([Number.POSITIVE_INFINITY, 2 ** 31, '1h'])('work has %s as its limit', async (time) => {
  const stop = new AbortController()
  let isOver = false
  const work = withTimeLimit(time, stop.signal, (limited) =>
    untilAborted(limited).finally(() => {
      isOver = true
    }),
  )
  const outcome = expect(work).rejects.toThrow('stopped')
  await new Promise((resolve) => setTimeout(resolve, 50))
  expect(isOver).toBe(false)
  stop.abort(new TypeError('stopped'))
  await outcome
})

it.each([Number.NaN, undefined, 'soon'])('work does not begin with the limit %s', async (time) => {
  const { signal } = new AbortController()
  let isBegun = false
  const begin = async () => {
    isBegun = true
  }
  // @ts-expect-error at run time a handler is JavaScript
  await expect(withTimeLimit(time, signal, begin)).rejects.toThrow(/is not an interval/)
  // @ts-expect-error there is no signal
  await expect(withTimeLimit(5, undefined, begin)).rejects.toThrow(
    /write withTimeLimit\(ms, signal/,
  )
  expect(isBegun).toBe(false)
})
