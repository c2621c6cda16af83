import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { nodeProblem, OLDEST_NODE } from './node-version.js'

it.each(['20.19.0', '20.20.1', '21.0.0', '24.1.0', '100.0.0'])(
  'Node.js %s runs programs',
  (version) => {
    expect(nodeProblem(version)).toBeUndefined()
  },
)

it.each(['20.18.3', '18.99.0', '8.0.0', '0.12.1'])('Node.js %s is too old', (version) => {
  expect(nodeProblem(version)).toBe(`Node.js ${version} is too old: install Node.js 20.19 or newer`)
})

it.each(['cli', 'sdk', 'runtime', 'create-handler'])(
  'the package of %s names the same version',
  (folder) => {
    const file = path.join(import.meta.dirname, '../../..', folder, 'package.json')
    expect(JSON.parse(readFileSync(file, 'utf8')).engines.node).toBe(`>=${OLDEST_NODE}`)
  },
)
