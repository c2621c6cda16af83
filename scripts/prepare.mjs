// Makes a clone ready: installs the packages of package-lock.json and builds what has changed.
// `--types` also writes declaration files, which publishing needs; `--no-build` only installs.
// `--start` installs and builds only what `npm start` needs: the packages that are not a
// devDependency, and the program `akri` with its handlers. `akri migrate` does not run then.
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
import { manifestOf, metafileOf, reach, root, workspaces } from './workspaces.mjs'

const stampFile = path.join(root, '.cache/prepare.json')
const withTypes = process.argv.includes('--types')
const forStart = process.argv.includes('--start')
const NO_SOURCES = ['node_modules', 'dist', 'recorded', 'test-peers']

const [, major, minor] = /(\d+)\.(\d+)/.exec(manifestOf('.').engines.node).map(Number)
const [nodeMajor, nodeMinor] = process.versions.node.split('.').map(Number)
if (nodeMajor < major || (nodeMajor === major && nodeMinor < minor)) {
  fail(`Node ${process.versions.node} is too old: install Node ${major}.${minor} or newer`)
}

const stamp = readStamp()
install()
const all = workspaces()
const isProgram = ({ manifest: { bin = {}, akri } }) =>
  forStart ? 'akri' in bin : Object.keys(bin).length > 0 || akri !== undefined
const packages = (withTypes ? all : reach(all, all.filter(isProgram), 'imports')).filter(
  ({ isBuilt }) => isBuilt,
)
if (!process.argv.includes('--no-build')) {
  await build()
  link()
}

function install() {
  const lock = createHash('sha256')
    .update(readFileSync(path.join(root, 'package-lock.json')))
    .digest('hex')
  const isInstalled = existsSync(path.join(root, 'node_modules/.package-lock.json'))
  // Without a stamp, a person installed by hand. What is there is never removed.
  const hasAll = stamp.all ?? isInstalled
  if (isInstalled && stamp.lock === lock && (hasAll || forStart)) return
  const wantsAll = hasAll || !forStart
  const scope = wantsAll ? '--include=dev' : '--omit=dev'
  if (!isInstalled || npm(['ls', '--all', '--silent', scope], 'ignore') !== 0) {
    say(`installing ${wantsAll ? 'all packages' : 'what npm start needs'} (npm install ${scope})`)
    // `npm ci` wants the lock file to name the binaries of every platform, but a registry can lack
    // some.
    const args = ['install', scope, '--no-save', '--no-audit', '--no-fund', '--loglevel=error']
    if (npm(args, 'inherit') !== 0) fail('npm install failed: see above')
  }
  writeStamp({ lock, all: wantsAll })
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
  say(`building ${folder}`)
  const digest = digestOf(workspace)
  rmSync(path.join(root, folder, 'dist'), { recursive: true, force: true })
  const child = spawn(
    process.execPath,
    [path.join(root, 'node_modules/tsup/dist/cli-default.js'), '--silent', '--metafile'],
    {
      cwd: path.join(root, folder),
      stdio: ['ignore', 'inherit', 'inherit'],
      env: {
        ...process.env,
        AKRI_TYPES: withTypes ? '1' : '',
        AKRI_WITHOUT_DEV: stamp.all ? '' : '1',
      },
    },
  )
  const [code] = await once(child, 'close')
  if (code !== 0) fail(`building ${folder} failed: see above`)
  const metafile = path.join(root, folder, 'dist/metafile-esm.json')
  // A package with declarations only has none.
  const hasMetafile = existsSync(metafile)
  if (hasMetafile) {
    mkdirSync(path.dirname(metafileOf(folder)), { recursive: true })
    renameSync(metafile, metafileOf(folder))
  }
  const result = { digest, withTypes, withDev: stamp.all, hasMetafile }
  writeStamp({ built: { ...stamp.built, [folder]: result } })
}

function isUpToDate(workspace) {
  const built = stamp.built?.[workspace.folder]
  return (
    built?.digest === digestOf(workspace) &&
    (built.withTypes || !withTypes) &&
    (built.withDev || !stamp.all) &&
    built.hasMetafile === existsSync(metafileOf(workspace.folder)) &&
    existsSync(path.join(root, workspace.folder, 'dist'))
  )
}

/** For `npx @akrijs/cli`. npm links programs only when they are there while it installs. */
function link() {
  for (const { folder, name, manifest } of packages)
    for (const [program, file] of Object.entries(manifest.bin ?? {})) {
      chmodSync(path.join(root, folder, file), 0o755)
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
    ...folders,
  ])
    visit(entry)
  return hash.digest('hex')
}

function npm(args, stdio) {
  const options = { cwd: root, stdio }
  // In an npm script, npm_execpath is the npm that runs it.
  const cli = process.env.npm_execpath
  const isScript = cli?.endsWith('.js')
  return spawnSync(isScript ? process.execPath : 'npm', isScript ? [cli, ...args] : args, options)
    .status
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
