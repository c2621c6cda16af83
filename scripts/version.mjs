// Makes the next version, by the changes that .changeset describes: in all packages, the chart, the
// images, the programs and the docs. The first step of `npm run release`.
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { manifestOf, root, workspaces } from './workspaces.mjs'

/** What stands before the version of akri.js. Elsewhere, a number is history, or of others. */
const BEFORE = [
  'ARG VERSION=',
  '"VERSION": \\{ "default": "',
  '^version: ',
  '^appVersion: ',
  "\\bversion: '",
  '\\bakri-agent(?:-[a-z-]+)?:',
  'newTag: ',
  '^\\.TH .* "akri ',
  '/charts/akri:',
  '[`/ ]v',
  '"@akrijs/[a-z-]+": "\\^?',
]
/** What has the version, but is history or is written again from the rest. */
const OTHERS = /(^|\/)(CHANGELOG\.md|package-lock\.json|sbom\.cdx\.json)$|^docs\/decisions\//

/** The text with the other version where it is that of akri.js. */
export function withVersion(text, from, to) {
  const version = `${from.replaceAll('.', '\\.')}(?![\\w-]|\\.\\d)`
  const tarball = `(?<=\\bakrijs-[\\w\${}-]*-)${version}(?=\\.tgz)`
  return text.replace(new RegExp(`(?<=${BEFORE.join('|')})${version}|${tarball}`, 'gm'), to)
}

/** The package, or its entry in package-lock.json, with this version of all packages of ours. */
export function packageWithVersion(manifest, names, from, to) {
  const ranges = (dependencies) =>
    Object.fromEntries(
      Object.entries(dependencies).map(([name, range]) => [
        name,
        names.has(name) ? range.replace(from, to) : range,
      ]),
    )
  const changed = { ...manifest, version: to }
  for (const field of ['dependencies', 'devDependencies', 'peerDependencies'])
    if (manifest[field] !== undefined) changed[field] = ranges(manifest[field])
  return changed
}

/** The changelog, whose changes without a release are those of this version. */
export function releasedChangelog(text, version, date) {
  return text.replace(/^## Unreleased$/m, `## Unreleased\n\n## ${version} - ${date}`)
}

function main() {
  const from = manifestOf('.').version
  if (git('status', '--porcelain') !== '')
    fail('the working tree has changes: commit them, or take them back')
  const { status } = spawnSync(
    process.execPath,
    [path.join(root, 'node_modules/@changesets/cli/bin.js'), 'version'],
    { cwd: root, stdio: 'inherit' },
  )
  if (status !== 0) fail('changesets failed: see above')
  const to = manifestOf('sdk').version
  if (to === from) fail('.changeset describes no change: write one with npx @changesets/cli')

  const names = new Set(workspaces().map(({ name }) => name))
  const change = (file, map) => {
    const before = readFileSync(path.join(root, file), 'utf8')
    const after = map(before)
    if (after !== before) writeFileSync(path.join(root, file), after)
  }
  const json = (map) => (text) => `${JSON.stringify(map(JSON.parse(text)), undefined, 2)}\n`
  const ofPackage = (manifest) => packageWithVersion(manifest, names, from, to)
  const folders = workspaces().map(({ folder }) => folder)
  change('package.json', json(ofPackage))
  for (const folder of folders) change(`${folder}/package.json`, json(ofPackage))
  change(
    'package-lock.json',
    json((lock) => {
      const packages = { ...lock.packages }
      for (const folder of ['', ...folders])
        if (packages[folder] !== undefined) packages[folder] = ofPackage(packages[folder])
      return { ...lock, version: to, packages }
    }),
  )
  // `-I`: no binaries.
  const files = git('grep', '-I', '-l', '-F', from).split('\n')
  for (const file of files.filter((name) => name !== '' && !OTHERS.test(name)))
    change(file, (text) => withVersion(text, from, to))
  change('CHANGELOG.md', (text) =>
    releasedChangelog(text, to, new Date().toISOString().slice(0, 10)),
  )
  process.stdout.write(`${from} -> ${to}\n`)
}

function git(...args) {
  const options = { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 26 }
  return execFileSync('git', args, options).trimEnd()
}

function fail(text) {
  process.stderr.write(`${text}\n`)
  process.exit(1)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main()
