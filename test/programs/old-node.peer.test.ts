import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'

const root = path.join(import.meta.dirname, '../..')
/** A Node.js of a version that is too old. */
const OLD_NODE = process.env.AKRI_TEST_OLD_NODE ?? ''
const isThere = existsSync(OLD_NODE)
const needs = isThere ? '' : ' (needs AKRI_TEST_OLD_NODE)'

it.skipIf(!isThere).each([
  ['akri', 'cli/dist/akri.js'],
  ['akri-handler', 'sdk/dist/akri-handler.js'],
  ['create-handler', 'create-handler/dist/create-handler.js'],
])(`with an old Node.js, %s names the version that it needs, in one line${needs}`, (name, file) => {
  const { status, stdout, stderr } = spawnSync(OLD_NODE, [path.join(root, file), '--version'], {
    encoding: 'utf8',
  })
  expect(stderr).toMatch(
    new RegExp(`^${name}: Node\\.js [0-9.]+ is too old: install Node\\.js 20\\.19 or newer\n$`),
  )
  expect([status, stdout]).toEqual([1, ''])
})
