import { spawnSync } from 'node:child_process'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { matchesGlob } from './glob.js'

const FNMATCH = `
import ctypes, json, sys
libc = ctypes.CDLL(None)
pairs = json.load(sys.stdin)
print(json.dumps([libc.fnmatch(glob.encode(), text.encode(), 0) == 0 for glob, text in pairs]))
`
const python = spawnSync('python3', ['--version']).status === 0

describe('globs', () => {
  it.skipIf(!python)(
    'D1 match exactly what fnmatch of the C library matches (needs python3)',
    () => {
      const glob = fc.string({
        unit: fc.constantFrom('a', 'b', 'c', '*', '?', '[', ']', '!', '^', '-', '\\', '/', '.'),
        maxLength: 9,
      })
      const text = fc.string({
        unit: fc.constantFrom('a', 'b', 'c', '[', ']', '!', '^', '-', '\\', '/', '.', '*'),
        maxLength: 6,
      })
      const special = fc.constantFrom(
        ...['[[:alpha:]]*', '[[:digit:]-]', '[![:space:]]', '[[:nonsense:]]', '[a-c]?[!b]'],
        ...['*a*b*', '[]a]', '[a-]', 'tty[SR]*'],
      )
      // The result of glibc for an unclosed bracket, or an unclosed collating symbol (`[.`),
      // depends on the text.
      const usual = glob.filter(
        (pattern) =>
          !/\[[^\]]*-$/.test(pattern) && !/\[\][^\]]*-$/.test(pattern) && !/\[.*\[\./.test(pattern),
      )
      const cases = fc.sample(
        fc.tuple(fc.oneof({ weight: 6, arbitrary: usual }, special), text),
        30_000,
      )
      const expected: unknown = JSON.parse(
        spawnSync('python3', ['-c', FNMATCH], {
          input: JSON.stringify(cases),
          encoding: 'utf8',
          maxBuffer: 1 << 24,
        }).stdout,
      )
      const wrong = cases.filter(
        ([g, t], index) => matchesGlob(g, t) !== (Array.isArray(expected) && expected[index]),
      )
      expect(wrong.slice(0, 20)).toEqual([])
    },
  )
})
