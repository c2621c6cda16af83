// Usage: SOURCE=https://github.com/OWNER/REPOSITORY node scripts/released-chart.mjs DIRECTORY REGISTRY
// Copies the chart to DIRECTORY/akri. The default image of the copy is that of the registry, such
// as ghcr.io/OWNER. Its alerts link to the runbooks of the version in the repository SOURCE.
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { IMAGES } from './image-contents.mjs'
import { checkSource, releasedFile } from './published.mjs'
import { manifestOf, root } from './workspaces.mjs'

const RUNBOOKS = 'docs/runbooks.md'

const [out, registry, ...more] = process.argv.slice(2)
const { SOURCE: source = '' } = process.env
if (out === undefined || !/^[\w.-]+(:\d+)?(\/[\w.-]+)*$/.test(registry ?? '') || more.length > 0)
  fail('usage: node scripts/released-chart.mjs DIRECTORY REGISTRY, with SOURCE in the environment')
try {
  checkSource(source)
} catch (error) {
  fail(`SOURCE: ${error.message}`)
}
const chart = path.join(path.resolve(out), 'akri')
cpSync(path.join(root, 'deploy/helm/akri'), chart, { recursive: true })
const values = path.join(chart, 'values.yaml')
const { version } = manifestOf('.')
const released = [
  [`localhost/${IMAGES.all.name}`, `${registry}/${IMAGES.all.name}`],
  [`runbooks: ${RUNBOOKS}\n`, `runbooks: ${releasedFile(RUNBOOKS, { source, version })}\n`],
].reduce(replaceOnce, readFileSync(values, 'utf8'))
for (const file of [values, path.join(chart, 'defaults.yaml')]) writeFileSync(file, released)

function replaceOnce(text, [unreleased, value]) {
  const [before, after, ...others] = text.split(unreleased)
  if (after === undefined || others.length > 0)
    fail(`values.yaml should have ${unreleased.trim()} once`)
  return `${before}${value}${after}`
}

function fail(text) {
  process.stderr.write(`released-chart: ${text}\n`)
  process.exit(1)
}
