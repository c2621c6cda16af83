import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { transformSync } from 'esbuild'
import { describe, expect, it } from 'vitest'

const root = path.join(import.meta.dirname, '../..')
/** A Node.js of a version that is too old. */
const OLD_NODE = process.env.AKRI_TEST_OLD_NODE ?? ''

const PROGRAMS = [
  ['akri', 'cli/dist/akri.js'],
  ['akri-handler', 'sdk/dist/akri-handler.js'],
  ['create-handler', 'create-handler/dist/create-handler.js'],
] as const

describe('an old Node.js', () => {
  it.each(PROGRAMS)('reads %s, and what it imports, as Node.js 12 did', (_name, file) => {
    const read = (found: string): string[] => {
      const text = readFileSync(path.join(root, found), 'utf8')
      const imported = [...text.matchAll(/^import ?["'](\.\/[^"']+)/gm)].flatMap(([, name = '']) =>
        read(path.join(path.dirname(found), name)),
      )
      return [text, ...imported]
    }
    for (const text of read(file)) {
      const code = (target: string) => transformSync(text, { format: 'esm', target }).code
      expect(code('node12.20')).toBe(code('esnext'))
    }
  })

  it.skipIf(!existsSync(OLD_NODE)).each(PROGRAMS)(
    '%s names the version that it needs, in one line',
    (name, file) => {
      const { status, stdout, stderr } = spawnSync(OLD_NODE, [path.join(root, file), '--version'], {
        encoding: 'utf8',
      })
      expect(stderr).toMatch(
        new RegExp(`^${name}: Node\\.js [0-9.]+ is too old: install Node\\.js 20\\.19 or newer\n$`),
      )
      expect([status, stdout]).toEqual([1, ''])
    },
  )
})
