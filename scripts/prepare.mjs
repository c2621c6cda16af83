// Makes a clone ready: installs what package-lock.json names and builds what has changed. Says what it does, and does
// nothing where nothing is to do. `--types` also writes declaration files, as publishing needs them.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const stampFile = path.join(root, '.cache/prepare.json')
const withTypes = process.argv.includes('--types')

const OLDEST_NODE = [20, 19]
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1])) {
  fail(`Node ${process.versions.node} is too old: Node ${OLDEST_NODE.join('.')} or newer is needed.`)
}

const stamp = readStamp()
install()
build()
link()

/** Packages in the order in which they are built, each with the folders whose sources end up in it. */
function packages() {
  const folders = (parent) =>
    readdirSync(path.join(root, parent), { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && existsSync(path.join(root, parent, entry.name, 'tsup.config.ts')))
      .map((entry) => `${parent}/${entry.name}`)
  const sdk = ['scripts/program-config.ts', 'proto', 'sdk']
  const agent = [...sdk, 'kube', 'agent']
  const list = [{ folder: 'sdk', sources: sdk }]
  for (const folder of [...folders('handlers'), ...folders('examples')]) list.push({ folder, sources: ['sdk', folder] })
  list.push({ folder: 'agent', sources: agent }, { folder: 'cli', sources: [...agent, 'cli'] })
  for (const folder of ['controller', 'webhook']) list.push({ folder, sources: [...sdk, 'kube', folder] })
  if (withTypes) list.push({ folder: 'proto', sources: ['proto'] }, { folder: 'kube', sources: ['kube'] })
  return list.filter(({ folder }) => existsSync(path.join(root, folder, 'tsup.config.ts')))
}

function install() {
  const lock = createHash('sha256')
    .update(readFileSync(path.join(root, 'package-lock.json')))
    .digest('hex')
  if (stamp.lock === lock && existsSync(path.join(root, 'node_modules/.package-lock.json'))) return
  if (existsSync(path.join(root, 'node_modules/.package-lock.json')) && npm(['ls', '--all', '--silent'], 'ignore') === 0) {
    writeStamp({ lock })
    return
  }
  say('installing what package-lock.json names (npm install), once')
  // Not `npm ci`: it wants the lock file to name the binaries of every platform, also of those that a registry lacks.
  if (npm(['install', '--no-audit', '--no-fund', '--loglevel=error'], 'inherit') !== 0) fail('npm install failed: see above')
  writeStamp({ lock })
}

function build() {
  for (const { folder, sources } of packages()) {
    const key = `${folder}${withTypes ? ' with types' : ''}`
    const digest = digestOf(['tsconfig.json', 'package-lock.json', ...sources])
    const built = stamp.built?.[key] ?? stamp.built?.[`${folder} with types`]
    if (built === digest && existsSync(path.join(root, folder, 'dist'))) continue
    say(`building ${folder}`)
    rmSync(path.join(root, folder, 'dist'), { recursive: true, force: true })
    const tsup = path.join(root, 'node_modules/tsup/dist/cli-default.js')
    const env = { ...process.env, AKRI_TYPES: withTypes ? '1' : '' }
    const run = spawnSync(process.execPath, [tsup, '--silent'], { cwd: path.join(root, folder), stdio: 'inherit', env })
    if (run.status !== 0) fail(`building ${folder} failed: see above`)
    writeStamp({ built: { ...stamp.built, [`${folder} with types`]: undefined, [key]: digest } })
  }
}

/** So that `npx akri` works: npm links programs when it installs, and there were none yet. */
function link() {
  const manifests = packages().map(({ folder }) => JSON.parse(readFileSync(path.join(root, folder, 'package.json'), 'utf8')))
  const isLinked = (program) => existsSync(path.join(root, 'node_modules/.bin', program))
  const names = manifests.filter(({ bin = {} }) => !Object.keys(bin).every(isLinked)).map(({ name }) => name)
  if (names.length === 0) return
  if (npm(['rebuild', '--ignore-scripts', '--silent', ...names], 'ignore') !== 0) fail(`npm rebuild ${names.join(' ')} failed`)
}

/** A digest of names, sizes and times of all files below, without reading them. */
function digestOf(entries) {
  const hash = createHash('sha256')
  const visit = (relative) => {
    const file = path.join(root, relative)
    const stat = statSync(file, { throwIfNoEntry: false })
    if (!stat) return
    if (!stat.isDirectory()) {
      if (!relative.endsWith('.test.ts')) hash.update(`${relative} ${stat.size} ${stat.mtimeMs}\n`)
      return
    }
    for (const name of readdirSync(file).sort()) {
      if (!['node_modules', 'dist', 'recorded'].includes(name)) visit(path.join(relative, name))
    }
  }
  for (const entry of entries) visit(entry)
  return hash.digest('hex')
}

function npm(args, stdio) {
  const options = { cwd: root, stdio, env: process.env }
  // Inside of an npm script, npm_execpath is the very npm that runs it.
  const cli = process.env.npm_execpath
  return (cli?.endsWith('.js') ? spawnSync(process.execPath, [cli, ...args], options) : spawnSync('npm', args, options)).status
}

function readStamp() {
  try {
    return JSON.parse(readFileSync(stampFile, 'utf8'))
  } catch {
    return {}
  }
}

function writeStamp(change) {
  Object.assign(stamp, change)
  mkdirSync(path.dirname(stampFile), { recursive: true })
  writeFileSync(stampFile, JSON.stringify(stamp, undefined, 2))
}

function say(text) {
  process.stderr.write(`akri: ${text}\n`)
}

function fail(text) {
  say(text)
  process.exit(1)
}
