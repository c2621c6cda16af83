// Makes a clone ready: installs the packages of package-lock.json and builds what has changed.
// `--types` also writes declaration files, which publishing needs.
// `--unit` only installs what unit tests need, and builds nothing.
// `--start` installs and builds only what `npm start` needs: the packages that are not a
// devDependency, and the program `akri` with its handlers. `akri migrate` does not run then.
// `--start --demo` adds the brokers of the demo, whose packages also have its servers.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { availableParallelism } from 'node:os'
import path from 'node:path'
import { writeProblem } from '../runtime/src/errors/write-problem.mjs'
import { manifestOf, metafileOf, reach, root, workspaceFolders, workspaces } from './workspaces.mjs'

const stampFile = path.join(root, '.cache/prepare.json')
const withTypes = process.argv.includes('--types')
const forStart = process.argv.includes('--start')
const forDemo = process.argv.includes('--demo')
const forUnits = process.argv.includes('--unit')
const DEMO_BROKERS = ['examples/onvif-snapshot', 'examples/opcua-subscriber']
/** Workspaces with the tools of checks and releases, and with peers of system tests. */
const NO_UNITS = ['scripts', 'test', 'bench', 'examples/opcua-subscriber', 'handlers/opcua']
const scopeOf = (folders) => ['--include=dev', ...folders.map((folder) => `--workspace=${folder}`)]
const SCOPES = {
  start: { what: 'what npm start needs', scope: ['--omit=dev'] },
  demo: { what: 'what the demo needs', scope: scopeOf(DEMO_BROKERS) },
  units: {
    what: 'what unit tests need',
    scope: [
      '--include-workspace-root',
      ...scopeOf(workspaceFolders().filter((folder) => !NO_UNITS.includes(folder))),
    ],
  },
  all: { what: 'all packages', scope: ['--include=dev'] },
}
/** Long work tells this often that it goes on. */
const BEAT_MS = 10_000
const NO_SOURCES = ['node_modules', 'dist', 'recorded', 'test-peers']

process.on('uncaughtException', (error) => fail(problemOf(error.message) ?? error.stack))

const [, major, minor] = /(\d+)\.(\d+)/.exec(manifestOf('.').engines.node).map(Number)
const [nodeMajor, nodeMinor] = process.versions.node.split('.').map(Number)
if (nodeMajor < major || (nodeMajor === major && nodeMinor < minor)) {
  fail(`Node ${process.versions.node} is too old: install Node ${major}.${minor} or newer`)
}

const stamp = readStamp()
await install()
/** Otherwise some programs are built without a part. */
const hasAll = stamp.scopes.includes('all')
const all = workspaces()
const isProgram = ({ folder, manifest: { bin = {}, akri } }) =>
  forStart
    ? 'akri' in bin || (forDemo && DEMO_BROKERS.includes(folder))
    : Object.keys(bin).length > 0 || akri !== undefined
const packages = (withTypes ? all : reach(all, all.filter(isProgram), 'imports')).filter(
  ({ isBuilt }) => isBuilt,
)
if (!forUnits) {
  await build()
  link()
}

/** Installs a scope, and those of before: what is there is never removed. */
async function install() {
  const lock = createHash('sha256')
    .update(readFileSync(path.join(root, 'package-lock.json')))
    .digest('hex')
  const isInstalled = existsSync(path.join(root, 'node_modules/.package-lock.json'))
  // Without a stamp, a person installed by hand.
  const installed = stamp.scopes ?? (isInstalled ? ['all'] : [])
  const needed = forStart ? ['start', ...(forDemo ? ['demo'] : [])] : [forUnits ? 'units' : 'all']
  const isCurrent = isInstalled && stamp.lock === lock
  const has = (name) => installed.includes(name) || installed.includes('all')
  if (isCurrent && needed.every(has)) return
  const wanted = [...new Set([...installed, ...needed])]
  const scopes = wanted.includes('all') ? ['all'] : wanted
  for (const { what, scope } of scopes.map((name) => SCOPES[name])) {
    const list = [...npm(), 'ls', '--all', '--silent', ...scope]
    if (isInstalled && spawnSync(list[0], list.slice(1), { cwd: root }).status === 0) continue
    // `npm ci` wants the lock file to name the binaries of every platform, but a registry can lack
    // some.
    const args = ['install', ...scope, '--no-save', '--no-audit', '--no-fund', '--loglevel=error']
    say(`installing ${what}`)
    await run(`installing ${what}`, [...npm(), ...args])
  }
  writeStamp({ lock, scopes })
}

/** Builds what has changed: each package after those that it needs, on all processors. */
async function build() {
  const waiting = new Map(packages.map((workspace) => [workspace.name, workspace]))
  const running = new Map()
  for (const [name, workspace] of waiting) if (isUpToDate(workspace)) waiting.delete(name)
  while (waiting.size + running.size > 0) {
    for (const [name, workspace] of waiting) {
      const isReady = reach(all, [workspace], 'needs').every(
        (needed) => needed === workspace || !(waiting.has(needed.name) || running.has(needed.name)),
      )
      if (!isReady || running.size >= availableParallelism()) continue
      waiting.delete(name)
      running.set(
        name,
        buildPackage(workspace).then(() => running.delete(name)),
      )
    }
    await Promise.race(running.values())
  }
}

async function buildPackage(workspace) {
  const { folder } = workspace
  const digest = digestOf(workspace)
  say(`building ${folder}`)
  rmSync(path.join(root, folder, 'dist'), { recursive: true, force: true })
  const tsup = path.join(root, 'node_modules/tsup/dist/cli-default.js')
  const command = [process.execPath, tsup, '--silent', '--metafile']
  await run(`building ${folder}`, command, {
    cwd: path.join(root, folder),
    env: {
      ...process.env,
      AKRI_TYPES: withTypes ? '1' : '',
      AKRI_WITHOUT_DEV: hasAll ? '' : '1',
    },
  })
  // Now, and not when it is needed: then another user may run this.
  for (const file of Object.values(workspace.manifest.bin ?? {}))
    chmodSync(path.join(root, folder, file), 0o755)
  const hasMetafile = takeMetafiles(folder)
  const result = { digest, withTypes, withDev: hasAll, hasMetafile }
  writeStamp({ built: { ...stamp.built, [folder]: result } })
}

/**
 * Moves what esbuild says about the builds of a package out of its dist: one for each directory of
 * results.
 * @returns {boolean} false for a package with declarations only
 */
function takeMetafiles(folder) {
  const dist = path.join(root, folder, 'dist')
  const files = readdirSync(dist, { recursive: true })
    .filter((file) => path.basename(file) === 'metafile-esm.json')
    .map((file) => path.join(dist, file))
  const metafiles = files.map((file) => JSON.parse(readFileSync(file, 'utf8')))
  for (const file of files) rmSync(file)
  if (metafiles.length === 0) return false
  const [inputs, outputs] = ['inputs', 'outputs'].map((name) =>
    Object.assign({}, ...metafiles.map((metafile) => metafile[name])),
  )
  mkdirSync(path.dirname(metafileOf(folder)), { recursive: true })
  writeFileSync(metafileOf(folder), JSON.stringify({ inputs, outputs }))
  return true
}

function isUpToDate(workspace) {
  const built = stamp.built?.[workspace.folder]
  return (
    built?.digest === digestOf(workspace) &&
    (built.withTypes || !withTypes) &&
    (built.withDev || !hasAll) &&
    built.hasMetafile === existsSync(metafileOf(workspace.folder)) &&
    existsSync(path.join(root, workspace.folder, 'dist'))
  )
}

/** For `npx @akrijs/cli`. npm links programs only when they are there while it installs. */
function link() {
  for (const { name, manifest } of packages)
    for (const [program, file] of Object.entries(manifest.bin ?? {})) {
      const link = path.join(root, 'node_modules/.bin', program)
      if (!existsSync(link)) symlinkSync(path.join('..', name, file), link)
    }
}

/** A digest of names, sizes and times of the sources that end up in the package; it reads none. */
function digestOf(workspace) {
  const hash = createHash('sha256')
  const visit = (relative) => {
    const file = path.join(root, relative)
    const stat = statSync(file)
    if (stat.isDirectory()) {
      for (const name of readdirSync(file).sort())
        if (!NO_SOURCES.includes(name)) visit(path.join(relative, name))
    } else if (!relative.endsWith('.test.ts')) {
      hash.update(`${relative} ${stat.size} ${stat.mtimeMs}\n`)
    }
  }
  const folders = reach(all, [workspace], 'needs').map(({ folder }) => folder)
  for (const entry of [
    'tsconfig.json',
    'package-lock.json',
    'scripts/program-config.ts',
    'handlers/details-fields.ts',
    ...folders,
  ])
    visit(entry)
  return hash.digest('hex')
}

/** The npm that runs this script, if one does. */
function npm() {
  const cli = process.env.npm_execpath
  return cli?.endsWith('.js') ? [process.execPath, cli] : ['npm']
}

/** Runs a command, and shows its output after its end. `what` it does shows now and then. */
async function run(what, [program, ...args], options = { cwd: root }) {
  const began = Date.now()
  const beat = setInterval(() => {
    say(`${what}: ${Math.round((Date.now() - began) / 1000)} s`)
  }, BEAT_MS)
  const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  const [code] = await once(child, 'close')
  clearInterval(beat)
  const problem = code === 0 ? undefined : problemOf(output)
  if (problem !== undefined) fail(problem)
  process.stderr.write(output)
  if (code !== 0) fail(`${what} failed: see above`)
}

/** One line with a remedy, if something cannot be written. */
function problemOf(text) {
  // npm also writes its cache.
  const { npm_config_cache: cache } = process.env
  const directories = cache ? [root, cache] : [root]
  return writeProblem(text, { directories, elsewhere: 'use a clone in another directory' })
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
  // A full disk would leave half of a file.
  writeFileSync(`${stampFile}.new`, JSON.stringify(stamp, undefined, 2))
  renameSync(`${stampFile}.new`, stampFile)
}

function say(text) {
  process.stderr.write(`akri: ${text}\n`)
}

function fail(text) {
  say(text)
  process.exit(1)
}
