import { Command, Option } from 'commander'
import { describe, expect, it } from 'vitest'
import { commanderOptions, directory, integer, list } from './option-schema.js'
import { nodeName, unsetEmpty } from './program-options.js'

describe('the options of programs', () => {
  it.each(['node-a', '0', 'a.b-c.d', 'ip-10-0-0-1.eu.compute.internal', 'x'.repeat(253)])(
    'take %s as the name of a node',
    (name) => {
      expect(nodeName(name)).toBe(name)
    },
  )

  it.each([
    '',
    'C:1:x',
    'a b',
    'Bad_Node!',
    'A',
    '-a',
    'a-',
    'a..b',
    'a.',
    'a.-b',
    'a\n',
    'ü',
    'x'.repeat(254),
  ])('refuse %j as the name of a node, and say what is one', (name) => {
    expect(() => nodeName(name)).toThrow('write a DNS name: at most 253 of a-z')
  })

  it('have their flag from their name, and refuse a value with the right values', () => {
    const specs = {
      slotGrace: integer([1, 60], { argument: '<seconds>', meaning: '', default: 5 }),
      stateDir: directory({ argument: '<path>', meaning: '', default: '/a' }),
      item: list({ argument: '<name>', meaning: '', default: ['x'] }),
    }
    const parse = (...args: readonly string[]) => {
      const command = new Command().exitOverride().configureOutput({ writeErr: () => {} })
      for (const option of commanderOptions(specs)) command.addOption(option)
      return command.parse(args, { from: 'user' }).opts()
    }
    expect(parse()).toEqual({ slotGrace: 5, stateDir: '/a', item: ['x'] })
    expect(
      parse('--slot-grace', '60', '--state-dir', '/srv', '--item', 'a, b', '--item', 'c'),
    ).toEqual({
      slotGrace: 60,
      stateDir: '/srv',
      item: ['a', 'b', 'c'],
    })
    expect(parse('--item', 'none').item).toEqual([])
    for (const value of ['0', '61', '1.5', 'x'])
      expect(() => parse('--slot-grace', value)).toThrow('write a whole number from 1 to 60')
    expect(() => parse('--state-dir', '')).toThrow('write the path of a directory')
  })

  it('count a variable of the environment that is empty as one that is not there', () => {
    const environment = { AKRI_A: '', AKRI_B: '', AKRI_C: 'c' }
    const command = new Command()
      .addOption(new Option('--a <a>').env('AKRI_A'))
      .addOption(new Option('--c <c>').env('AKRI_C'))
    unsetEmpty(command.options, environment)
    expect(environment).toEqual({ AKRI_B: '', AKRI_C: 'c' })
  })
})
