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

/** Asks for new names one after the other, until one is refused. */
function untilRefused(configuration = LAB): { admitted: number; why: string | undefined } {
  for (let admitted = 0; ; admitted++) {
    const refusal = admit(nameOf(configuration, next++), configuration)
    if (refusal !== undefined) return { admitted, why: refusal.why }
  }
}

/** The devices always change for hours; the Node keeps their names. */
async function change(hours: number, configuration = LAB): Promise<void> {
  for (let hour = 0; hour < hours; hour++) {
    untilRefused(configuration)
    for (const name of offered) node?.add(name)
    for (const name of offered) if (name.includes(`/${configuration}-`)) offered.delete(name)
    await clock.advance(HOUR)
  }
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

  it('with a long digest count among the names of their Configuration', async () => {
    node = new Set(Array.from({ length: 12 }, (_, n) => `akri.sh/lab-${`${n}`.padStart(16, '0')}`))
    await names.read()
    // The Configuration has more old names than the Node has room for.
    expect(admit('lab-8120fe')?.why).toBe('full')
    expect(admit('other-8120fe', OTHER)).toBeUndefined()
  })

  it('change until those of their Configuration fill the room, and never beyond it', async () => {
    await change(50)
    expect(admit(nameOf(LAB, next++))).toEqual({ why: 'full', retryInMs: 60_000 })
    // 20 names: half of the room stays for others, and all of it for devices that stay.
    expect(untilRefused(OTHER)).toEqual({ admitted: 5, why: 'soon' })
    for (const each of ['a', 'b', 'c', 'd', 'e']) await change(50, each as ConfigurationName)
    expect(node?.size).toBeLessThanOrEqual(21)
    expect(node?.size).toBeGreaterThan(16)
    expect(admit(nameOf(LAB, 0))).toBeUndefined()
  })

  it('are admitted again after an operator has removed old names: the Node is read', async () => {
    node = new Set(Array.from({ length: 20 }, (_, index) => `akri.sh/old-${index}`))
    await names.read()
    const before = reads
    for (let second = 0; second < 60; second++) {
      expect(admit('new')?.why).toBe('full')
      await clock.advance(1000)
    }
    node = new Set()
    expect(admit('new')?.why).toBe('full')
    await clock.advance(0)
    expect(admit('new')).toBeUndefined()
    // Once in a minute at most.
    expect(reads - before).toBe(1)
  })

  it('are all new if the Node cannot be read', async () => {
    node = undefined
    await names.read()
    expect(untilRefused()).toEqual({ admitted: 5, why: 'soon' })
  })
})
