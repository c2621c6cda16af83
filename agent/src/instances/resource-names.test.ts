import type { ConfigurationName } from '@akrijs/api'
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
    bounds: { most: 20, atOnce: 5, perHour: 2 },
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

const LAB = 'lab' as ConfigurationName
const OTHER = 'other' as ConfigurationName

/** The name of an Instance. */
const nameOf = (configuration: ConfigurationName, index: number) =>
  `${configuration}-${index.toString(16).padStart(6, '0')}`

function admit(name: string, configuration = LAB, isKnown = false) {
  const resources = [...offered].filter((each) => each.startsWith(`akri.sh/${configuration}-`))
  const refusal = names.admit({ name, configuration, offered: resources.length, isKnown })
  if (refusal === undefined) offered.add(`akri.sh/${name}`)
  return refusal
}

let next = 0
beforeEach(() => {
  next = 0
})

it('a name with a long digest counts among the names of its Configuration', async () => {
  node = new Set(Array.from({ length: 12 }, (_, n) => `akri.sh/lab-${`${n}`.padStart(16, '0')}`))
  await names.read()
  // The Configuration has more old names than the Node has room for.
  expect(admit('lab-8120fe')?.why).toBe('full')
  expect(admit('other-8120fe', OTHER)).toBeUndefined()
})

/** Asks for new names one after the other, until one is refused. */
function untilRefused(configuration = LAB): { admitted: number; why: string | undefined } {
  for (let admitted = 0; ; admitted++) {
    const refusal = admit(nameOf(configuration, next++), configuration)
    if (refusal !== undefined) return { admitted, why: refusal.why }
  }
}

/** The devices are gone; the Node keeps their names. */
function loseAll(configuration: ConfigurationName): void {
  for (const name of offered) node?.add(name)
  for (const name of offered) if (name.includes(`/${configuration}-`)) offered.delete(name)
}

describe('names of resources', () => {
  it('are admitted at once up to a bound, and then some in an hour', async () => {
    expect(untilRefused()).toEqual({ admitted: 5, why: 'soon' })
    await clock.advance(HOUR)
    expect(untilRefused()).toEqual({ admitted: 2, why: 'soon' })
  })

  it('are free if the Node has them, or had them', () => {
    untilRefused()
    expect(admit('old')).toBeUndefined()
    expect(admit(nameOf(LAB, 3))).toBeUndefined()
    expect(admit('of-an-instance-of-this-node', LAB, true)).toBeUndefined()
  })

  it('are never more than the Node may have, however long names change', async () => {
    const configurations = ['a', 'b', 'c', 'd', 'e', 'f'] as ConfigurationName[]
    let admitted = 0
    for (let hour = 0; hour < 50; hour++) {
      for (const configuration of configurations) {
        admitted += untilRefused(configuration).admitted
        loseAll(configuration)
      }
      await clock.advance(HOUR)
    }
    expect(admitted).toBeLessThanOrEqual(19)
    expect(admitted).toBeGreaterThan(15)
    expect(admit(nameOf(configurations[0] ?? LAB, 0))).toBeUndefined()
  })

  it('change in a Configuration until its old names fill the room of the Node', async () => {
    for (let hour = 0; hour < 50; hour++) {
      untilRefused(LAB)
      loseAll(LAB)
      await clock.advance(HOUR)
    }
    expect(admit(nameOf(LAB, next++))).toEqual({ why: 'full', retryInMs: 60_000 })
    // 20 names: half of the room stays for others, and all of it for devices that stay.
    expect(untilRefused(OTHER)).toEqual({ admitted: 5, why: 'soon' })
  })

  it('are admitted again within minutes after an operator has removed old names', async () => {
    node = new Set(Array.from({ length: 20 }, (_, index) => `akri.sh/old-${index}`))
    await names.read()
    expect(admit('new')?.why).toBe('full')
    node = new Set()
    await clock.advance(60_000)
    expect(admit('new')?.why).toBe('full')
    await clock.advance(0)
    expect(admit('new')).toBeUndefined()
  })

  it('read the Node once in a minute at most', async () => {
    untilRefused()
    const before = reads
    for (let second = 0; second < 120; second++) {
      admit('more')
      await clock.advance(1000)
    }
    expect(reads - before).toBeLessThanOrEqual(2)
  })

  it('are all new if the Node cannot be read', async () => {
    node = undefined
    await names.read()
    expect(untilRefused()).toEqual({ admitted: 5, why: 'soon' })
  })
})
