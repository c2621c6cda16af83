import { spawnSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { COMMANDS, SHELLS } from '../command-texts.js'
import { completionScript } from './completion-script.js'

let directory: string

beforeEach(async () => {
  directory = await temporaryDirectory()
  await writeFile(path.join(directory, 'my sensor.js'), '')
  await mkdir(path.join(directory, 'other'))
  for (const shell of SHELLS)
    await writeFile(path.join(directory, `akri.${shell}`), completionScript(shell, COMMANDS))
})

function run(shell: string, ...args: readonly string[]): string[] {
  const { stdout, stderr } = spawnSync(shell, args, {
    cwd: directory,
    encoding: 'utf8',
    timeout: 60_000,
  })
  expect(stderr.replaceAll(/.*compopt: not currently executing.*\n/g, '')).toBe('')
  return stdout.trimEnd().split('\n')
}

const has = (shell: string) => spawnSync(shell, ['--version']).status === 0
const titled = (shell: string) =>
  `the completion of ${shell}${has(shell) ? '' : ` (needs ${shell})`}`

describe('the completion of bash', () => {
  const complete = (...words: readonly string[]) =>
    run(
      'bash',
      '--norc',
      '-c',
      'source ./akri.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _akri; ' +
        `printf '%s\\n' "\${COMPREPLY[@]}"`,
      'bash',
      ...words,
    )

  it.each([
    [
      ['akri', 'd'],
      ['discover', 'describe', 'doctor'],
    ],
    [
      ['akri', ''],
      [...Object.keys(COMMANDS), '--help', '--version'],
    ],
    [['akri', 'discover', '--wa'], ['--watch']],
    [['akri', 'discover', '--watch', '--log-l'], ['--log-level']],
    [
      ['akri', 'discover', '--log-level', ''],
      ['debug', 'info', 'warn', 'error'],
    ],
    [['akri', 'get', '-o', 'j'], ['json']],
    [['akri', 'get', 'i'], ['instances']],
    [
      ['akri', 'migrate', ''],
      ['check', 'forward', 'back'],
    ],
    [['akri', 'discover', 'm'], ['my sensor.js']],
    [['akri', 'run', '-f', 'o'], ['other']],
    [['akri', 'discover', '--details-text', ''], ['']],
    [['akri', 'completion', 'z'], ['zsh']],
    [['akri', '$(touch x)', ''], ['']],
  ])('of %j is %j', (words, expected) => {
    expect(complete(...words)).toEqual(expected)
  })
})

/** Presses Tab and Enter in a zsh with a terminal, in which `akri` prints its arguments. */
const ZSH = String.raw`
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'akri() { print "got: $* end:" }; autoload -Uz compinit; compinit -D -u'
zpty -w shell 'source ./akri.zsh; print rea""dy'
zpty -r shell output '*ready*'
zpty -n -w shell "$1"$'\t\r'
zpty -r shell output '*end:*'
print -r -- "$output"`

const LINES = [
  ['akri des', 'describe'],
  ['akri get ins', 'get instances'],
  ['akri discover --log-level de', 'discover --log-level debug'],
  ['akri discover --wat', 'discover --watch'],
] as const

describe.skipIf(!has('zsh'))(titled('zsh'), () => {
  it.each(LINES)('of %j is %j', (line, expected) => {
    const output = run('zsh', '-f', '-c', ZSH, 'zsh', line).join('\n')
    expect(/got: (.*) end:/.exec(output)?.[1]).toBe(expected)
  })
})

describe.skipIf(!has('fish'))(titled('fish'), () => {
  it.each(LINES)('of %j is %j', (line, expected) => {
    const script = `source akri.fish; complete -C '${line}'`
    const words = run('fish', '--no-config', '-c', script).map((text) => text.split('\t')[0])
    expect(words).toEqual([expected.split(' ').at(-1)])
  })
})
