import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const page = readFileSync(path.join(import.meta.dirname, '../../docs/operators.md'), 'utf8')

/** A Node with a name that is offered, one that nothing offers, and one whose kubelet forgot it. */
const CAPACITY = { cpu: '8', 'akri.sh/offered': '2', 'akri.sh/old': '0', 'akri.sh/forgotten': '3' }

/** As much of kubectl as the commands use. It writes its patches into the file `patches`. */
const KUBECTL = `#!${process.execPath}
const fs = require('node:fs')
const capacity = Object.entries(${JSON.stringify(CAPACITY)})
const [verb, ...rest] = process.argv.slice(2)
if (verb === 'patch') {
  const file = rest.find((option) => option.startsWith('--patch-file=')).split('=')[1]
  fs.appendFileSync('patches', fs.readFileSync(file === '/dev/stdin' ? 0 : file))
} else if (rest[0] === 'nodes') process.stdout.write('node/node-1\\n')
else {
  const range = /{{range [$]name, [$]count := .status.capacity}}(.*){{end}}/
  const [, template] = range.exec(rest.join(' '))
  for (const [name, count] of capacity)
    process.stdout.write(
      template
        .replace(/{{if eq [$]count "0"}}(.*){{end}}/, (_, text) => (count === '0' ? text : ''))
        .replace('{{$name}}', name)
        .replace('{{"\\\\n"}}', '\\n'),
    )
}
`

let directory: string

beforeEach(() => {
  directory = mkdtempSync(path.join(os.tmpdir(), 'akri-clean-up-'))
  writeFileSync(path.join(directory, 'kubectl'), KUBECTL)
  chmodSync(path.join(directory, 'kubectl'), 0o755)
})

afterEach(() => rmSync(directory, { recursive: true }))

describe('the commands of docs/operators.md for names of resources', () => {
  const commands = [...page.matchAll(/^```sh\n([^`]*?\.status\.capacity[^`]*?)```$/gm)]

  it.each(commands.map(([, code = '']) => [code.split('\n')[0], code]))(
    'remove each name, whatever its quantity is: %s',
    (_first, code) => {
      const env = { ...process.env, PATH: `${directory}:${process.env.PATH}` }
      const { status, stderr } = spawnSync('sh', ['-ec', code], { cwd: directory, env })
      expect([status, String(stderr)]).toEqual([0, ''])
      const removed = Object.fromEntries(
        Object.keys(CAPACITY).flatMap((name) => (name === 'cpu' ? [] : [[name, null]])),
      )
      expect(JSON.parse(readFileSync(path.join(directory, 'patches'), 'utf8'))).toEqual({
        status: { capacity: removed, allocatable: removed },
      })
    },
  )

  it('are there for one node, and for all nodes', () => {
    expect(commands).toHaveLength(2)
  })
})
