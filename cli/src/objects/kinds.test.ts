import { InvalidOptionError } from '@akrijs/runtime'
import { describe, expect, it } from 'vitest'
import { describe as describeObject } from '../commands/describe.js'
import { explain } from '../commands/explain.js'
import { get } from '../commands/get.js'
import { kindOf } from './kinds.js'

describe('the name of a kind', () => {
  it.each([
    ['akric', 'configurations'],
    ['Configuration', 'configurations'],
    ['akrii', 'instances'],
    ['instance', 'instances'],
    ['node', 'nodes'],
    ['Handlers', 'handlers'],
  ])('%s means %s', (text, kind) => {
    expect(kindOf(text)).toBe(kind)
  })

  it.each(['pods', '', 'constructor', '__proto__'])('is refused with all kinds: %j', (text) => {
    expect(() => kindOf(text)).toThrow(InvalidOptionError)
    expect(() => kindOf(text)).toThrow(
      'the kinds are configurations (akric), instances (akrii), nodes and handlers',
    )
  })

  const open = () => expect.fail('the cluster was opened')
  it.each([
    ['get', () => get('pods', 'x', { output: 'table', allNamespaces: false, watch: false }, open)],
    ['describe', () => describeObject('pods', 'x', open)],
    ['explain', () => explain('node', 'x', open)],
  ])('is refused by akri %s before a kubeconfig is read', async (_, run) => {
    await expect(run()).rejects.toThrow(InvalidOptionError)
  })
})
