import { beforeEach, describe, expect, it } from 'vitest'
import { ManualClock } from '../testing/index.js'
import { HealthCheck } from './health-check.js'

let clock: ManualClock
let health: HealthCheck
/** The checks that the probes have begun. */
let checks: Check[]

interface Check {
  resolve(problem: string | undefined): void
  reject(error: Error): void
}

beforeEach(() => {
  clock = new ManualClock(1000)
  checks = []
  health = new HealthCheck(
    clock,
    () => new Promise((resolve, reject) => checks.push({ resolve, reject })),
  )
})

/** A probe after this time, and the end of its check. */
async function checked(problem: string | undefined, afterMs: number): Promise<string | undefined> {
  await clock.advance(afterMs)
  const verdict = health.verdict()
  checks.at(-1)?.resolve(problem)
  return verdict
}

/** Whether the answer is there, after the promises that are settled. */
async function isAnswered(verdict: Promise<unknown>): Promise<boolean> {
  let answered = false
  verdict.then(
    () => (answered = true),
    () => (answered = true),
  )
  await new Promise((resolve) => setImmediate(resolve))
  return answered
}

describe('the verdict of a health check', () => {
  it('waits for the first check', async () => {
    const verdict = health.verdict()
    await clock.advance(60_000)
    expect(await isAnswered(verdict)).toBe(false)
    checks[0]?.resolve('no socket')
    expect(await verdict).toBe('no socket')
  })

  it('is that of a check which ends within 5 ms', async () => {
    expect(await checked(undefined, 0)).toBeUndefined()
    expect(await checked('no socket', 10_000)).toBe('no socket')
    expect(checks).toHaveLength(2)
    expect(clock.sleeping).toEqual([])
  })

  it('is the last good verdict after 5 ms of a check, and then that of the check', async () => {
    await checked(undefined, 0)
    await clock.advance(10_000)
    const busy = health.verdict()
    await clock.advance(4)
    expect(await isAnswered(busy)).toBe(false)
    await clock.advance(1)
    expect(await busy).toBeUndefined()
    checks.at(-1)?.resolve('no socket')
    await clock.advance(5)
    expect(await health.verdict()).toBe('no socket')
    expect(checks).toHaveLength(2)
  })

  it('waits for a check that hangs while the last good verdict is older than 15 s', async () => {
    await checked(undefined, 0)
    await clock.advance(10_000)
    const first = health.verdict()
    await clock.advance(5)
    expect(await first).toBeUndefined()
    await clock.advance(10_000)
    const second = health.verdict()
    await clock.advance(10_000)
    expect(await isAnswered(second)).toBe(false)
    expect(checks).toHaveLength(2)
  })

  it('waits for the next check after a bad verdict, so that a program recovers', async () => {
    expect(await checked('no socket', 0)).toBe('no socket')
    await clock.advance(10_000)
    const verdict = health.verdict()
    await clock.advance(1000)
    expect(await isAnswered(verdict)).toBe(false)
    checks.at(-1)?.resolve(undefined)
    expect(await verdict).toBeUndefined()
  })

  it('is repeated for 100 ms, so that many probes cost ten checks a second', async () => {
    await checked('no socket', 0)
    for (let probe = 0; probe < 99; probe++) {
      await clock.advance(1)
      expect(await health.verdict()).toBe('no socket')
    }
    expect(checks).toHaveLength(1)
    expect(await checked(undefined, 1)).toBeUndefined()
    expect(checks).toHaveLength(2)
  })

  it('is one for all probes of the same check', async () => {
    const verdicts = [health.verdict(), health.verdict(), health.verdict()]
    expect(checks).toHaveLength(1)
    checks[0]?.resolve('no socket')
    expect(await Promise.all(verdicts)).toEqual(['no socket', 'no socket', 'no socket'])
  })

  it('is the error of a failed check, also if no probe waited for its end', async () => {
    await checked(undefined, 0)
    await clock.advance(10_000)
    const busy = health.verdict()
    await clock.advance(5)
    expect(await busy).toBeUndefined()
    checks.at(-1)?.reject(new TypeError('broken'))
    expect(await isAnswered(busy)).toBe(true)
    await expect(health.verdict()).rejects.toThrow('broken')
  })
})
