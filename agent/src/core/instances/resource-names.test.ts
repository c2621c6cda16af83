import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { ResourceNames } from './resource-names.js'

const HOUR = 3_600_000

let clock: ManualClock
let node: Set<string> | undefined
let offered: Set<string>
let reads: number
let names: ResourceNames

beforeEach(async () => {
  clock = new ManualClock()
  node = new Set(['cpu', 'akri.sh/old'])
  offered = new Set()
  reads = 0
  names = new ResourceNames({
    bounds: { most: 10, atOnce: 5, perHour: 2 },
    clock,
    log: silentLogger,
    read: async () => {
      reads++
      if (node === undefined) throw new Error('403')
      return node
    },
    offered: () => offered,
  })
  await names.read()
})

/** Asks for names one after the other, until one is refused. */
function untilRefused(prefix: string): { admitted: number; why: string | undefined } {
  for (let index = 0; ; index++) {
    const refusal = names.admit(`${prefix}-${index}`)
    if (refusal !== undefined) return { admitted: index, why: refusal.why }
    offered.add(`akri.sh/${prefix}-${index}`)
  }
}

describe('names of resources', () => {
  it('are admitted at once up to a bound, and then some in an hour', async () => {
    expect(untilRefused('a')).toEqual({ admitted: 5, why: 'soon' })
    await clock.advance(HOUR)
    expect(untilRefused('b')).toEqual({ admitted: 2, why: 'soon' })
  })

  it('are free if the Node has them, or had them', () => {
    untilRefused('a')
    expect(names.admit('old')).toBeUndefined()
    expect(names.admit('a-3')).toBeUndefined()
    expect(names.admit('of-an-instance-of-this-node', true)).toBeUndefined()
  })

  it('are never more than the Node may have, however long names change', async () => {
    let admitted = 0
    for (let hour = 0; hour < 50; hour++) {
      admitted += untilRefused(`hour-${hour}`).admitted
      // The devices are gone; the Node keeps their names.
      for (const name of offered) node?.add(name)
      offered.clear()
      await clock.advance(HOUR)
    }
    expect(admitted).toBe(9)
    expect(names.admit('new')).toEqual({ why: 'full', retryInMs: 60_000 })
    expect(names.admit('hour-0-0')).toBeUndefined()
  })

  it('are admitted again within minutes after an operator has removed old names', async () => {
    node = new Set(Array.from({ length: 10 }, (_, index) => `akri.sh/old-${index}`))
    await names.read()
    expect(names.admit('new')?.why).toBe('full')
    node = new Set()
    await clock.advance(60_000)
    expect(names.admit('new')?.why).toBe('full')
    await clock.advance(0)
    expect(names.admit('new')).toBeUndefined()
  })

  it('read the Node once in a minute at most', async () => {
    untilRefused('a')
    const before = reads
    for (let second = 0; second < 120; second++) {
      names.admit('more')
      await clock.advance(1000)
    }
    expect(reads - before).toBeLessThanOrEqual(2)
  })

  it('are all new if the Node cannot be read', async () => {
    node = undefined
    await names.read()
    expect(untilRefused('a')).toEqual({ admitted: 5, why: 'soon' })
  })

  it('that come and go without a pause wait for their turn', async () => {
    let started = 0
    while (names.admit('old') === undefined) started++
    expect(started).toBe(4000)
    await clock.advance(1000)
    started = 0
    while (names.admit('old') === undefined) started++
    expect(started).toBe(10)
  })
})
