// A registry for npm packages, for tests: verdaccio, which asks no other registry. It has the
// packages of others that published packages need.
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { publishedPackages } from './published.mjs'
import { manifestOf, root } from './workspaces.mjs'

/** A folder in which verdaccio is installed. */
const VERDACCIO = process.env.AKRI_TEST_VERDACCIO

/** What a registry needs and this machine lacks. @returns {string | undefined} */
export function missingRegistry() {
  return VERDACCIO !== undefined && existsSync(path.join(VERDACCIO, 'node_modules/verdaccio'))
    ? undefined
    : 'verdaccio in AKRI_TEST_VERDACCIO'
}

/** Serves at a port that the kernel chooses, and prints the port. */
const REGISTRY = `
const { runServer } = require('verdaccio')
runServer({
  configPath: process.cwd(),
  self_path: process.cwd(),
  storage: './storage',
  uplinks: {},
  packages: { '**': { access: '$all', publish: '$all' } },
  log: { type: 'stdout', format: 'json', level: 'fatal' },
}).then((app) => {
  const server = app.listen(0, '127.0.0.1', () => console.log('port ' + server.address().port))
})`

/**
 * @param {string} directory where the registry and the caches of npm are
 * @returns {Promise<{ env: NodeJS.ProcessEnv, close: () => void }>} `env` is for programs that use
 *   the registry
 */
export async function startRegistry(directory) {
  const storage = path.join(directory, 'registry')
  mkdirSync(storage)
  const registry = spawn(process.execPath, ['-e', REGISTRY], {
    cwd: storage,
    env: { ...process.env, NODE_PATH: path.join(VERDACCIO ?? '', 'node_modules') },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const port = await portOf(registry.stdout)
  const npmrc = path.join(directory, 'npmrc')
  const url = `http://127.0.0.1:${port}/`
  const lines = [
    `registry=${url}`,
    `//127.0.0.1:${port}/:_authToken=a-token-that-counts-nowhere`,
    `cache=${path.join(directory, 'cache')}`,
    'noproxy=127.0.0.1',
    'audit=false',
    'fund=false',
    'update-notifier=false',
  ]
  writeFileSync(npmrc, `${lines.join('\n')}\n`)
  // Without the settings of the npm that runs these tests.
  const others = Object.entries(process.env).filter(([name]) => !/^npm_|^NODE_OPTIONS$/i.test(name))
  const env = { ...Object.fromEntries(others), npm_config_userconfig: npmrc }
  for (const name of packagesOfOthers()) {
    const tarball = path.join(directory, 'other.tgz')
    // All files: some packages are released with more than their manifest lists.
    const renamed = `--transform=s,^${name},package,`
    execFileSync('tar', ['-czf', tarball, '-C', path.join(root, 'node_modules'), renamed, name])
    // A manifest can name the registry of its releases.
    const options = ['--access=public', `--registry=${url}`, '--silent']
    execFileSync('npm', ['publish', tarball, ...options], { cwd: directory, env })
  }
  return { env, close: () => registry.kill('SIGKILL') }
}

/** The installed packages of others that published packages need, and those that these need. */
function packagesOfOthers() {
  /** @type {Set<string>} */
  const names = new Set()
  const add = ({ dependencies = {}, optionalDependencies = {} }) => {
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const folder = path.join('node_modules', name)
      // Binaries of other platforms are not installed.
      if (name.startsWith('@akrijs/') || names.has(name) || !existsSync(path.join(root, folder)))
        continue
      names.add(name)
      add(manifestOf(folder))
    }
  }
  for (const { manifest } of publishedPackages()) add(manifest)
  return names
}

async function portOf(stdout) {
  for await (const line of createInterface(stdout)) {
    const port = /^port (\d+)$/.exec(line)?.[1]
    if (port !== undefined) return port
  }
  throw new Error('verdaccio ended')
}
