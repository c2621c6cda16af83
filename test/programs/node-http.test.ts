import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import builtIn from '../../handlers/built-in.json' with { type: 'json' }

const root = path.join(import.meta.dirname, '../..')
/** A kubeconfig is read outside of Pods only, by a library. */
const OTHERS = /^(kubeconfig-|testing\.js$)/

it.each([
  ...['agent', 'controller', 'webhook', 'cli', 'sdk'],
  ...builtIn.handlers.map(({ folder }) => folder),
])('%s loads node:http without undici, which an import of Node.js 24 loads too', (folder) => {
  const dist = path.join(root, folder, 'dist')
  const importing = readdirSync(dist)
    .filter((file) => file.endsWith('.js') && !OTHERS.test(file))
    .filter((file) =>
      /\b(import|from) ?["'](node:)?http["']/.test(readFileSync(path.join(dist, file), 'utf8')),
    )
  expect(importing).toEqual([])
})
