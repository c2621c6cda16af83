import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { readDetails } from '../../sdk/src/handler/details.js'

const run = promisify(execFile)
const root = path.join(import.meta.dirname, '../..')
const examples = readdirSync(path.join(root, 'examples/handlers')).sort()

describe.each(examples)('R67 the example %s', (name) => {
  const directory = path.join(root, 'examples/handlers', name)

  it('has the lines that the page for authors says, under 60', () => {
    const lines = readFileSync(path.join(directory, 'handler.js'), 'utf8').trimEnd().split('\n')
    const page = readFileSync(path.join(root, 'docs/handler-authors.md'), 'utf8')
    expect(page).toContain(
      `| [${name}](../examples/handlers/${name}/handler.js) | ${lines.length} |`,
    )
    expect(lines.length).toBeLessThan(60)
  })

  it('takes the details that a project from it begins with', async () => {
    const { default: handler } = await import(path.join(directory, 'handler.js'))
    const { details } = JSON.parse(readFileSync(path.join(directory, 'example.json'), 'utf8'))
    expect(await readDetails(details, handler.details)).toMatchObject({ ok: true })
  })
})

it('R67 the examples pass their tests', async () => {
  const { NODE_OPTIONS: _, NODE_TEST_CONTEXT: __, ...env } = process.env
  const tests = examples.map((name) =>
    path.join(root, 'examples/handlers', name, 'handler.test.js'),
  )
  const { stdout } = await run(process.execPath, ['--test', ...tests], { env })
  expect(stdout).toMatch(/^(#|ℹ) fail 0$/m)
})
