// Usage: node scripts/released-chart.mjs DIRECTORY REGISTRY. Copies the chart to DIRECTORY/akri.
// The default image of the copy is that of the registry, such as ghcr.io/OWNER.
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { IMAGES } from './image-contents.mjs'
import { root } from './workspaces.mjs'

const [out, registry, ...more] = process.argv.slice(2)
if (out === undefined || !/^[\w.-]+(:\d+)?(\/[\w.-]+)*$/.test(registry ?? '') || more.length > 0)
  fail('usage: node scripts/released-chart.mjs DIRECTORY REGISTRY')
const chart = path.join(path.resolve(out), 'akri')
cpSync(path.join(root, 'deploy/helm/akri'), chart, { recursive: true })
const values = path.join(chart, 'values.yaml')
const text = readFileSync(values, 'utf8')
const unreleased = `localhost/${IMAGES.all.name}`
const parts = text.split(unreleased)
const [before, after] = parts
if (before === undefined || after === undefined || parts.length > 2)
  fail(`values.yaml should name ${unreleased} once`)
writeFileSync(values, `${before}${registry}/${IMAGES.all.name}${after}`)

function fail(text) {
  process.stderr.write(`released-chart: ${text}\n`)
  process.exit(1)
}
