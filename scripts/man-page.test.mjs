import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { manPage } from './man-page.mjs'
import { manifestOf, root } from './workspaces.mjs'

const file = path.join(root, 'cli', manifestOf('cli').man)
const hasGroff = spawnSync('groff', ['--version']).status === 0

describe('the manual page of akri', () => {
  it('quotes what roff would obey', () => {
    const commands = { run: { description: '.so /etc/passwd \\n…', options: {} } }
    const page = manPage(commands, { description: "'x", flagOf: () => '' })
    expect(page).toContain('\n\\&.so /etc/passwd \\en\\[u2026].\n')
    expect(page).toContain("\n\\&'x\n")
  })

  const needs = hasGroff ? '' : ' (needs groff)'
  it.skipIf(!hasGroff)(
    `is read without a warning, with commands, flags and defaults${needs}`,
    () => {
      const args = ['-man', '-Tutf8', '-ww', '-P-cbou', file]
      const { stdout, stderr } = spawnSync('groff', args, { encoding: 'utf8' })
      expect(stderr).toBe('')
      const text = stdout.replace(/\s+/g, ' ')
      for (const part of [
        'akri discover <handler>',
        '--log-level <level>',
        'debug, info, warn, error; environment: LOG_LEVEL; default: info.',
        'akri completion <shell>',
      ])
        expect(text).toContain(part)
    },
  )

  it('is in the package', () => {
    expect(manifestOf('cli').files).toContain('man')
    expect(readFileSync(file, 'utf8')).toMatch(/^\.TH AKRI 1 /m)
  })
})
