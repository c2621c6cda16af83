import { InvalidOptionError } from '@akrijs/runtime'
import { describe, expect, it } from 'vitest'
import { HELP, readArguments, readLanguage } from './arguments.js'

const NOTHING = {
  directory: undefined,
  name: undefined,
  language: undefined,
  packages: undefined,
  help: false,
  version: false,
}

describe('the arguments of npm create', () => {
  it.each([
    [[], {}],
    [['my-sensor'], { directory: 'my-sensor' }],
    [
      ['--language', 'typescript', 'a/b', '--name', '@me/x'],
      { directory: 'a/b', language: 'typescript', name: '@me/x' },
    ],
    [['--language=ts', '--packages', '/p'], { language: 'typescript', packages: '/p' }],
    [['-h'], { help: true }],
    [['--version'], { version: true }],
  ])('are read: %j', (argv, expected) => {
    expect(readArguments(argv)).toEqual({ ...NOTHING, ...expected })
  })

  it.each([
    [['--typescript'], 'there is no option --typescript; write --language typescript'],
    [['--js'], 'there is no option --js; write --language javascript'],
    [['a', 'b'], 'name one directory, not 2: a b; options go after --: npm create '],
    [['x', 'typescript'], 'npm create @akrijs/handler@latest x -- --language typescript'],
    [['--langage', 'ts'], "Unknown option '--langage'; see --help"],
    [['--name'], "Option '--name <value>' argument missing; see --help"],
    [['--name', ''], 'name is empty'],
    [[''], 'directory is empty'],
    [['--language', 'typscript'], 'did you mean typescript?'],
    [['--example', 'serial', '--language', 'TS'], 'the examples are in JavaScript'],
    [['--language', 'rust'], '"rust" is not a language for handlers; use javascript or typescript'],
  ])('are refused with what would be right: %j', (argv, message) => {
    expect(() => readArguments(argv)).toThrow(InvalidOptionError)
    expect(() => readArguments(argv)).toThrow(message)
  })

  it.each([
    ['js', 'javascript'],
    [' TS ', 'typescript'],
    ['JavaScript', 'javascript'],
  ])('name a language: %j', (text, language) => {
    expect(readLanguage(text)).toBe(language)
  })

  it('are all in the text of --help, in short lines', () => {
    for (const option of Object.keys(NOTHING)) expect(HELP).toMatch(new RegExp(`(--|\\[)${option}`))
    for (const line of HELP.split('\n')) expect(line.length).toBeLessThanOrEqual(100)
  })
})
