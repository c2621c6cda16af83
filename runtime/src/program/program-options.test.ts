import { Command, Option } from 'commander'
import { describe, expect, it } from 'vitest'
import { directoryPath, nodeName, unsetEmpty } from './program-options.js'

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

  it('refuse an empty path of a directory', () => {
    expect(directoryPath('/srv')).toBe('/srv')
    expect(() => directoryPath('')).toThrow('write the path of a directory')
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
