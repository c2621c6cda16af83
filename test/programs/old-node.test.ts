import { readFileSync } from 'node:fs'
import path from 'node:path'
import { transformSync } from 'esbuild'
import { expect, it } from 'vitest'

const root = path.join(import.meta.dirname, '../..')

it.each(['cli/dist/akri.js', 'sdk/dist/akri-handler.js', 'create-handler/dist/create-handler.js'])(
  'an old Node.js reads %s, and what it imports, as Node.js 12 did',
  (file) => {
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
  },
)
